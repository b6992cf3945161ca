"""A run's files say nothing of the engine: adapters, checkpoints and models go both ways."""

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.backends import reference
from tests.backends.objectives_for_tests import SFT
from tests.backends.policies import DORA, LORA, moved, step
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, OptimizerSpec, ParameterGroup, Policy, Stat
from zoo.core.errors import InputError

IDS = [5, 6, 7, 100, 3]
LOGPROBS = frozenset({Stat.LOGPROBS})
ENGINES = ("mlx", "cpu")
TRAINS = pytest.mark.parametrize("train", [LORA, DORA, "full"], ids=["lora", "dora", "full"])
pytestmark = pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")


def trained(engine: str, folder: Path, train: LoraSpec | Literal["full"], seed: int = 1) -> Policy:
    spec = OptimizerSpec(weight_decay=0.1, groups=(ParameterGroup("down_proj.weight", 0.5),))
    optimizer = spec if train == "full" else OptimizerSpec(weight_decay=0.1)
    loaded = LoadSpec(train=train, dtype="f32", seed=seed, optimizer=optimizer)
    return load_backend(engine).load(folder, loaded)


def same(one: Policy, other: Policy, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(one.logits(IDS), other.logits(IDS), atol=tolerance)


def saved(policy: Policy, folder: Path, base: Path) -> Path:
    policy.save_result(folder, base=str(base))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("spec", [LORA, LoraSpec(4, 8.0, targets=("q_proj",), rslora=True), DORA])
@pytest.mark.parametrize(("maker", "reader"), [("mlx", "cpu"), ("cpu", "mlx")])
def test_an_adapter_gives_the_same_logits_on_both_engines(
    untied: Path, tmp_path: Path, spec: LoraSpec, maker: str, reader: str
) -> None:
    policy = moved(trained(maker, untied, spec))
    folder = saved(policy, tmp_path, untied)
    opened = load_backend(reader).load(untied, LoadSpec(adapter=folder, dtype="f32"))
    same(policy, opened)
    plain = load_backend(reader).load(untied, LoadSpec(dtype="f32"))
    assert np.abs(plain.logits(IDS) - opened.logits(IDS)).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("dora", [False, True])
def test_the_configs_of_an_adapter_are_the_same(untied: Path, tmp_path: Path, dora: bool) -> None:
    def config(engine: str) -> dict[str, Any]:
        policy = trained(engine, untied, LoraSpec(4, 8.0, dropout=0.1, dora=dora))
        folder = saved(policy, tmp_path / engine, untied)
        found: dict[str, Any] = json.loads((folder / "adapter_config.json").read_text())
        return found | {"target_modules": sorted(found["target_modules"]), "exclude_modules": 0}

    assert config("mlx") == config("cpu")


@pytest.mark.slow
def test_ranks_and_scales_by_layer_are_followed(untied: Path, tmp_path: Path) -> None:
    policy = moved(trained("cpu", untied, LoraSpec(4, 8.0, targets=("q_proj", "v_proj"))))
    folder = saved(policy, tmp_path, untied)
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    patterns = {"alpha_pattern": {"layers.1.self_attn.q_proj": 32}, "rank_pattern": {"v_proj": 4}}
    file.write_text(json.dumps(config | patterns | {"r": 4}))
    one, other = (
        load_backend(e).load(untied, LoadSpec(adapter=folder, dtype="f32")) for e in ("mlx", "cpu")
    )
    same(one, other)
    assert np.abs(one.logits(IDS) - policy.logits(IDS)).max() > 0.01


@pytest.mark.slow
def test_a_model_trained_in_full_opens_in_transformers(tied: Path, tmp_path: Path) -> None:
    policy = trained("mlx", tied, "full")
    step(policy, reference.example_batch(), 1)
    folder = saved(policy, tmp_path, tied)
    same(policy, load_backend("cpu").load(folder))


@pytest.mark.slow
@TRAINS
def test_a_result_is_reopened_as_it_was_trained(
    tied: Path, tmp_path: Path, train: LoraSpec | Literal["full"]
) -> None:
    policy = trained("mlx", tied, train)
    step(policy, reference.example_batch(), 1)
    expected = policy.logits(IDS)
    saved(policy, tmp_path, tied)
    policy.reopen(tmp_path)
    np.testing.assert_allclose(policy.logits(IDS), expected, atol=1e-5)


@pytest.mark.slow
@TRAINS
@pytest.mark.parametrize(("first", "second"), [("mlx", "cpu"), ("cpu", "mlx")])
def test_a_checkpoint_continues_on_the_other_engine(
    tied: Path, tmp_path: Path, train: LoraSpec | Literal["full"], first: str, second: str
) -> None:
    """It holds names, moments and steps, and both take the same step from it."""
    batch = reference.example_batch()
    kept, other = trained(first, tied, train), trained(second, tied, train, seed=9)
    step(kept, batch, 1)
    kept.save_checkpoint(tmp_path)
    other.load_checkpoint(tmp_path)
    step(kept, batch, 2)
    step(other, batch, 2)
    assert reference.relative_error(dict(other.trained()), dict(kept.trained())) < 1e-5
    for policy, name in ((kept, "one"), (other, "two")):
        (tmp_path / name).mkdir()
        policy.save_checkpoint(tmp_path / name)
    for name in ("trained.safetensors", "optimizer.safetensors"):
        one, two = (load_file(tmp_path / part / name) for part in ("one", "two"))
        assert {k: (v.shape, v.dtype) for k, v in one.items()} == {
            k: (v.shape, v.dtype) for k, v in two.items()
        }


@pytest.mark.slow
@TRAINS
def test_ten_steps_of_both_engines_are_the_same(
    tied: Path, train: LoraSpec | Literal["full"]
) -> None:
    """Moments, weight decay and the rates of groups accumulate; clipping acts on each."""
    batch, (mine, plain) = reference.example_batch(), (trained(e, tied, train) for e in ENGINES)
    mine.load_trained(dict(plain.trained()))
    for key in range(10):
        for policy in (mine, plain):
            policy.accumulate(SFT, batch, key=key)
        one, two = (policy.optimizer_step(1e-3, 0.5) for policy in (mine, plain))
        assert one.grad_norm == pytest.approx(two.grad_norm, rel=1e-3)
    assert reference.relative_error(dict(mine.trained()), dict(plain.trained())) < 1e-4


@pytest.mark.slow
def test_16_bit_weights_train_in_float32(stored_bf16: Path) -> None:
    spec = LoadSpec(train=LORA, dtype="bf16")
    mine, plain = (load_backend(engine).load(stored_bf16, spec) for engine in ENGINES)
    mine.load_trained(dict(moved(plain).trained()))
    batch = reference.example_batch()
    found, expected = (p.score(batch, LOGPROBS)[Stat.LOGPROBS] for p in (mine, plain))
    assert np.abs(found - expected).mean() < 0.05
    losses = [policy.accumulate(SFT, batch, key=0)["loss"] for policy in (mine, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)
    assert {value.dtype for _, value in mine.gradients()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"use_dora": True}, "got 2 fewer: .*lora_magnitude_vector"),
        ({"peft_type": "LOHA"}, "peft_type: expected LORA on MLX, got LOHA"),
        ({"bias": "all"}, "bias: expected none on MLX, got 'all'"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights: expected none on MLX, got 'pissa'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save: expected none on MLX"),
        ({"target_modules": ["q_proj", "k_proj"]}, "got 4 fewer"),
        ({"layers_to_transform": [0], "target_modules": ["q_proj"]}, "got 2 more"),
        ({"r": 2}, r"shape mismatch: expected \(2, 64\), got \(4, 64\)"),
    ],
    ids=str,
)
def test_an_adapter_that_acts_otherwise_is_refused(
    untied: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    folder = saved(trained("mlx", untied, LoraSpec(4, 8.0, targets=("q_proj",))), tmp_path, untied)
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(InputError, match=said):
        load_backend("mlx").load(untied, LoadSpec(adapter=folder))


def test_an_adapter_with_a_nan_is_refused(untied: Path, tmp_path: Path) -> None:
    folder = saved(trained("mlx", untied, LORA), tmp_path, untied)
    file = folder / "adapter_model.safetensors"
    tensors = load_file(file)
    name = min(tensors)
    tensors[name][0, 0] = np.nan
    save_file(tensors, file)
    with raises("backends.not_finite", f"{name}: expected finite weights"):
        load_backend("mlx").load(untied, LoadSpec(adapter=folder))
