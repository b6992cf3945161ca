"""What an adapter on disk makes its user doubt."""

import json
import shutil
import warnings
from pathlib import Path

import pytest

from tests.gym.delta.lora import write_lora
from zoo.gym.chat import open_chat
from zoo.gym.config.train import TrainConfig
from zoo.gym.delta import Quality, apply_delta, check_delta, create_delta, load_delta
from zoo.gym.delta.origin.digests import BASE_KEY, base_digests
from zoo.gym.delta.origin.record import DIGEST_KEY, digest_of
from zoo.gym.delta.sanity import warn_of_other_base, warn_of_worse_delta
from zoo.gym.errors import GymWarning
from zoo.gym.train.result.origin import write_origin
from zoo.gym.train.rows import prepare_rows
from zoo.models import pico_folder

OTHER = [
    ("Qwen/Qwen3-0.6B", None, "'Qwen/Qwen3-0.6B', and is used on 'zen-pico'"),
    ("zen-nano", None, "'Qwen/Qwen3-0.6B', and is used on 'zen-pico'"),
    ("/old/models--Qwen--Qwen3-4B/snapshots/" + "0" * 40, None, "'Qwen/Qwen3-4B', and is used"),
    ("zen-pico", "0123abc", "'zen-pico@0123abc', and is used on 'zen-pico'"),
]


@pytest.mark.parametrize(("base", "revision", "words"), OTHER)
def test_an_adapter_that_names_another_base_is_used_with_a_warning(
    tmp_path: Path, base: str, revision: str | None, words: str
) -> None:
    folder = write_lora(tmp_path / "a", base, revision=revision)
    with pytest.warns(GymWarning, match=words):
        warn_of_other_base(folder, pico_folder())


@pytest.mark.parametrize("base", ["zen-pico", "/moved/away", "some-folder", str(pico_folder())])
def test_an_adapter_that_names_no_other_known_base_is_used_without_a_word(
    tmp_path: Path, base: str
) -> None:
    warn_of_other_base(write_lora(tmp_path / "a", base, revision="main"), pico_folder())


def other_base(folder: Path) -> Path:
    """Copies zen-pico, one bit of its weights turned."""
    shutil.copytree(pico_folder(), folder)
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    return folder


@pytest.fixture(params=["a result of ours", "foreign"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An adapter that was made on `tmp_path / "base"`, a folder like any other."""
    base = Path(shutil.copytree(pico_folder(), tmp_path / "base"))
    folder = write_lora(tmp_path / "adapter", str(base))
    if request.param != "foreign":
        env_file = tmp_path / "env.json"
        env_file.write_text(json.dumps({BASE_KEY: base_digests(base)}))
        write_origin(folder, env_file)
    return folder


def test_an_adapter_on_other_weights_than_it_was_made_on_is_used_with_a_warning(
    adapter: Path, tmp_path: Path
) -> None:
    other = other_base(tmp_path / "other")
    with pytest.warns(GymWarning, match=f"is used on '{other}', which has other weight files"):
        warn_of_other_base(adapter, other)


def test_an_adapter_on_a_copy_of_its_base_is_used_without_a_word(
    adapter: Path, tmp_path: Path
) -> None:
    warn_of_other_base(adapter, tmp_path / "base")
    warn_of_other_base(adapter, pico_folder())


def test_a_result_knows_its_weights_when_its_base_was_moved_or_changed(tmp_path: Path) -> None:
    folder, env_file = write_lora(tmp_path / "a", str(tmp_path / "base")), tmp_path / "env.json"
    env_file.write_text(json.dumps({BASE_KEY: base_digests(pico_folder())}))
    write_origin(folder, env_file)
    warn_of_other_base(folder, Path(shutil.copytree(pico_folder(), tmp_path / "moved")))
    with pytest.warns(GymWarning, match="which has other weight files"):
        warn_of_other_base(folder, other_base(tmp_path / "base"))


def test_an_adapter_for_zen_pico_on_an_unknown_folder_is_compared(tmp_path: Path) -> None:
    with pytest.warns(GymWarning, match="for 'zen-pico', .* other weight files"):
        warn_of_other_base(write_lora(tmp_path / "a"), other_base(tmp_path / "other"))


def test_a_result_holds_its_base_in_digests_alone(tmp_path: Path) -> None:
    digests = base_digests(pico_folder())
    (tmp_path / "env.json").write_text(json.dumps({BASE_KEY: digests, "model": "secret-name"}))
    write_origin(tmp_path, tmp_path / "env.json")
    text = (tmp_path / "zoo-gym.json").read_text()
    parts = ("weights", "tokens", "template")
    assert json.loads(text)[BASE_KEY] == {part: digests[part] for part in parts}
    assert "secret-name" not in text


@pytest.mark.slow
def test_delta_create_and_chat_warn_of_another_base(tmp_path: Path) -> None:
    write_lora(tmp_path / "a", "Qwen/Qwen3-0.6B")
    with pytest.warns(GymWarning, match="made for 'Qwen/Qwen3-0.6B'"):
        create_delta(tmp_path / "a", base=pico_folder(), base_id="zen-pico", out=tmp_path / "d")
    with (
        pytest.warns(GymWarning, match="made for 'Qwen/Qwen3-0.6B'"),
        open_chat(pico_folder(), adapter=tmp_path / "a"),
    ):
        pass


@pytest.mark.slow
def test_an_adapter_without_effect_is_chatted_with_under_a_warning(tmp_path: Path) -> None:
    with (
        pytest.warns(GymWarning, match="this adapter changes nothing"),
        open_chat(pico_folder(), adapter=write_lora(tmp_path / "zero", step=0.0)),
    ):
        pass
    with open_chat(pico_folder(), adapter=write_lora(tmp_path / "some")):
        pass


def test_a_delta_that_is_worse_than_its_base_is_warned_of() -> None:
    worse = Quality(rows=1, tokens=2, base=2.0, tuned=1.9, delta=2.5, recovered=-5.0, kl=0.1)
    with pytest.warns(GymWarning, match=r"worse than its base .* 2.5000 with it, 2.0000 without"):
        warn_of_worse_delta(worse)
    with pytest.warns(GymWarning, match=r"; the fine-tune is worse, too: 2.4000"):
        warn_of_worse_delta(worse.model_copy(update={"tuned": 2.4}))
    warn_of_worse_delta(worse.model_copy(update={"delta": 2.0}))


def test_another_template_or_tokenizer_of_the_base_is_reported_wherever_a_fine_tune_is_used(
    tmp_path: Path,
) -> None:
    base = Path(shutil.copytree(pico_folder(), tmp_path / "base"))
    adapter = write_lora(tmp_path / "adapter", str(base))
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a", "response": "b"}\n' * 4)
    env = {BASE_KEY: base_digests(base), "data": "d" * 64, "system_prompt": "S!"}
    (tmp_path / "env.json").write_text(json.dumps(env))
    write_origin(adapter, tmp_path / "env.json")
    delta = create_delta(adapter, base=base, out=tmp_path / "d.safetensors").file
    header = load_delta(delta).header
    assert (header.data, header.recipe[DIGEST_KEY]) == ("d" * 64, digest_of("S!"))
    every = "{% for turn in messages %}{{ turn.content }}{% endfor %}"
    (base / "chat_template.jinja").write_text(every)
    with pytest.warns(GymWarning, match="another chat template"):
        check_delta(delta, base=base)
    with pytest.warns(GymWarning, match="another chat template"):
        apply_delta(delta, base=base, out=tmp_path / "out")
    with pytest.warns(GymWarning) as of_delta, open_chat(base, delta=delta, system=""):
        pass
    with pytest.warns(GymWarning) as of_adapter, open_chat(base, adapter=adapter, system=""):
        pass
    for seen in (of_delta, of_adapter):
        assert any("another chat template" in str(each.message) for each in seen)
    continued = TrainConfig(
        model_name_or_path=str(base),
        dataset=str(rows),
        adapter_name_or_path=str(adapter),
        cutoff_len=64,
        date="2026-01-01",
    )
    assert any("another chat template" in note for note in prepare_rows(continued, base).notes)
    template = pico_folder() / "chat_template.jinja"
    with warnings.catch_warnings(record=True) as quiet:
        warnings.simplefilter("always")
        with open_chat(base, adapter=adapter, system="", template=str(template)):
            pass
    assert not any("another chat template" in str(each.message) for each in quiet)
