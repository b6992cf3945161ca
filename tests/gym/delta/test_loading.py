"""What transformers and peft make of our folders, and we of theirs."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.gym.delta import models_on_disk as disk
from zoo.gym.delta import apply_delta, create_delta, delta_model, difference, load_delta
from zoo.gym.delta.loadable import tuned_model
from zoo.gym.errors import GymWarning

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

SHAPES = disk.qwen3_shapes()
Q = "model.layers.0.self_attn.q_proj.weight"


def logits(folder: Path, adapter: Path | None = None) -> NDArray[np.float32]:
    """Loads a folder as any user would, and an adapter on it through peft."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    if adapter is not None:
        model = PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        ids = torch.arange(12)[None] * 3
        return np.asarray(model(input_ids=ids).logits[0])


@pytest.fixture(scope="module")
def base32(home: Path) -> Path:
    return disk.write_model(home / "loaded" / "base", disk.random_arrays(SHAPES, 0, 0.3))


@pytest.fixture(scope="module")
def peft_folder(home: Path, base32: Path) -> Path:
    """An adapter that peft itself made and saved, with two ranks and rsLoRA."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    config = LoraConfig(
        r=4,
        lora_alpha=6,
        use_rslora=True,
        target_modules="all-linear",
        rank_pattern={"q_proj": 2},
        alpha_pattern={"layers.1.mlp.up_proj": 3},
    )
    model: Any = get_peft_model(AutoModelForCausalLM.from_pretrained(base32), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(home / "loaded" / "peft")
    merged: Any = model.merge_and_unload()
    merged.save_pretrained(home / "loaded" / "merged")
    return home / "loaded" / "peft"


@pytest.mark.slow
def test_an_applied_dense_delta_of_what_moved_by_one_size_is_the_tuned_model(
    base32: Path, tmp_path: Path
) -> None:
    base, step = disk.random_arrays(SHAPES, 0, 0.3), np.float32(0.0625)
    moved = {
        name: base[name] + np.where(array > 0, step, -step).astype(np.float32)
        for name, array in disk.random_arrays(SHAPES, 1).items()
    }
    tuned = disk.write_model(tmp_path / "tuned", moved)
    file = create_delta(tuned, base=base32, base_id="b", out=tmp_path / "d.safetensors").file
    folder = apply_delta(file, base=base32, out=tmp_path / "out").folder
    np.testing.assert_allclose(logits(folder), logits(tuned), atol=1e-4)
    assert np.abs(logits(folder) - logits(base32)).max() > 0.1


def test_peft_factors_are_folded_as_peft_merges_them(base32: Path, peft_folder: Path) -> None:
    from zoo.gym.delta.reading.adapter import read_adapter, read_factors
    from zoo.gym.delta.reading.weights import open_weights, read_float32

    before = open_weights(base32)
    adapter = read_adapter(peft_folder, before)
    merged = open_weights(peft_folder.parent / "merged")
    assert len(adapter.factors) == 14
    for name in adapter.factors:
        A, B = read_factors(adapter, name)
        change = read_float32(merged, name) - read_float32(before, name)
        np.testing.assert_allclose(B.T @ A, change, atol=2e-6)


@pytest.mark.slow
def test_a_lowrank_delta_serves_as_an_adapter_or_as_a_folder(
    base32: Path, peft_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "d.safetensors"
    delta = load_delta(create_delta(peft_folder, base=base32, base_id="b", out=out).file)
    folder = apply_delta(out, base=base32, out=tmp_path / "out", scaled=0.7).folder
    with delta_model(delta, base32, scaled=0.7) as served:
        assert served.adapter is not None
        beside = logits(served.folder, served.adapter)
    np.testing.assert_allclose(beside, logits(folder), atol=1e-4)
    assert not served.adapter.exists()


@pytest.mark.slow
def test_what_a_base_holds_in_vain_is_not_told_of_a_private_folder(tmp_path: Path) -> None:
    from zoo.backends import load_backend

    more = {"more.weight": np.ones((2, 2), np.float32)}
    base = disk.write_model(tmp_path / "base", disk.random_arrays(SHAPES, 0) | more)
    theirs = disk.write_model(tmp_path / "tuned", disk.random_arrays(SHAPES, 1) | more)
    file = create_delta(theirs, base=base, base_id="tiny", out=tmp_path / "d.safetensors").file
    with delta_model(load_delta(file), base) as model:
        load_backend("cpu").load(model.folder)
    with pytest.warns(GymWarning, match="base: 1 tensor is not part of this model"):
        load_backend("cpu").load(base)


def test_a_dense_delta_serves_as_a_folder_that_is_deleted(dense: Path, base: Path) -> None:
    with delta_model(load_delta(dense), base) as served:
        assert served.adapter is None
        assert np.isfinite(logits(served.folder)).all()
    assert not served.folder.exists()


@pytest.mark.slow
def test_two_bits_keep_most_of_a_peft_adapter(
    base32: Path, peft_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "d.safetensors"
    create_delta(peft_folder, base=base32, base_id="b", out=out)
    tuned = logits(base32, peft_folder)
    folder = apply_delta(out, base=base32, out=tmp_path / "out").folder
    before, after = (np.abs(logits(each) - tuned).mean() for each in (base32, folder))
    assert after < 0.5 * before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adapter_model.safetensors", "renamed.safetensors"])
def test_an_adapter_file_loads_like_its_folder(
    name: str, base32: Path, peft_folder: Path, tmp_path: Path
) -> None:
    shutil.copy(peft_folder / "adapter_config.json", tmp_path)
    file = shutil.copy(peft_folder / "adapter_model.safetensors", tmp_path / name)
    with tuned_model(Path(file), base32) as served:
        found = logits(served.folder, served.adapter)
    np.testing.assert_array_equal(found, logits(base32, peft_folder))


def test_a_file_of_weights_loads_with_the_config_of_its_base(base32: Path, tmp_path: Path) -> None:
    arrays = disk.random_arrays(SHAPES, 5, 0.3)
    file = disk.write_tensors(tmp_path / "any.safetensors", arrays)
    folder = disk.write_model(tmp_path / "folder", arrays)
    with tuned_model(file, base32) as served:
        np.testing.assert_array_equal(logits(served.folder), logits(folder))


def test_a_sharded_folder_loads_too(dense: Path, base: Path, tmp_path: Path) -> None:
    whole = apply_delta(dense, base=base, out=tmp_path / "one").folder
    parts = apply_delta(dense, base=base, out=tmp_path / "many", shard_bytes=3000).folder
    np.testing.assert_array_equal(logits(parts), logits(whole))


def test_difference_is_what_was_applied(dense: Path) -> None:
    delta = load_delta(dense)
    shapes = {tensor.name: difference(delta, tensor).shape for tensor in delta.header.tensors}
    assert shapes == SHAPES
