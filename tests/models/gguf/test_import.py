"""Imported GGUF files: their values, types, names, and what is written beside the weights."""

import json
import math
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.codes import raises
from tests.models.gguf.files import LLAMA, llama_tensors, settings, vocabulary, write_gguf
from zoo.core import read_header
from zoo.core.errors import InputError, NotAvailableError
from zoo.models import resolve
from zoo.models.gguf import find_imported, import_gguf, imported_names
from zoo.models.gguf.imported import imported_folder, is_plain_name, plain_name, read_record
from zoo.models.gguf.parts import open_gguf
from zoo.models.gguf.weights import dequantised
from zoo.models.names import is_known_name, parse_name
from zoo.models.resolve import is_path, model_of_folder, model_of_text


def weights(folder: Path) -> dict[str, Any]:
    """Returns the tensors of a folder by name."""
    from safetensors.torch import load_file

    found: dict[str, Any] = load_file(folder / "model.safetensors")
    return found


def made(tmp_path: Path, kind: str = "F32", name: str = "tiny.gguf", **keys: Any) -> Path:
    """Writes the tiny Llama with matrices of a type."""
    sizes = llama_tensors()
    return write_gguf(tmp_path / name, settings("llama", LLAMA, **keys), sizes, kind)


@pytest.mark.slow
def test_the_imported_model_has_the_logits_of_its_original(shared: Callable[[str], Path]) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    loader: Any = AutoModelForCausalLM
    file, original = (shared(f"data/models/stories260K{suffix}") for suffix in (".gguf", ""))
    ids = torch.tensor([[1, 403, 407, 261, 378, 12, 99]])
    ours, theirs = (
        loader.from_pretrained(folder, dtype=torch.float32)(ids).logits
        for folder in (import_gguf(file).folder, original)
    )
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_values_are_those_of_gguf_rounded_once(tmp_path: Path, kind: str) -> None:
    import torch

    file = made(tmp_path, kind)
    result = import_gguf(file)
    stored = weights(result.folder)["model.layers.1.mlp.down_proj.weight"]
    values = torch.from_numpy(dequantised(open_gguf(file), "blk.1.ffn_down.weight"))
    expected = {"F32": torch.float32, "F16": torch.float16}.get(kind, torch.bfloat16)
    assert stored.dtype == expected
    assert torch.equal(stored, values.to(expected))
    assert json.loads((result.folder / "config.json").read_text())["dtype"] == str(expected)[6:]


def test_norms_beside_float16_keep_float32(tmp_path: Path) -> None:
    header = read_header(import_gguf(made(tmp_path, "F16")).folder / "model.safetensors")
    assert header.tensors["model.norm.weight"].dtype == "F32"
    assert header.tensors["model.embed_tokens.weight"].dtype == "F16"


def test_the_card_says_what_the_weights_were(tmp_path: Path) -> None:
    result = import_gguf(made(tmp_path, "Q4_1", **{"general.license": "mit"}))
    card = (result.folder / "README.md").read_text()
    assert "Weights had 4 bits (Q4_1), widened to bfloat16." in card
    assert "license: mit" in card
    assert "no chat template" in card
    assert open_gguf(tmp_path / "tiny.gguf").sha256() in card


def test_a_card_of_hostile_names_stays_one_table(tmp_path: Path) -> None:
    result = import_gguf(
        made(tmp_path, **{"general.name": "a|b\n\x1b[2J# c", "general.license": "x\n---\ny"})
    )
    card = (result.folder / "README.md").read_text()
    assert "| name | a/b [2J# c |" in card
    assert "\x1b" not in card
    assert card.count("---\n") == 2  # those of the header


@pytest.mark.parametrize(
    "licence", ["mit", "{a:b", "no", "1.0", "'", "- x", "a:", "#", "null", "é"]
)
def test_the_card_has_the_licence_as_a_text(tmp_path: Path, licence: str) -> None:
    card = (
        import_gguf(made(tmp_path, **{"general.license": licence})).folder / "README.md"
    ).read_text(encoding="utf-8")
    head = yaml.safe_load(card.split("---\n")[1])
    assert head.get("license") == (licence if " " not in licence else None)
    assert head["library_name"] == "transformers"


def test_the_card_leaves_out_what_is_no_text(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"general.license": ["mit"], "general.organization": 3}
    file = made(tmp_path, **keys)
    card = (import_gguf(file).folder / "README.md").read_text()
    assert "| licence | not in the file |" in card
    assert "organization" not in card


def test_an_answer_ends_at_every_token_that_ends_a_turn(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"tokenizer.ggml.eot_token_id": 1}
    file = made(tmp_path, "F32", "tiny.gguf", **keys)
    content = json.loads((import_gguf(file).folder / "generation_config.json").read_text())
    assert content["eos_token_id"] == [2, 1]


def test_the_chat_template_is_that_of_the_file(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    folder = import_gguf(made(tmp_path, **{"tokenizer.chat_template": template})).folder
    assert (folder / "chat_template.jinja").read_text() == template


def with_ends(tmp_path: Path, bos: str, eos: str) -> tuple[Path, list[str]]:
    """Returns the folder of a model whose texts get both tokens, and its vocabulary."""
    tokens = ["<unk>", bos, eos, *vocabulary()["tokenizer.ggml.tokens"][3:]]
    ends = {f"tokenizer.ggml.add_{name}_token": True for name in ("bos", "eos")}
    keys: dict[str, Any] = {"tokenizer.ggml.tokens": tokens, **ends}
    return import_gguf(made(tmp_path, "F32", "tiny.gguf", **keys)).folder, tokens


@pytest.mark.parametrize("eos", ["</s>", "bos", "$B"])
@pytest.mark.parametrize("bos", ["<s>", "$A", "a b", "a:1", "eos", "{}", ""])
def test_a_text_starts_with_the_token_whatever_its_name(tmp_path: Path, bos: str, eos: str) -> None:
    from transformers import AutoTokenizer

    folder, tokens = with_ends(tmp_path, bos, eos)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("!").input_ids == [1, tokens.index("!"), 2]
    assert tokenizer("!", "ab").input_ids == [1, tokens.index("!"), 2, 1, tokens.index("ab"), 2]


@pytest.mark.parametrize(("bos", "eos"), [("<s>", "</s>"), ("bos", "eos"), ("<s>", "$A")])
def test_llama_cpps_converter_sees_that_a_text_starts_with_bos(
    tmp_path: Path, bos: str, eos: str
) -> None:
    from gguf.vocab import SpecialVocab

    added = SpecialVocab(with_ends(tmp_path, bos, eos)[0]).add_special_token
    assert (added["bos"], added["eos"]) == (True, True)


@pytest.mark.slow
def test_the_digest_of_an_imported_tokenizer_stays(shared: Callable[[str], Path]) -> None:
    from zoo.gym.delta.origin.digests import form_digests

    folder = import_gguf(shared("data/models/stories260K.gguf")).folder
    digest = "571290b7b90437a0be12519c2c6363912d1fb60c8b49979585ec82d3135d1085"
    assert form_digests(folder)["tokens"] == digest  # deltas have it


@pytest.mark.parametrize("template", [{}, {"tokenizer.chat_template": " \n"}])
def test_a_file_without_a_template_says_so(tmp_path: Path, template: dict[str, str]) -> None:
    result = import_gguf(made(tmp_path, **template))
    assert "no chat template in the file" in result.notices[1]
    assert not (result.folder / "chat_template.jinja").exists()


def test_the_same_file_is_imported_once(llama: Path, tmp_path: Path) -> None:
    first = import_gguf(llama)
    second = import_gguf(llama.rename(tmp_path / "other.gguf"))
    assert (first.is_new, second.is_new, second.name) == (True, False, first.name)
    assert imported_names() == [first.name]


def test_another_file_under_a_taken_name_is_refused(tmp_path: Path) -> None:
    import_gguf(made(tmp_path), "mine")
    with raises("models.name_taken", "the name 'mine' is taken") as caught:
        import_gguf(made(tmp_path, "F16", "second.gguf"), "mine")
    assert "--name NAME" in str(caught.value.hint)


@pytest.mark.parametrize(
    "name", ["../up", "Up", "a/b", "", ".hidden", "-x", "x" * 65, "zen-nano", "x.gguf"]
)
def test_a_name_that_is_no_name_is_refused(llama: Path, home: Path, name: str) -> None:
    with pytest.raises(InputError, match="--name"):
        import_gguf(llama, name)
    assert imported_names() == []
    assert [path.name for path in home.iterdir()] == [".lock"]


def test_a_model_imported_under_the_name_of_a_file_is_still_found(llama: Path) -> None:
    result = import_gguf(llama, "mine")
    result.folder.rename(result.folder.with_name("mine.gguf"))
    assert imported_names() == ["mine.gguf"]
    assert import_gguf(llama).name == "mine.gguf"


def test_only_the_pinned_file_can_be_named_smollm2(llama: Path) -> None:
    with raises("models.name_taken", "'smollm2' is the name of a listed model"):
        import_gguf(llama, "smollm2")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("../x", "x"),
        ("Llama 3.2 1B (Q4)", "llama-3.2-1b-q4"),
        ("..", ""),
        ("\x1b[2J", "2j"),
        ("Zoë", "zo"),
        ("a" * 99, "a" * 64),
        ("My Model.GGUF", "my-model"),
        ("x.gguf-.gguf", "x"),
        ("a" * 59 + ".ggufx", "a" * 59),
        (".gguf", "gguf"),
    ],
)
def test_a_title_becomes_a_plain_name(text: str, name: str) -> None:
    assert plain_name(text) == name


@given(st.one_of(st.text(), st.from_regex(r"[a-z0-9._-]{1,70}(\.gguf)*", fullmatch=True)))
def test_a_plain_name_is_no_path_and_means_the_model(text: str) -> None:
    name = plain_name(text)
    assume(name and not is_known_name(name) and not Path(name).exists())
    assert is_plain_name(name)
    assert not is_path(name)
    assert parse_name(name, [name]).id == name


@pytest.mark.parametrize(
    ("title", "name"),
    [("My.gguf", "my"), ("My Model", "my-model"), ("../../..", "tiny"), ("SmolLM2", "tiny")],
)
def test_the_name_is_from_the_title_or_else_the_file(tmp_path: Path, title: str, name: str) -> None:
    assert import_gguf(made(tmp_path, **{"general.name": title})).name == name


def test_an_imported_model_is_found_by_its_name(llama: Path) -> None:
    folder = import_gguf(llama, "mine").folder
    found = resolve("mine", offline=True)
    assert (found.id, found.revision, found.folder) == ("mine", None, folder)
    names = model_of_folder(folder), model_of_text("mine"), model_of_text(str(folder))
    assert [name.id for name in names if name] == ["mine"] * 3


def test_the_error_for_an_unknown_name_lists_imported_models(llama: Path) -> None:
    import_gguf(llama, "mine")
    with raises("models.unknown_model", r"expected one of zen-pico, .*, mine, an id"):
        resolve("mime", offline=True)


def test_an_imported_model_has_no_revisions(llama: Path) -> None:
    import_gguf(llama, "mine")
    with raises("models.no_such_revision", "expected no revision, got 'v2'"):
        resolve("mine@v2")


def test_a_file_is_not_imported_unless_somebody_agrees(llama: Path, home: Path) -> None:
    refuse = Mock(return_value=False)
    for confirm in (None, refuse):
        with raises("models.not_imported") as caught:
            resolve(str(llama), confirm=confirm)
        assert f"zoo-gym models import {llama}" in str(caught.value.hint)
    # 260 x 32 values of the embedding, 9,248 of each of two blocks, 32 of the last norm
    assert refuse.call_args.args == (str(llama), 4 * (260 * 32 + 2 * 9_280 + 32))
    assert not home.exists()


@pytest.mark.parametrize("name", ["my file; rm.gguf", "it's $HOME.gguf", "; ;.gguf"])
def test_a_command_to_copy_is_quoted_for_the_shell(tmp_path: Path, name: str) -> None:
    import_gguf(made(tmp_path), "mine")
    file = made(tmp_path, "F16", name, **{"general.name": "zen-nano"})
    uses: list[Callable[[], object]] = [
        lambda: resolve(str(file)),
        lambda: import_gguf(file, "mine"),
        lambda: import_gguf(file, "zen-nano"),
    ]
    if name.startswith(";"):  # no name can be made of the file's
        uses.append(lambda: import_gguf(file))
    for use in uses:
        with pytest.raises((InputError, NotAvailableError)) as caught:
            use()
        words = shlex.split(str(caught.value.hint).replace(",", " "))
        assert words[:4] == ["zoo-gym", "models", "import", str(file)]


def test_a_file_named_as_a_model_is_imported_after_consent(llama: Path) -> None:
    first = resolve(str(llama), confirm=lambda *_: True)
    assert first.id == "tiny"
    assert first.notice is not None
    assert "float32" in first.notice
    again = resolve(llama, offline=True)
    assert (again.id, again.folder, again.notice) == ("tiny", first.folder, None)


def test_a_changed_file_is_another_model(tmp_path: Path) -> None:
    resolve(str(made(tmp_path)), confirm=lambda *_: True)
    with raises("models.not_imported"):
        resolve(str(made(tmp_path, "F16")))


def split(tmp_path: Path, parts: int = 3) -> list[Path]:
    """Writes the tiny Llama in parts."""
    from gguf import GGUFWriter

    path = tmp_path / "parts"
    path.mkdir()
    tensors = llama_tensors()
    writer = GGUFWriter(path / "big", "llama", split_max_tensors=-(-len(tensors) // parts))
    from gguf import GGUFValueType

    types = {bool: GGUFValueType.BOOL, int: GGUFValueType.UINT32, float: GGUFValueType.FLOAT32}
    for key, value in settings("llama", LLAMA).items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif key != "general.architecture":
            writer.add_key_value(key, value, types.get(type(value), GGUFValueType.STRING))
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file(path / "big.gguf")
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(path.glob("*.gguf"))


@pytest.mark.parametrize("named", [0, 1, 2])
def test_any_part_means_the_whole_model(tmp_path: Path, llama: Path, named: int) -> None:
    files = split(tmp_path)
    whole, parts = import_gguf(llama, "whole"), import_gguf(files[named], "parts")
    one, other = ((r.folder / "model.safetensors").read_bytes() for r in (whole, parts))
    assert one == other


@pytest.mark.parametrize(
    ("key", "value", "got"),
    [
        ("llama.rope.freq_base", 77.0, "10000.0 as in 'big-00001-of-00002.gguf', got 77.0"),
        ("llama.attention.head_count", True, "4 as in .*, got True"),
        ("tokenizer.ggml.token_type", [3] * 260, r"\[3, 3, 3, 1, .* as in .*, got \[3, 3, 3, 3"),
        ("tokenizer.ggml.merges", ["b a"], r"\['a b'\] as in .*, got \['b a'\]"),
        ("general.languages", ["en"], r"none as in .*, got \['en'\]"),
        ("general.name", "another", "none as in .*, got 'another'"),
    ],
)
def test_a_part_of_another_model_is_refused(tmp_path: Path, key: str, value: Any, got: str) -> None:
    files = in_two(tmp_path, {key: value})
    for file in files:
        with raises("models.gguf_setting", rf"00002\.gguf': {re.escape(key)}: expected {got}"):
            import_gguf(file)


def test_parts_in_another_order_are_refused(tmp_path: Path) -> None:
    files = in_two(tmp_path, {"split.no": 0})
    with raises("models.gguf_setting", r"00002\.gguf': split\.no: expected 1, got 0"):
        import_gguf(files[0])


def test_equal_bytes_of_another_type_are_another_value(tmp_path: Path) -> None:
    files = in_two(tmp_path, {"x": [0, 0]}, {"x": [0.0, 0.0]})
    with raises("models.gguf_setting", r"x: expected \[0.0, 0.0\] as in .*, got \[0, 0\]"):
        import_gguf(files[0])


def test_parts_may_repeat_what_the_first_says(tmp_path: Path) -> None:
    keys = settings("llama", LLAMA, **{"llama.attention.layer_norm_rms_epsilon": 1e-5})
    keys |= {"general.alignment": 64, "x": math.nan}
    first = {"general.alignment": 32, "x": math.nan}
    assert import_gguf(in_two(tmp_path, keys, first)[1]).name == "big-00002-of-00002"


def in_two(tmp_path: Path, keys: dict[str, Any], first: dict[str, Any] | None = None) -> list[Path]:
    """Writes the tiny Llama in two parts, the second with `keys`, the first with the other."""
    tensors = list(llama_tensors().items())
    files = [tmp_path / f"big-0000{number}-of-00002.gguf" for number in (1, 2)]
    counts = {"split.count": 2, "split.tensors.count": len(tensors)}
    whole = settings("llama", LLAMA, **counts, **{"split.no": 0}) | (first or {})
    write_gguf(files[0], whole, dict(tensors[:8]))
    write_gguf(files[1], counts | {"split.no": 1} | keys, dict(tensors[8:]))
    return files


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    files = split(tmp_path)
    files[1].unlink()
    with raises("models.gguf_missing_part", r"expected 'big-00002-of-00003\.gguf' beside it"):
        import_gguf(files[0])


def test_a_damaged_import_is_no_import(llama: Path) -> None:
    import_gguf(llama, "first")
    folder = import_gguf(llama, "second").folder
    assert not import_gguf(llama, "second").is_new
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])
    with raises("models.changed_since_import", r"changed since the import: expected .*, got 2,000"):
        import_gguf(llama, "second")
    assert import_gguf(llama).name == "first"


def test_a_part_under_another_name_is_refused(tmp_path: Path) -> None:
    file = split(tmp_path)[1]
    with raises("models.gguf_parts", "is a part of a split file: expected 3 parts, got 1"):
        import_gguf(file.rename(tmp_path / "alone.gguf"))


def test_large_models_are_written_in_shards(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = weights(import_gguf(llama, "whole").folder)
    monkeypatch.setattr("zoo.models.gguf.weights.SHARD_BYTES", 20_000)
    monkeypatch.setattr("zoo.models.gguf.convert.find_source", lambda *_: None)
    folder = import_gguf(llama, "shards").folder
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == whole.keys()
    assert index["metadata"]["total_size"] == sum(each.nbytes for each in whole.values())
    sizes = [path.stat().st_size for path in folder.glob("model-*.safetensors")]
    assert len(sizes) > 2
    assert resolve("shards").folder == folder


def test_a_small_disk_is_reported_and_nothing_left(
    llama: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.models.hub.DISK_RESERVE_BYTES", 1 << 60)
    with raises("models.disk_too_small", "disk too small"):
        import_gguf(llama)
    assert [path.name for path in home.iterdir()] == [".lock"]


def test_what_a_killed_import_left_is_no_model_and_removed(llama: Path, home: Path) -> None:
    partial = home / ".partial-killed"
    partial.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "gguf-source.json"):
        (partial / name).write_text("{}")
    assert imported_names() == []
    import_gguf(llama)
    assert not partial.exists()


def test_a_folder_without_its_record_is_no_imported_model(llama: Path) -> None:
    folder = import_gguf(llama).folder
    (folder / "gguf-source.json").write_text("[" * 10_000)
    assert (read_record(folder), find_imported("tiny"), imported_names()) == (None, None, [])


def test_imported_models_are_where_zoo_gym_keeps_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.gym.paths import folders

    assert imported_folder() == folders().data / "models"
    monkeypatch.delenv("ZOO_GYM_HOME")
    assert imported_folder() == folders().data / "models"


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_nobody_else_can_read_an_imported_model(llama: Path, home: Path) -> None:
    folder = import_gguf(llama).folder
    assert [path.stat().st_mode & 0o777 for path in (home, folder)] == [0o700, 0o700]


def test_a_value_rounded_to_infinity_is_refused(tmp_path: Path) -> None:
    tensors = llama_tensors()
    tensors["blk.0.ffn_up.weight"][3, 4] = np.inf
    file = write_gguf(tmp_path / "tiny.gguf", settings("llama", LLAMA), tensors)
    with raises("models.not_finite", r"'blk.0.ffn_up.weight': expected finite values"):
        import_gguf(file)
