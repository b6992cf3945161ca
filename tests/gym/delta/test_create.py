"""From a fine-tune to a delta: what is coded, what is skipped, what is refused."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import Origin, create_delta, difference, load_delta
from zoo.gym.delta.distilled import Distilled
from zoo.gym.delta.file.terms import IntTerm
from zoo.gym.errors import InputError
from zoo.models import pico_folder

SHAPES = disk.qwen3_shapes()
BASE = disk.random_arrays(SHAPES, 0)
CHANGE = disk.random_arrays(SHAPES, 1, 0.01)
Q = "model.layers.0.self_attn.q_proj.weight"
NORM = "model.norm.weight"


def differences(path: Path) -> dict[str, Any]:
    delta = load_delta(path)
    return {tensor.name: difference(delta, tensor) for tensor in delta.header.tensors}


def make(source: Path, base: Path, out: Path, **options: Any) -> dict[str, Any]:
    file = out / "d.safetensors"
    create_delta(source, base=base, base_id="tiny", out=file, force=True, **options)
    return differences(file)


def test_matrices_keep_their_signs_and_vectors_their_values(base32: Path, tmp_path: Path) -> None:
    source = disk.write_model(tmp_path / "tuned", disk.plus(BASE, CHANGE))
    found = make(source, base32, tmp_path)
    exact = disk.plus(BASE, CHANGE)
    np.testing.assert_array_equal(found[NORM], exact[NORM] - BASE[NORM])
    d = exact[Q] - BASE[Q]
    np.testing.assert_array_equal(np.sign(found[Q]), np.where(d > 0, 1, -1))
    mean = np.abs(d).mean(axis=1, dtype=np.float64)
    np.testing.assert_allclose(np.abs(found[Q]), np.tile(mean[:, None], d.shape[1]), rtol=1e-6)


def test_a_matrix_scale_is_one_for_all_rows(base32: Path, tmp_path: Path) -> None:
    source = disk.write_model(tmp_path / "tuned", disk.plus(BASE, CHANGE))
    found = make(source, base32, tmp_path, config=DeltaConfig(scale="matrix"))
    assert len(np.unique(np.abs(found[Q]))) == 1


def test_unchanged_tensors_are_left_out(base32: Path, tmp_path: Path) -> None:
    source = disk.write_model(tmp_path / "tuned", disk.plus(BASE, {Q: CHANGE[Q]}))
    assert set(make(source, base32, tmp_path)) == {Q}


def test_layers_have_codings_of_their_own_the_first_that_fits(
    base: Path, tuned: Path, tmp_path: Path
) -> None:
    out = tmp_path / "d.safetensors"
    layers = {Q.removesuffix(".weight"): DeltaConfig(bits=8), "*.q_proj": DeltaConfig(bits=4)}
    config = DeltaConfig(codec="sparse")
    create_delta(tuned, base=base, out=out, config=config, layers=layers)
    terms = {each.name: each.terms[0] for each in load_delta(out).header.tensors}
    coded = {name: term.bits for name, term in terms.items() if isinstance(term, IntTerm)}
    assert coded == {Q: 8, Q.replace("layers.0", "layers.1"): 4}
    others = {term.kind for name, term in terms.items() if name not in coded}
    assert others == {"sparse"}


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({NORM: DeltaConfig(bits=4)}, "expected the name of a matrix of the base, got 'model.norm"),
        ({"*": DeltaConfig(), Q: DeltaConfig(bits=4)}, f"expected '{Q}' before the others"),
        ({"*": {"bits": 4}}, "*: expected DeltaConfig, got a mapping"),
    ],
)
def test_layers_without_effect_are_refused(
    layers: Any, message: str, base: Path, tuned: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=re.escape(f"layers: {message}")):
        create_delta(tuned, base=base, out=tmp_path / "d.safetensors", layers=layers)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_copy_of_the_base_is_refused_loudly(dtype: str, tmp_path: Path) -> None:
    base = disk.write_model(tmp_path / "base", BASE, dtype)
    source = disk.write_model(tmp_path / "copy", BASE, dtype)
    with raises("delta.no_change"):
        make(source, base, tmp_path)
    assert not (tmp_path / "d.safetensors").exists()


def test_shards_of_different_types_equal_one_file(base32: Path, tmp_path: Path) -> None:
    halves = {name: np.round(array * 64) / 64 for name, array in BASE.items()}
    rounded = {name: np.clip(array, -1, 1).astype(np.float32) for name, array in halves.items()}
    one = disk.write_model(tmp_path / "one", rounded)
    two = disk.write_shards(tmp_path / "two", rounded, ("float16", "bfloat16"))
    found, expected = make(two, base32, tmp_path), make(one, base32, tmp_path)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_a_single_file_of_weights_equals_its_folder(base32: Path, tmp_path: Path) -> None:
    source = disk.write_model(tmp_path / "tuned", disk.plus(BASE, CHANGE))
    file = disk.write_tensors(tmp_path / "any.safetensors", disk.plus(BASE, CHANGE))
    assert str(make(file, base32, tmp_path)) == str(make(source, base32, tmp_path))


def test_a_stored_tied_head_counts_once(tmp_path: Path) -> None:
    head = "lm_head.weight"
    embedding = "model.embed_tokens.weight"
    tuned = disk.plus(BASE, CHANGE)
    base = disk.write_model(tmp_path / "base", {**BASE, head: BASE[embedding]})
    source = disk.write_model(tmp_path / "tuned", tuned)
    assert head not in make(source, base, tmp_path)
    twice = disk.write_model(tmp_path / "twice", {**tuned, head: tuned[embedding]})
    assert head not in make(twice, base, tmp_path)


def test_a_tied_head_that_learned_alone_is_refused(base32: Path, tmp_path: Path) -> None:
    head = {"lm_head.weight": BASE["model.embed_tokens.weight"] + 1}
    source = disk.write_model(tmp_path / "tuned", {**BASE, **head})
    with raises("delta.tied", r"'lm_head\.weight': expected the tied embedding"):
        make(source, base32, tmp_path)


def test_a_tensor_in_one_of_both_is_refused(base32: Path, tmp_path: Path) -> None:
    extra = disk.write_model(tmp_path / "extra", {**BASE, "bias": np.ones(3, np.float32)})
    with raises("delta.no_such_tensor", r"tensor 'bias' is in .*extra but not in .*base32"):
        make(extra, base32, tmp_path)
    fewer = {name: array for name, array in BASE.items() if name != NORM}
    lacking = disk.write_model(tmp_path / "fewer", fewer)
    with raises("delta.no_such_tensor", r"tensor 'model.norm.weight' is in .*base32 but not in"):
        make(lacking, base32, tmp_path)


def test_another_shape_names_tensor_and_both_shapes(base32: Path, tmp_path: Path) -> None:
    source = disk.write_model(tmp_path / "tuned", {**BASE, Q: np.ones((16, 4), np.float32)})
    with raises(
        "delta.other_shape",
        r"q_proj.weight': expected shape \[16, 16\] as in the base, got \[16, 4\]",
    ):
        make(source, base32, tmp_path)


@pytest.mark.parametrize(("name", "where"), [(Q, "row 3, column 5"), (NORM, r"\[3\]")])
def test_a_nan_names_tensor_and_place(name: str, where: str, base32: Path, tmp_path: Path) -> None:
    arrays = {**disk.plus(BASE, CHANGE)}
    arrays[name] = arrays[name].copy()
    arrays[name][(3, 5) if name == Q else 3] = np.nan
    source = disk.write_model(tmp_path / "tuned", arrays)
    with pytest.raises(InputError, match=f"tensor '{name}'.*finite.*{where}"):
        make(source, base32, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tuned"]


def test_integers_that_differ_are_refused_and_equal_ones_skipped(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {Q: BASE[Q], "steps": np.zeros(3, np.float32)}
    base = disk.write_model(tmp_path / "base", arrays)
    source = disk.write_model(tmp_path / "tuned", {**arrays, Q: BASE[Q] + 1})
    for folder, value in ((base, b"\1"), (source, b"\1")):
        _retype(folder / "model.safetensors", "steps", value)
    assert set(make(source, base, tmp_path)) == {Q}
    _retype(source / "model.safetensors", "steps", b"\2")
    with raises("delta.bad_type", r"'steps': expected a type of F32, F16, BF16, got 'I32'"):
        make(source, base, tmp_path)


def _retype(path: Path, name: str, first: bytes) -> None:
    """Turns a float32 tensor of a file into int32 in place."""
    from zoo.core import read_header

    info = read_header(path).tensors[name]
    content = bytearray(path.read_bytes())
    content[info.start : info.start + 1] = first
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header[name]["dtype"] = "I32"
    text = json.dumps(header, separators=(",", ":")).encode().ljust(length)
    path.write_bytes(content[:8] + text + content[8 + length :])


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("tuned", {"form": "lowrank"}, "expected 'dense' for a delta of full weights"),
        ("adapter", {"form": "dense"}, "expected 'lowrank' for a delta of a LoRA adapter"),
        ("tuned", {"codec": "bf16"}, "codec: expected auto, int, .* for a dense delta, got 'bf16'"),
        ("adapter", {"codec": "sparse"}, "codec: expected .* for a lowrank delta, got 'sparse'"),
        ("tuned", {"codec": "int", "bits": 1}, "bits: expected 2 or 4 or 8 for codec 'int', got 1"),
        ("tuned", {"codec": "ternary", "bits": 2}, "bits: expected none for codec 'ternary'"),
        ("adapter", {"codec": "bf16", "bits": 8}, "bits: expected none for codec 'bf16', got 8"),
        ("adapter", {"scale": "matrix"}, "scale: expected none for a lowrank delta"),
        ("tuned", {"bits": 4, "scale": "group"}, "scale: expected none for a int delta"),
        ("tuned", {"codec": "ternary", "zero": "mask"}, "zero: expected none for a ternary delta"),
        ("tuned", {"codec": "sparse", "planes": 2}, "planes: expected none for a sparse delta"),
    ],
)
def test_a_form_that_the_source_cannot_take_is_refused(
    kind: str, options: dict[str, Any], message: str, home: Path, request: pytest.FixtureRequest
) -> None:
    source, base = (request.getfixturevalue(name) for name in (kind, "base"))
    with raises("delta.bad_option", message):
        make(source, base, home, config=DeltaConfig(**options))


def test_natural_forms_and_bits_may_be_named(adapter: Path, base: Path, tmp_path: Path) -> None:
    assert make(adapter, base, tmp_path, config=DeltaConfig(form="lowrank", bits=2))


def test_the_header_tells_where_the_delta_came_from(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    origin = Origin(recipe={"learning_rate": 2e-3, "stage": "sft"}, seed=42, data="ab" * 32)
    out = tmp_path / "d.safetensors"
    create_delta(adapter, base=base, base_id="tiny", base_revision="v1", out=out, origin=origin)
    header = load_delta(out).header
    assert (header.base.id, header.base.revision) == ("tiny", "v1")
    assert (header.recipe["learning_rate"], header.seed, header.data) == (2e-3, 42, "ab" * 32)
    assert header.privacy is None
    assert header.quality is None


def test_the_base_is_never_overwritten(tuned: Path, base: Path) -> None:
    file = base / "model.safetensors"
    before = file.read_bytes()
    with raises("delta.bad_output", "got one of the inputs"):
        create_delta(tuned, base=base, base_id="tiny", out=file)
    assert file.read_bytes() == before


def test_a_full_disk_is_told_and_leaves_nothing_behind(
    adapter: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zoo.gym.files.atomic.sync_file", full)
    with raises("paths.storage", "no space left on device"):
        make(adapter, base, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_absent_source_or_base_is_not_available(tuned: Path, base: Path, tmp_path: Path) -> None:
    for source, model in ((tmp_path / "none", base), (tuned, tmp_path / "none")):
        with raises("delta.no_weights"):
            make(source, model, tmp_path)


def test_a_file_that_is_no_delta_is_never_written_over(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    data = tmp_path / "my-chats.jsonl"
    data.write_text("mine")
    with raises("delta.bad_output", "expected a new file or an older delta"):
        create_delta(adapter, base=base, base_id="tiny", out=data)
    assert data.read_text() == "mine"


def test_an_older_delta_is_replaced_only_by_force(
    adapter: Path, tuned: Path, base: Path, tmp_path: Path
) -> None:
    out = tmp_path / "d.safetensors"
    options: dict[str, Any] = {"base": base, "base_id": "tiny", "out": out}
    create_delta(adapter, **options)
    before = out.read_bytes()
    with raises("delta.bad_output", "expected a new file, got one that exists") as caught:
        create_delta(tuned, **options)
    assert "force=True" in str(caught.value.hint)
    assert out.read_bytes() == before
    assert create_delta(tuned, **options, force=True).form == "dense"
    with raises("arguments.wrong_type", 'force: expected bool, got "yes"'):
        create_delta(tuned, **(options | {"force": "yes"}))


def test_a_base_of_a_type_that_no_delta_is_taken_of_is_refused(
    adapter: Path, tmp_path: Path
) -> None:
    base = disk.write_model(tmp_path / "base", BASE, "float64")
    with raises("delta.bad_type", "expected a type of F32, F16, BF16 in the base, got"):
        make(adapter, base, tmp_path)


def test_a_delta_is_no_fine_tune(dense: Path, base: Path, tmp_path: Path) -> None:
    with raises("delta.already_a_delta") as caught:
        make(dense, base, tmp_path)
    assert "delta apply" in str(caught.value.hint)


def test_a_base_s_name_is_one_line(adapter: Path, base: Path, tmp_path: Path) -> None:
    with raises("delta.bad_base_name", r"base: .* got 'a\\nb'"):
        create_delta(adapter, base=base, base_id="a\nb", out=tmp_path / "d.safetensors")


@pytest.mark.slow
def test_a_base_is_called_by_its_own_name_only(tmp_path: Path) -> None:
    tuned = pico_with_a_change(tmp_path / "tuned")
    copy = Path(shutil.copytree(pico_folder(), tmp_path / "copy"))
    out = tmp_path / "d.safetensors"
    for base, base_id, name in (
        ("zen-pico", None, "zen-pico"),
        (copy, None, "copy"),
        (copy, "zen-pico", "zen-pico"),
        (copy, "mine", "mine"),
    ):
        create_delta(tuned, base=base, base_id=base_id, out=out, force=True)
        assert load_delta(out).header.base.id == name
    with raises("delta.wrong_base_name", r"base_id: expected 'zen-pico', the model in .*, got 'x'"):
        create_delta(tuned, base=pico_folder(), base_id="x", out=out)
    with raises("delta.wrong_base_name", r"got 'zen-pico', whose weights in .* differ"):
        create_delta(copy, base=tuned, base_id="zen-pico", out=out, force=True)


def pico_with_a_change(folder: Path) -> Path:
    shutil.copytree(pico_folder(), folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"] + 1
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("after", [0.5, 0.1])
def test_a_delta_is_replaced_only_if_training_it_gained(
    after: float, base: Path, tuned: Path, tmp_path: Path
) -> None:
    other = create_delta(tuned, base=base, out=tmp_path / "o", config=DeltaConfig(scale="matrix"))

    def distill(plain: Path) -> Distilled:
        assert load_delta(plain).header.form == "dense"
        return Distilled(other.file, {"steps": 3}, before=0.3, after=after)

    report = create_delta(tuned, base=base, out=tmp_path / "d", distill=distill)
    header, gained = load_delta(report.file).header, after < 0.3
    assert header.recipe.get("distilled") == ({"steps": 3} if gained else None)
    assert (header.tensors == load_delta(other.file).header.tensors) is gained
    assert report.as_json()["distilled"]["used"] is gained
