"""What the engine cannot do is refused by name before a weight is read."""

import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.backends.policies import FREEZE, LORA, OFT
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, OptimizerSpec, QuantizationSpec
from zoo.backends.mlx.settings import FOLLOWED
from zoo.backends.rope import RopeSpec
from zoo.core.errors import GymWarning, InputError


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            LoadSpec(train=FREEZE),
            "finetuning_type: expected lora, dora or full on MLX, got 'freeze",
        ),
        (LoadSpec(train=OFT), "finetuning_type: expected lora, dora or full on MLX, got 'oft'"),
        (
            LoadSpec(train=LoraSpec(whole=("norm",))),
            "additional_target: not available on MLX",
        ),
        (LoadSpec(attention="eager"), "flash_attn: not available on MLX: got disabled"),
        (LoadSpec(train=LORA, router_loss=0.1), "moe_aux_loss_coef: not available on MLX: got 0.1"),
        (LoadSpec(train=LoraSpec(init="pissa")), "pissa_init: not available on MLX: got true"),
        (
            LoadSpec(train=LoraSpec(init="loftq"), quantization=QuantizationSpec(4)),
            "loftq_init: not available on MLX: got true",
        ),
        (LoadSpec(rope=RopeSpec("linear", 2048)), "rope_scaling: not available on MLX: got a kind"),
        (LoadSpec(dtype="bf16-widened"), "dtype: expected auto, f32 or bf16 on MLX"),
        (
            LoadSpec(train=LORA, value_head=True, reward_model=True),
            "stage: not available on MLX: got rm",
        ),
        (
            LoadSpec(train=LORA, optimizer=OptimizerSpec(name="lion")),
            "optim: not available on MLX: got lion",
        ),
    ],
    ids=str,
)
def test_a_setting_that_this_engine_lacks_is_refused(
    tied: Path, tmp_path: Path, spec: LoadSpec, said: str
) -> None:
    shutil.copy(tied / "config.json", tmp_path)  # no weights
    (tmp_path / "model.safetensors").write_bytes(b"")
    with raises("backends.setting_not_supported", said):
        load_backend("mlx").load(tmp_path, spec)


def test_settings_are_followed_by_name_and_new_ones_refused_until_then() -> None:
    for kind, names in FOLLOWED.items():
        assert names <= {field.name for field in fields(kind)}


@pytest.mark.parametrize("target", ["embed_tokens", "norm"])
def test_a_layer_that_is_not_linear_is_refused(tied: Path, target: str) -> None:
    with raises("backends.not_linear", f"lora_target: '{target}' cannot be used here"):
        load_backend("mlx").load(tied, LoadSpec(train=LoraSpec(4, 8.0, targets=(target,))))


@pytest.mark.slow
def test_a_reward_model_scores_with_torch(tied: Path, tmp_path: Path) -> None:
    spec = LoadSpec(train="full", value_head=True, reward_model=True)
    load_backend("cpu").load(tied, spec).save_result(tmp_path, base=str(tied))
    rows = [[1, 2, 3], [4, 5]]
    mine, plain = (load_backend(e).load_reward_model(tmp_path) for e in ("mlx", "cpu"))
    assert mine.score(rows) == plain.score(rows)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: w[0].put(5, np.nan), "q_proj.weight: value 5 is nan: expected finite weights"),
        (lambda w: w.__setitem__(0, w[0][:32]), r"mismatch: expected \(64, 64\), got \(32, 64\)"),
        (lambda w: w.clear(), "1 tensor is missing"),
        (lambda w: w.__setitem__(0, w[0].astype(np.int8)), "expected weights in F64, F32"),
    ],
)
def test_broken_weights_are_refused(tied: Path, tmp_path: Path, change: object, said: str) -> None:
    folder, name = Path(shutil.copytree(tied, tmp_path / "m")), "model.layers.0.self_attn.q_proj"
    tensors = load_file(folder / "model.safetensors")
    held = [tensors.pop(f"{name}.weight")]
    assert callable(change)
    change(held)
    save_file(tensors | {f"{name}.weight": w for w in held}, folder / "model.safetensors")
    with pytest.raises(InputError, match=said):
        load_backend("mlx").load(folder)


def test_a_tensor_without_a_place_is_reported(tied: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tied, tmp_path / "m"))
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.2.other.weight"] = np.zeros((2, 2), np.float32)
    save_file(tensors, folder / "model.safetensors")
    with pytest.warns(GymWarning, match="1 tensor is not part of this model and not used"):
        load_backend("mlx").load(folder)
