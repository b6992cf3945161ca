"""OFT: blocks of rotations that divide each layer, drop out, and work on any base."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends import reference
from tests.backends.families import write_family
from tests.backends.objectives_for_tests import SFT
from tests.backends.policies import OFT, as_reference, moved, step
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, QuantizationSpec, Stat
from zoo.backends.spec import OftSpec
from zoo.backends.torch.policy import TorchPolicy
from zoo.core.errors import GymWarning, InputError

pytestmark = pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")


def loaded(
    folder: Path, train: OftSpec | None = OFT, *, dtype: str = "f32", **settings: Any
) -> TorchPolicy:
    spec = LoadSpec(train=train, dtype=dtype, seed=1, **settings)
    return as_reference(load_backend("cpu").load(folder, spec))


def scores(policy: Any) -> Any:
    return policy.score(reference.example_batch(), frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            OftSpec(block_size=24),
            "oft_block_size: expected a divisor of the 64 inputs of 'model.layers.0",
        ),
        (
            OftSpec(block_size=128),
            "oft_block_size: expected a divisor of the 64 inputs of 'model.layers.0",
        ),
        (OftSpec(rank=3, block_size=0), "oft_rank: expected a divisor of the 64 inputs of 'model"),
        (OftSpec(rank=64, block_size=0), "oft_rank: expected at most 32, so that a block of 'mode"),
        (
            OftSpec(targets=("embed_tokens",)),
            "oft_target: expected linear layers, got Embedding 'model.embed_tokens'",
        ),
        (OftSpec(targets=("nothing",)), "oft_target: expected names that layers end with, got"),
    ],
    ids=str,
)
def test_blocks_that_do_not_fit_a_layer_are_refused(tied: Path, spec: OftSpec, said: str) -> None:
    with pytest.raises(InputError, match=said):
        loaded(tied, spec)


def test_a_number_of_blocks_gives_their_size(tied: Path) -> None:
    policy = loaded(tied, OftSpec(rank=4, block_size=0, targets=("q_proj", "down_proj")))
    # 64 and 128 inputs: blocks of 16 and 32, with 120 and 496 pairs of inputs
    assert {p.shape for p in policy.parameters.values()} == {(4, 120), (4, 496)}


@pytest.mark.slow
def test_blocks_drop_out_in_training_alone_and_by_the_key(tied: Path) -> None:
    spec = OftSpec(block_size=16, dropout=0.5)
    policy, whole = (moved(loaded(tied, train)) for train in (spec, OFT))
    np.testing.assert_array_equal(scores(policy), scores(whole))
    batch = reference.example_batch()
    losses = [policy.accumulate(SFT, batch, key=key)["loss"] for key in (1, 2, 1)]
    assert losses[0] == losses[2]
    assert len({*losses, whole.accumulate(SFT, batch, key=1)["loss"]}) == 3


@pytest.mark.slow
def test_dropped_blocks_are_the_same_when_activations_are_recomputed(tied: Path) -> None:
    found: list[Any] = []
    for checkpointing in (True, False):
        train = OftSpec(block_size=16, dropout=0.5)
        policy = moved(loaded(tied, train, gradient_checkpointing=checkpointing))
        policy.accumulate(SFT, reference.example_batch(), key=1)
        found.append(dict(policy.gradients()))
    assert reference.relative_error(*found) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 8])
def test_rotations_act_on_a_base_of_few_bits(tied: Path, bits: int) -> None:
    quantized = QuantizationSpec(bits)
    base = scores(loaded(tied, None, quantization=quantized))
    policy = loaded(tied, quantization=quantized)
    np.testing.assert_array_equal(scores(policy), base)
    step(policy, reference.example_batch(), 1)
    assert np.abs(scores(policy) - base).max() > 1e-3
    with policy.reference() as frozen:
        np.testing.assert_array_equal(scores(frozen), base)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "bf16-widened"])
def test_a_16_bit_base_has_rotations_in_float32(stored_bf16: Path, dtype: str) -> None:
    policy = loaded(stored_bf16, dtype=dtype)
    with policy.reference() as base:
        np.testing.assert_array_equal(scores(policy), scores(base))
    assert {str(p.dtype) for p in policy.parameters.values()} == {"torch.float32"}
    step(policy, reference.example_batch(), 1)
    assert all(np.abs(value).max() > 0 for _, value in policy.trained())


@pytest.mark.slow
def test_the_base_may_stay_in_its_files(stored_bf16: Path) -> None:
    found: list[Any] = []
    for streams in (True, False):
        settings: Any = {"stream_layers": streams, "gradient_checkpointing": True}
        policy = loaded(stored_bf16, dtype="bf16-widened", **settings)
        step(policy, reference.example_batch(), 1)
        found.append(dict(policy.trained()))
    assert reference.relative_error(*found) < 1e-5


def test_rotations_on_a_16_bit_head_are_computed_in_float32(untied: Path) -> None:
    policy = moved(loaded(untied, OftSpec(block_size=16, targets=("lm_head",))))
    model: Any = policy.module.model
    exact = scores(policy)
    model.lm_head.base_layer.bfloat16()
    rounded = scores(policy)
    assert 0 < np.abs(rounded - exact).max() < 0.1
    model.lm_head.base_layer.float()
    np.testing.assert_allclose(scores(policy), rounded, atol=1e-4)


@pytest.mark.slow
def test_a_reward_model_has_the_rotations_merged(tied: Path, tmp_path: Path) -> None:
    policy = moved(loaded(tied, value_head=True, reward_model=True))
    expected = policy.logits([5, 6, 7])
    policy.save_result(tmp_path, base=str(tied))
    policy.reopen(tmp_path)
    np.testing.assert_allclose(policy.logits([5, 6, 7]), expected, atol=1e-4)


@pytest.mark.slow
def test_stacked_experts_are_left_out_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(GymWarning, match="oft_target: all leaves out the stacked experts"):
        policy = loaded(write_family(tmp_path, "mixtral"))
    assert {name.split(".")[-3] for name in policy.parameters} == {
        *("q_proj", "k_proj", "v_proj", "o_proj")
    }


def test_layers_of_gpt2_are_refused(tmp_path: Path) -> None:
    with raises("models.library_refused", "oft_target: 'all-linear' cannot be used here: Target"):
        loaded(write_family(tmp_path, "gpt2"))


@pytest.mark.mlx
def test_mlx_refuses_rotations_by_name() -> None:
    pytest.importorskip("mlx.core")
    from zoo.backends.mlx.settings import refuse_settings

    with raises("backends.setting_not_supported", "expected lora, dora or full on MLX, got 'oft'"):
        refuse_settings(LoadSpec(train=OFT))
