"""From a fine-tune to a delta: what is coded, what is skipped, what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gym.delta import models_on_disk as disk
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import Origin, create_delta, difference, load_delta
from zoo.gym.errors import InputError, NotAvailableError, StorageError

SHAPES = disk.qwen3_shapes()
BASE = disk.random_arrays(SHAPES, 0)
CHANGE = disk.random_arrays(SHAPES, 1, 0.01)
Q = "model.layers.0.self_attn.q_proj.weight"
NORM = "model.norm.weight"


@pytest.fixture(scope="module")
def base32(home: Path) -> Path:
    return disk.write_model(home / "base32", BASE)


def differences(path: Path) -> dict[str, Any]:
    delta = load_delta(path)
    return {tensor.name: difference(delta, tensor) for tensor in delta.header.tensors}


def make(source: Path, base: Path, out: Path, **options: Any) -> dict[str, Any]:
    file = out / "d.safetensors"
    create_delta(source, base=base, base_id="tiny", out=file, **options)
    return differences(file)


def lora_change(factors: disk.Arrays, scale: float) -> dict[str, Any]:
    """B A times alpha/r for every layer, from peft's names, in float64."""
    change = {}
    for name in (name for name in factors if ".lora_A." in name):
        A, B = factors[name], factors[name.replace("lora_A", "lora_B")]
        module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        change[f"{module}.weight"] = scale * (B.astype(np.float64) @ A)
    return change


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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_copy_of_the_base_is_refused_loudly(dtype: str, tmp_path: Path) -> None:
    base = disk.write_model(tmp_path / "base", BASE, dtype)
    source = disk.write_model(tmp_path / "copy", BASE, dtype)
    with pytest.raises(InputError, match="changes nothing: expected a fine-tune"):
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
    with pytest.raises(InputError, match=r"'lm_head\.weight': expected the embedding"):
        make(source, base32, tmp_path)


def test_a_tensor_in_one_of_both_is_refused(base32: Path, tmp_path: Path) -> None:
    extra = disk.write_model(tmp_path / "extra", {**BASE, "bias": np.ones(3, np.float32)})
    with pytest.raises(InputError, match=r"tensor 'bias' is in .*extra but not in .*base32"):
        make(extra, base32, tmp_path)
    fewer = {name: array for name, array in BASE.items() if name != NORM}
    lacking = disk.write_model(tmp_path / "fewer", fewer)
    with pytest.raises(InputError, match=r"tensor 'model.norm.weight' is in .*base32 but not in"):
        make(lacking, base32, tmp_path)


def test_another_shape_names_tensor_and_both_shapes(base32: Path, tmp_path: Path) -> None:
    source = disk.write_model(tmp_path / "tuned", {**BASE, Q: np.ones((16, 4), np.float32)})
    with pytest.raises(
        InputError, match=r"q_proj.weight': expected shape \[16, 16\] as in the base, got \[16, 4\]"
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
    with pytest.raises(InputError, match=r"'steps': expected a type of F32, F16, BF16, got 'I32'"):
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
    ("config", "scale"),
    [
        ({"r": 4, "lora_alpha": 32}, 8.0),
        ({"r": 4, "lora_alpha": 32, "use_rslora": True}, 16.0),
        ({"r": 4, "lora_alpha": 1, "alpha_pattern": {"q_proj|.*": 2}}, 0.5),
        ({"r": 8, "lora_alpha": 4, "rank_pattern": {"layers.*": 4}}, 1.0),
    ],
)
def test_a_factor_is_scaled_as_peft_does(
    config: dict[str, Any], scale: float, base32: Path, tmp_path: Path
) -> None:
    factors = disk.lora_arrays(SHAPES, 4, 3)
    source = disk.write_adapter(tmp_path / "lora", factors, 4, **config)
    expected = lora_change(factors, scale)[Q]
    found = make(source, base32, tmp_path)[Q]
    # 2 bits keep a factor's direction: a wrong alpha would be off by 2 or more
    assert np.vdot(found, expected) / np.vdot(expected, expected) == pytest.approx(1, abs=0.25)


def test_an_adapter_file_with_its_config_beside_equals_its_folder(
    adapter: Path, base: Path, lowrank: Path, tmp_path: Path
) -> None:
    found = make(adapter / "adapter_model.safetensors", base, tmp_path)
    assert str(found) == str(differences(lowrank))


def test_a_folder_of_a_model_and_an_adapter_is_neither_until_one_is_named(
    base: Path, adapter: Path, tuned: Path, lowrank: Path, tmp_path: Path
) -> None:
    both = Path(shutil.copytree(tuned, tmp_path / "both"))
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(adapter / name, both)
    with pytest.raises(InputError, match="expected a model or an adapter, got both"):
        make(both, base, tmp_path)
    assert str(make(both / "adapter_model.safetensors", base, tmp_path)) == str(
        differences(lowrank)
    )
    assert load_delta(tmp_path / "d.safetensors").header.form == "lowrank"
    make(both / "model.safetensors", base, tmp_path)
    assert load_delta(tmp_path / "d.safetensors").header.form == "dense"


def test_a_stray_adapter_config_makes_no_adapter_of_a_model(
    base: Path, adapter: Path, tuned: Path, tmp_path: Path
) -> None:
    stray = Path(shutil.copytree(tuned, tmp_path / "stray"))
    shutil.copy(adapter / "adapter_config.json", stray)
    make(stray, base, tmp_path)
    assert load_delta(tmp_path / "d.safetensors").header.form == "dense"


def test_an_adapter_that_learned_nothing_is_refused(base32: Path, tmp_path: Path) -> None:
    factors = disk.lora_arrays(SHAPES, 2, 3)
    zeros = {name: array * (".lora_A." in name) for name, array in factors.items()}
    source = disk.write_adapter(tmp_path / "lora", zeros, 2)
    with pytest.raises(InputError, match="changes nothing"):
        make(source, base32, tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"use_dora": True}, "use_dora: a low-rank delta cannot carry DoRA's magnitudes"),
        ({"fan_in_fan_out": True}, r"fan_in_fan_out: .* known for gpt2, openai-gpt only"),
        ({"target_modules": None}, "target_modules: expected the layers that it is for"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save: .* whole modules"),
        ({"bias": "all"}, "bias: expected 'none', got 'all'"),
        ({"init_lora_weights": "pissa"}, "'pissa' changes the base"),
        ({"peft_type": "IA3"}, "peft_type: expected 'LORA', got 'IA3'"),
        ({"r": 5}, "expected rank 5 by 'adapter_config.json', got 2"),
    ],
)
def test_an_adapter_that_a_delta_cannot_carry_is_refused(
    config: dict[str, Any], message: str, base32: Path, tmp_path: Path
) -> None:
    source = disk.write_adapter(tmp_path / "lora", disk.lora_arrays(SHAPES, 2, 3), 2, **config)
    with pytest.raises(InputError, match=message):
        make(source, base32, tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("base_model.model.lm_head.lora_{}.weight", "tied to the embedding"),
        ("base_model.model.model.embed_tokens.lora_embedding_{}", "is on an embedding"),
        ("base_model.model.model.layers.9.mlp.up_proj.lora_{}.weight", "has no such tensor"),
        ("base_model.model.model.layers.0.mlp.up_proj.lora_{}.weight", r"shape \[20, 16\] as in"),
    ],
)
def test_factors_that_do_not_fit_the_base_are_refused(
    name: str, message: str, base32: Path, tmp_path: Path
) -> None:
    factors = {name.format("A"): np.ones((2, 16)), name.format("B"): np.ones((41, 2))}
    arrays = {key: value.astype(np.float32) for key, value in factors.items()}
    module = name.removeprefix("base_model.model.").partition(".lora_")[0]
    source = disk.write_adapter(tmp_path / "lora", arrays, 2, target_modules=[module])
    with pytest.raises(InputError, match=message):
        make(source, base32, tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["q_proj"]},
        {"layers_to_transform": [0]},
        {"exclude_modules": r".*\.mlp\..*"},
    ],
    ids=str,
)
def test_factors_that_the_config_leaves_out_are_refused(
    settings: dict[str, Any], base32: Path, tmp_path: Path
) -> None:
    """peft drops them: the delta would be another model than the adapter."""
    source = disk.write_adapter(tmp_path / "lora", disk.lora_arrays(SHAPES, 2, 3), 2, **settings)
    with pytest.raises(InputError, match=r"tensors have no place by adapter_config\.json"):
        make(source, base32, tmp_path)


@pytest.mark.parametrize("gone", ["layers.1.mlp.up_proj", "v_proj"])
def test_factors_that_the_config_asks_for_are_not_left_out(
    gone: str, base32: Path, tmp_path: Path
) -> None:
    factors = {name: a for name, a in disk.lora_arrays(SHAPES, 2, 3).items() if gone not in name}
    source = disk.write_adapter(tmp_path / "lora", factors, 2)
    with pytest.raises(InputError, match=r"tensors are missing that adapter_config\.json asks for"):
        make(source, base32, tmp_path)


@pytest.mark.parametrize(
    "place", ["layers.2.mlp.", "layers.1.mlp.experts.0.", "vision.layers.0.mlp."]
)
def test_a_layer_that_the_loaded_model_has_under_no_such_name_is_no_gap(
    place: str, tmp_path: Path
) -> None:
    """Layers that predict further tokens, experts that are stacked, an image part."""
    more = {f"model.{place}up_proj.weight": np.ones((20, 16), np.float32)}
    base = disk.write_model(tmp_path / "base", {**BASE, **more})
    source = disk.write_adapter(tmp_path / "lora", disk.lora_arrays(SHAPES, 2, 3), 2)
    assert len(make(source, base, tmp_path)) == 14


def test_a_lone_factor_and_a_missing_config_are_refused(base32: Path, tmp_path: Path) -> None:
    factors = disk.lora_arrays(SHAPES, 2, 3)
    first = min(factors)
    lone = disk.write_adapter(tmp_path / "lone", {first: factors[first]}, 2)
    with pytest.raises(InputError, match="expected lora_A and lora_B, got one"):
        make(lone, base32, tmp_path)
    file = disk.write_tensors(tmp_path / "bare.safetensors", factors)
    with pytest.raises(InputError, match=r"need 'adapter_config.json' beside, got none"):
        make(file, base32, tmp_path)


def test_a_pickled_adapter_is_refused(adapter: Path, base32: Path, tmp_path: Path) -> None:
    source = tmp_path / "lora"
    source.mkdir()
    shutil.copy(adapter / "adapter_config.json", source)
    with pytest.raises(InputError, match=r"expected 'adapter_model.*got none"):
        make(source, base32, tmp_path)
    (source / "adapter_model.bin").write_bytes(b"pickle")
    with pytest.raises(InputError, match=r"expected 'adapter_model.*got pickled weights only"):
        make(source, base32, tmp_path)


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
    with pytest.raises(InputError, match=message):
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
    with pytest.raises(InputError, match="got one of the inputs"):
        create_delta(tuned, base=base, base_id="tiny", out=file)
    assert file.read_bytes() == before


def test_a_full_disk_is_told_and_leaves_nothing_behind(
    adapter: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zoo.gym.files.sync_file", full)
    with pytest.raises(StorageError, match="no space left on device"):
        make(adapter, base, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_absent_source_or_base_is_not_available(tuned: Path, base: Path, tmp_path: Path) -> None:
    for source, model in ((tmp_path / "none", base), (tuned, tmp_path / "none")):
        with pytest.raises(NotAvailableError, match="no such"):
            make(source, model, tmp_path)


def test_a_file_that_is_no_delta_is_never_written_over(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    data = tmp_path / "my-chats.jsonl"
    data.write_text("mine")
    with pytest.raises(InputError, match="expected a new file or an older delta"):
        create_delta(adapter, base=base, base_id="tiny", out=data)
    assert data.read_text() == "mine"


def test_a_base_of_a_type_that_no_delta_is_taken_of_is_refused(
    adapter: Path, tmp_path: Path
) -> None:
    base = disk.write_model(tmp_path / "base", BASE, "float64")
    with pytest.raises(InputError, match="expected a type of F32, F16, BF16 in the base, got"):
        make(adapter, base, tmp_path)
