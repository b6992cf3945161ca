"""From a delta and its base to a model folder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors.torch import load_file

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import apply_delta, create_delta, difference, load_delta
from zoo.gym.delta.reading.identity import identity, verify_base
from zoo.gym.delta.reading.weights import open_weights, read_float32

Q = "model.layers.0.self_attn.q_proj.weight"


def read_all(folder: Path) -> dict[str, Any]:
    weights = open_weights(folder)
    return {name: read_float32(weights, name) for name in weights.tensors}


@pytest.mark.parametrize("kind", ["dense", "lowrank"])
@pytest.mark.parametrize("scaled", [1.0, 0.7])
def test_a_float32_folder_is_base_plus_delta(
    kind: str, scaled: float, base: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(kind)
    report = apply_delta(path, base=base, out=tmp_path / "out", scaled=scaled)
    expected, delta = read_all(base), load_delta(path)
    for tensor in delta.header.tensors:
        expected[tensor.name] += np.float32(scaled) * difference(delta, tensor)
    found = read_all(report.folder)
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    assert report.rounding_loss is None


def test_applying_twice_gives_the_same_bytes(dense: Path, base: Path, tmp_path: Path) -> None:
    one, two = (apply_delta(dense, base=base, out=tmp_path / name).folder for name in "ab")
    assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()


def test_an_adapter_in_the_base_folder_does_not_come_along(
    dense: Path, base: Path, adapter: Path, tmp_path: Path
) -> None:
    """Whoever opens the folder would put it on the fine-tune."""
    stray = Path(shutil.copytree(base, tmp_path / "base"))
    shutil.copy(adapter / "adapter_config.json", stray)
    folder = apply_delta(dense, base=stray, out=tmp_path / "out").folder
    assert not (folder / "adapter_config.json").exists()


def test_a_base_whose_config_names_its_weights_gives_a_folder_that_loads(
    dense: Path, base: Path, tmp_path: Path
) -> None:
    named = Path(shutil.copytree(base, tmp_path / "base"))
    (named / "model.safetensors").rename(named / "own.safetensors")
    config = json.loads((named / "config.json").read_text())
    (named / "config.json").write_text(
        json.dumps(config | {"transformers_weights": "own.safetensors"})
    )
    whole, out = (apply_delta(dense, base=b, out=tmp_path / b.parent.name) for b in (base, named))
    assert read_all(out.folder).keys() == read_all(whole.folder).keys()


def test_config_and_tokenizer_come_along_and_the_base_stays(
    dense: Path, base: Path, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in base.iterdir()}
    folder = apply_delta(dense, base=base, out=tmp_path / "out").folder
    assert {path.name: path.read_bytes() for path in base.iterdir()} == before
    assert {path.name for path in folder.iterdir()} == {*before, "README.md"}
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("dtype") == "float32"
    assert config.items() <= disk.CONFIG.items()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_old_name_of_the_type_is_not_left_behind(
    dense: Path, base: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(base, tmp_path / "tiny")
    old = disk.CONFIG | {"torch_dtype": "bfloat16"}
    (copy / "config.json").write_text(json.dumps(old))
    folder = apply_delta(dense, base=copy, out=tmp_path / "out").folder
    config = json.loads((folder / "config.json").read_text())
    assert config["dtype"] == "float32"
    assert "torch_dtype" not in config


def test_bf16_rounds_to_nearest_even_and_tells_what_that_costs(
    dense: Path, base: Path, tmp_path: Path
) -> None:
    import torch

    exact = apply_delta(dense, base=base, out=tmp_path / "f32").folder
    report = apply_delta(dense, base=base, out=tmp_path / "bf16", dtype="bf16")
    found = load_file(report.folder / "model.safetensors")
    lost = size = 0.0
    before = read_all(base)
    for name, values in load_file(exact / "model.safetensors").items():
        assert torch.equal(found[name], values.to(torch.bfloat16))
        change = values.double() - torch.from_numpy(before[name]).double()
        lost += float((found[name].double() - values.double()).square().sum())
        size += float(change.square().sum())
    # the base is bfloat16, so the loss is the rounding of base + d, here of d = 1 % of the weights
    assert report.rounding_loss is not None
    assert report.rounding_loss == pytest.approx((lost / size) ** 0.5, rel=1e-4)
    assert 0.05 < report.rounding_loss < 0.9


def test_small_shards_hold_the_same_tensors(dense: Path, base: Path, tmp_path: Path) -> None:
    whole = apply_delta(dense, base=base, out=tmp_path / "one").folder
    parts = apply_delta(dense, base=base, out=tmp_path / "many", shard_bytes=3000).folder
    shards = sorted(parts.glob("model-*-of-*.safetensors"))
    assert len(shards) > 2
    assert all(sum(a.nbytes for a in load_file(s).values()) <= 3000 for s in shards)
    found = read_all(parts)
    for name, values in read_all(whole).items():
        np.testing.assert_array_equal(found[name], values)


def test_another_base_is_refused_and_both_are_named(
    dense: Path, tuned: Path, tmp_path: Path
) -> None:
    identity = load_delta(dense).header.base.identity[:12]
    message = rf"belongs to another base: expected 'tiny' \({identity}\), got 'tuned' \([0-9a-f]+\)"
    with raises("delta.wrong_base", message):
        apply_delta(dense, base=tuned, out=tmp_path / "out")
    with raises("delta.wrong_base", "got 'zen-eco'"):
        apply_delta(dense, base=tuned, out=tmp_path / "out", base_id="zen-eco")
    assert list(tmp_path.iterdir()) == []


def test_one_changed_byte_makes_it_another_base(lowrank: Path, base: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(base, tmp_path / "tiny")
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[open_weights(copy).tensors[Q][1].start] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    with raises("delta.wrong_base", "belongs to another base"):
        apply_delta(lowrank, base=copy, out=tmp_path / "out")


def test_a_base_of_another_architecture_is_told_by_its_missing_tensor(
    lowrank: Path, tmp_path: Path
) -> None:
    other = disk.write_model(tmp_path / "gpt", {"wte.weight": np.ones((2, 2), np.float32)})
    with raises("delta.wrong_base", "got 'gpt', which has no tensor 'model"):
        apply_delta(lowrank, base=other, out=tmp_path / "out")


def test_a_type_that_no_delta_is_taken_of_is_refused(lowrank: Path, tmp_path: Path) -> None:
    """Though it is the very base: its tensors would stay as they are, in silence."""
    arrays = disk.random_arrays(disk.qwen3_shapes(), 0)
    weights = open_weights(disk.write_model(tmp_path / "base", arrays, "float64"))
    delta = load_delta(lowrank)
    names = [tensor.name for tensor in delta.header.tensors]
    told = delta.header.base.model_copy(update={"identity": identity(weights, names)})
    theirs = replace(delta, header=delta.header.model_copy(update={"base": told}))
    with raises("delta.wrong_base", "expected a type of F32, F16, BF16 in the base, got"):
        verify_base(theirs, weights)


def test_weights_beyond_float32_are_refused(tmp_path: Path) -> None:
    base = disk.write_model(tmp_path / "base", {"w": np.full(4, 3e38, np.float32)})
    tuned = disk.write_model(tmp_path / "tuned", {"w": np.full(4, 1e38, np.float32)})
    file = create_delta(tuned, base=base, base_id="large", out=tmp_path / "d.safetensors").file
    with raises("delta.not_finite", "'w': expected finite weights, got base plus delta beyond"):
        apply_delta(file, base=base, out=tmp_path / "out", scaled=-1.0)
    assert not (tmp_path / "out").exists()


def test_weights_beyond_bfloat16_are_refused(tmp_path: Path) -> None:
    """3.4e38 is finite in float32; the largest bfloat16 is 3.39e38, and half a step above it."""
    base = disk.write_model(tmp_path / "base", {"w": np.full(4, 1e38, np.float32)})
    tuned = disk.write_model(tmp_path / "tuned", {"w": np.full(4, 3.4e38, np.float32)})
    file = create_delta(
        tuned, base=base, base_id="b", out=tmp_path / "d", config=DeltaConfig(codec="sparse")
    ).file
    assert apply_delta(file, base=base, out=tmp_path / "f32").rounding_loss is None
    with raises("delta.not_finite", r"'w': .* got base plus delta beyond bfloat16"):
        apply_delta(file, base=base, out=tmp_path / "out", dtype="bf16")
    assert not (tmp_path / "out").exists()


def test_unchanged_weights_beyond_bfloat16_are_refused(tmp_path: Path) -> None:
    kept = {"kept": np.full(4, 3.4e38, np.float32)}
    base = disk.write_model(tmp_path / "base", {**kept, "w": np.zeros(4, np.float32)})
    tuned = disk.write_model(tmp_path / "tuned", {**kept, "w": np.ones(4, np.float32)})
    file = create_delta(tuned, base=base, base_id="b", out=tmp_path / "d").file
    with raises("delta.not_finite", r"base: tensor 'kept': .* got values beyond bfloat16"):
        apply_delta(file, base=base, out=tmp_path / "out", dtype="bf16")


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_infinite_values_that_a_delta_does_not_change_stay(
    tmp_path: Path, dtype: Literal["f32", "bf16"]
) -> None:
    bounds = np.array([-np.inf, np.inf, 1.5], np.float32)  # such as those of a clamp
    base = disk.write_model(tmp_path / "base", {"kept": bounds, "w": np.zeros(4, np.float32)})
    tuned = disk.write_model(tmp_path / "tuned", {"kept": bounds, "w": np.ones(4, np.float32)})
    file = create_delta(tuned, base=base, base_id="b", out=tmp_path / "d").file
    apply_delta(file, base=base, out=tmp_path / "out", dtype=dtype)
    found = load_file(tmp_path / "out" / "model.safetensors")["kept"]
    assert found.float().tolist() == bounds.tolist()


def test_a_quantised_base_is_refused(dense: Path, base: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(base, tmp_path / "tiny")
    (copy / "config.json").write_text(json.dumps(disk.CONFIG | {"quantization_config": {"b": 4}}))
    with raises("delta.quantized"):
        apply_delta(dense, base=copy, out=tmp_path / "out")


def test_a_filled_folder_is_refused_and_an_empty_one_used(
    dense: Path, base: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    apply_delta(dense, base=base, out=out)
    kept = (out / "model.safetensors").read_bytes()
    with raises("files.folder_not_empty"):
        apply_delta(dense, base=base, out=out)
    assert (out / "model.safetensors").read_bytes() == kept


def test_a_place_that_cannot_be_written_is_a_storage_error(
    dense: Path, base: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with raises("paths.storage", "cannot write"):
        apply_delta(dense, base=base, out=tmp_path / "file" / "out")


def test_a_failure_on_the_way_leaves_nothing_behind(
    dense: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zoo.gym.files.atomic.sync_file", full)
    with raises("paths.storage", "no space left on device"):
        apply_delta(dense, base=base, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
