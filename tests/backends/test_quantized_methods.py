"""What methods need of a policy whose base is in 4 or 8 bits, against one in float32.

The other one has the weights that the codes stand for.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.backends.objectives_for_tests import CRITIC, DISTILL, DPO, GRPO, SFT, TestObjective
from tests.backends.policies import LORA, moved
from tests.backends.reference import example_batch
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, QuantizationSpec, Sampling, Stat
from zoo.backends.torch.policy import TorchPolicy
from zoo.backends.torch.quantized.base import quantized_layers
from zoo.backends.torch.quantized.int8 import Int8Linear
from zoo.backends.torch.quantized.library import import_bitsandbytes

bnb: Any = import_bitsandbytes()
if bnb is None:
    pytest.skip("needs the extra qlora", allow_module_level=True)

LOGPROBS = frozenset({Stat.LOGPROBS})
CODES = [QuantizationSpec(), QuantizationSpec(8)]
codes = pytest.mark.parametrize("spec", CODES, ids=["nf4", "int8"])


def loaded(folder: Path, spec: QuantizationSpec | None, **more: Any) -> TorchPolicy:
    given: dict[str, Any] = {"train": LORA, "dtype": "f32", "value_head": True, "seed": 1, **more}
    policy = load_backend("cpu").load(folder, LoadSpec(quantization=spec, **given))
    assert isinstance(policy, TorchPolicy)
    return moved(policy) if given["train"] is not None else policy


def widened(policy: TorchPolicy) -> TorchPolicy:
    """The policy with plain layers of the weights that its codes stand for."""
    for name, layer in list(quantized_layers(policy.module.model)):
        plain, coded = nn.Linear(layer.in_features, layer.out_features, bias=False), layer.weight
        scale: Any = getattr(layer, "scale", None)
        state: Any = getattr(coded, "quant_state", None)
        whole = isinstance(layer, Int8Linear)
        values = coded.float() * scale[:, None] if whole else dequantized(coded, state)
        plain.weight = nn.Parameter(values, requires_grad=False)
        policy.module.model.set_submodule(name, plain)
    assert not list(quantized_layers(policy.module.model))
    return policy


def dequantized(weight: torch.Tensor, state: Any) -> torch.Tensor:
    values: torch.Tensor = bnb.functional.dequantize_4bit(weight.data, state)
    return values.float()


@pytest.mark.slow
@codes
@pytest.mark.parametrize("objective", [SFT, DPO, GRPO, CRITIC, DISTILL], ids=lambda o: o.name)
def test_each_objective_has_the_gradient_of_the_weights_that_codes_stand_for(
    tied: Path, teacher_folder: Path, spec: QuantizationSpec, objective: TestObjective
) -> None:
    teacher = load_backend("cpu").load(teacher_folder, LoadSpec(dtype="f32"))
    found: list[tuple[float, dict[str, Any]]] = []
    for policy in (loaded(tied, spec), widened(loaded(tied, spec))):
        told = policy.accumulate(objective, example_batch(), key=0, teacher=teacher)
        found.append((told["loss"], dict(policy.gradients())))
    (loss, mine), (other, theirs) = found
    assert loss == pytest.approx(other, rel=1e-5)
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_allclose(mine[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
    assert bool(mine["value_head.weight"].any()) == (objective is CRITIC)


@pytest.mark.slow
@codes
def test_the_reference_is_the_base_in_its_codes(tied: Path, spec: QuantizationSpec) -> None:
    """And not the plain one, which would count the rounding as what was learned."""
    base = loaded(tied, spec, train=None, value_head=False).score(example_batch(), LOGPROBS)
    plain = loaded(tied, None, train=None, value_head=False).score(example_batch(), LOGPROBS)
    policy = loaded(tied, spec)
    with policy.reference() as reference:
        scores = reference.score(example_batch(), LOGPROBS)[Stat.LOGPROBS]
    np.testing.assert_array_equal(scores, base[Stat.LOGPROBS])
    assert np.abs(scores - plain[Stat.LOGPROBS]).max() > 1e-3
    assert not np.array_equal(policy.score(example_batch(), LOGPROBS)[Stat.LOGPROBS], scores)


@pytest.mark.slow
@codes
def test_a_quantised_teacher_is_at_no_distance_from_its_own_weights(
    tied: Path, spec: QuantizationSpec
) -> None:
    teacher = loaded(tied, spec, train=None, value_head=False)
    needs = frozenset({Stat.FORWARD_KL})
    same = widened(loaded(tied, spec, train=None, value_head=False))
    found = same.score(example_batch(), needs, teacher=teacher)[Stat.FORWARD_KL]
    np.testing.assert_allclose(found, 0, atol=1e-6)
    plain = loaded(tied, None, train=None, value_head=False)
    assert plain.score(example_batch(), needs, teacher=teacher)[Stat.FORWARD_KL].max() > 5e-6


@pytest.mark.slow
@codes
def test_samples_are_those_of_the_weights_that_codes_stand_for(
    tied: Path, spec: QuantizationSpec
) -> None:
    wanted = Sampling(max_new_tokens=6)
    first, second = (
        policy.generate([[1, 2, 3]] * 2, wanted, keys=[1, 2])
        for policy in (loaded(tied, spec), widened(loaded(tied, spec)))
    )
    assert [one.ids for one in first] == [one.ids for one in second]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)


@pytest.mark.slow
@codes
def test_a_restored_policy_on_codes_goes_on_bit_for_bit(
    tied: Path, tmp_path: Path, spec: QuantizationSpec
) -> None:
    """Its checkpoint has nothing of the base, which the same codes are made of again."""
    kept = loaded(tied, spec)
    step(kept, 1)
    kept.save_checkpoint(tmp_path)
    step(kept, 2)
    resumed = loaded(tied, spec)
    resumed.load_checkpoint(tmp_path)
    step(resumed, 2)
    for (name, mine), (other, theirs) in zip(kept.trained(), resumed.trained(), strict=True):
        assert name == other
        np.testing.assert_array_equal(mine, theirs)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    trained = sum(value.nbytes for _, value in kept.trained())
    assert size < 3 * trained + 30_000  # weights and two moments


def step(policy: TorchPolicy, key: int) -> None:
    policy.accumulate(CRITIC, example_batch(), key=key)
    assert policy.optimizer_step(1e-2, 1.0).changed
