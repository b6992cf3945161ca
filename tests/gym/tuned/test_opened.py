"""A fine-tune on its base: merged tensors, changes, and what it records of its training."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.tuned.conftest import SHAPES
from zoo.gym.data.own_tokenizer import TOKENIZER_KEY
from zoo.gym.delta import DeltaConfig, Origin, apply_delta, create_delta
from zoo.gym.delta.origin.digests import BASE_KEY
from zoo.gym.delta.origin.record import DIGEST_KEY, JOINT_KEY, ORIGIN_FILE, SYSTEM_KEY, digest_of
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.jobs import create_run
from zoo.gym.tuned.opened import open_tuned
from zoo.gym.tuned.record import Record
from zoo.gym.tuned.source import Source, source_at


@pytest.mark.parametrize("fixture", ["dense", "lowrank", "sparse"])
def test_a_delta_is_merged_to_the_bytes_that_apply_writes(
    fixture: str, base: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    delta = request.getfixturevalue(fixture)
    applied = apply_delta(delta, base=base, out=tmp_path / "applied").folder
    expected = load_file(applied / "model.safetensors")
    merged = dict(open_tuned(delta, base).merged_tensors())
    assert list(merged) == sorted(expected)
    for name, values in merged.items():
        assert (values.dtype.name, values.shape) == ("float32", expected[name].shape)
        assert values.tobytes() == expected[name].tobytes()


@pytest.fixture
def sparse(base: Path, tmp_path: Path) -> Path:
    """A delta with the fine-tune's own values where they differ."""
    name = "model.layers.0.mlp.up_proj.weight"
    rounded = dict(open_tuned(base, base).merged_tensors())
    changed = {**rounded, name: rounded[name].copy()}
    changed[name][0, :3] = (0.1, -0.3, 1e-9)
    tuned = disk.write_model(tmp_path / "few", changed)
    out = tmp_path / "sparse.safetensors"
    return create_delta(tuned, base=base, out=out, config=DeltaConfig(codec="sparse")).file


def test_an_adapter_is_added_with_its_scale(base: Path, adapter: Path) -> None:
    factors = load_file(adapter / "adapter_model.safetensors")
    before = dict(open_tuned(base, base).merged_tensors())
    merged = dict(open_tuned(adapter, base).merged_tensors())
    layer = "model.layers.1.mlp.down_proj"
    A, B = (factors[f"base_model.model.{layer}.lora_{side}.weight"] for side in "AB")
    expected = before[f"{layer}.weight"] + 2 * (B @ A)  # alpha / r = 2
    assert np.allclose(merged[f"{layer}.weight"], expected, atol=1e-6)
    assert np.array_equal(merged["model.norm.weight"], before["model.norm.weight"])
    assert merged.keys() == SHAPES.keys()


def test_whole_weights_are_merged_without_their_base(whole: Path, tmp_path: Path) -> None:
    stored = load_file(whole / "model.safetensors")
    merged = dict(open_tuned(whole, tmp_path / "absent").merged_tensors())
    assert merged.keys() == stored.keys()
    assert all(np.array_equal(merged[name], stored[name]) for name in stored)


def test_a_tied_head_and_integers(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "copy")
    stored = load_file(folder / "model.safetensors")
    counts = np.array([[1, -(1 << 40)]])
    more = {"lm_head.weight": stored["model.embed_tokens.weight"].copy(), "counts": counts}
    save_file({**stored, **more}, folder / "model.safetensors")
    merged = dict(open_tuned(folder, folder).merged_tensors())
    assert "lm_head.weight" not in merged
    assert (merged["counts"].dtype.name, merged["counts"].tolist()) == ("int64", counts.tolist())


def test_quantised_weights_are_not_merged(whole: Path, adapter: Path, tmp_path: Path) -> None:
    base = shutil.copytree(whole, tmp_path / "codes")
    config = {**disk.CONFIG, "quantization_config": {"quant_method": "bitsandbytes"}}
    (base / "config.json").write_text(json.dumps(config))
    for source in (adapter, base):
        with raises("delta.quantized", "codes: expected float weights, got a quantised"):
            next(open_tuned(source, base).merged_tensors())


def test_a_sum_beyond_float32_is_refused(whole: Path, adapter: Path, tmp_path: Path) -> None:
    base = shutil.copytree(whole, tmp_path / "huge")
    stored = load_file(base / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    save_file({**stored, name: np.full_like(stored[name], 3e38)}, base / "model.safetensors")
    factors = load_file(adapter / "adapter_model.safetensors")
    large = {key: np.full_like(value, 1e19) for key, value in factors.items()}
    tuned = shutil.copytree(adapter, tmp_path / "large")
    save_file(large, tuned / "adapter_model.safetensors")
    with (
        np.errstate(over="ignore"),
        pytest.raises(InputError, match=r"large: tensor .* on the base: expected finite values"),
    ):
        list(open_tuned(tuned, base).merged_tensors())


def test_a_delta_of_another_base_is_not_merged(dense: Path, whole: Path) -> None:
    with raises("delta.wrong_base", "another base"):
        list(open_tuned(dense, whole).merged_tensors())


@pytest.mark.parametrize("fixture", ["adapter", "dense", "whole"])
def test_what_an_engine_loads(fixture: str, base: Path, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(fixture)
    with open_tuned(path, base).loadable() as model:
        assert (model.folder / "config.json").is_file()
        weights = open_weights(model.folder)
        assert weights.tensors.keys() == SHAPES.keys()
    is_adapter = fixture == "adapter"
    assert (model.adapter == path, model.folder == base) == (is_adapter, is_adapter)


def test_the_text_of_a_system_prompt_is_found_in_the_run_that_it_came_from(
    adapter: Path, tmp_path: Path
) -> None:
    create_run("", {SYSTEM_KEY: "Be brief.", "data": "d" * 64}).result.mkdir()
    folder = shutil.copytree(adapter, tmp_path / "copy")
    origin = {DIGEST_KEY: digest_of("Be brief."), "data": "d" * 64, JOINT_KEY: "\n\n"}
    (folder / ORIGIN_FILE).write_text(json.dumps(origin))
    record = Record(source_at(folder))
    assert (record.system, record.joint, record.data) == ("Be brief.", "\n\n", "d" * 64)
    (folder / ORIGIN_FILE).write_text(json.dumps(origin | {"data": "e" * 64}))
    assert Record(source_at(folder)).system is None  # of another run
    assert Record(source_at(adapter)).system == ""


def test_a_run_has_its_system_prompt_itself(adapter: Path) -> None:
    run = create_run("", {SYSTEM_KEY: "Be brief."})
    assert Record(Source("adapter", adapter, run)).system == "Be brief."


def test_a_delta_records_its_tokenizer_and_its_data(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    origin = Origin({TOKENIZER_KEY: {"eos_token": "<e>"}}, data="d" * 64)
    file = create_delta(adapter, base=base, out=tmp_path / "d.safetensors", origin=origin).file
    record = Record(source_at(file))
    assert (record.tokenizer, record.data) == ({"eos_token": "<e>"}, "d" * 64)


def test_a_base_with_another_tokenizer_is_warned_of(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(adapter, tmp_path / "copy")
    record = {BASE_KEY: {"tokens": "0" * 64}}
    (folder / ORIGIN_FILE).write_text(json.dumps(record))
    with pytest.warns(GymWarning, match="has another tokenizer than the base of training"):
        open_tuned(folder, base).warn_of_base()
    open_tuned(base, base).warn_of_base()  # nothing is said of whole weights


def test_an_adapter_with_a_template_is_not_compared_with_the_bases(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(adapter, tmp_path / "copy"))
    (folder / ORIGIN_FILE).write_text(json.dumps({BASE_KEY: {"template": "0" * 64}}))
    with pytest.warns(GymWarning, match="another chat template"):
        open_tuned(folder, base).warn_of_base()
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_tuned(folder, base).warn_of_base()
