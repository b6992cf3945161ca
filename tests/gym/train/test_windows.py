"""The gradient of each objective over pairs does not depend on how a window is cut."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends.reference import relative_error
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Objective
from zoo.backends.torch.loss import to_device
from zoo.backends.torch.namespace import TorchNamespace
from zoo.backends.torch.policy import TorchPolicy
from zoo.backends.torch.vocabulary.statistics import chunk_statistics
from zoo.gym.data import Example, Unit
from zoo.gym.objectives.constants import REF_LOGPROBS
from zoo.gym.objectives.cpo import CpoLoss
from zoo.gym.objectives.dpo import LOSSES, DpoLoss
from zoo.gym.objectives.orpo import OrpoLoss
from zoo.gym.train.accumulate import _joined, accumulate_window
from zoo.gym.train.method import make_window

TOLERANCE = 1e-6
KEYS = [3, 5, 8, 13, 21, 34]
OBJECTIVES: dict[str, Objective] = {
    **{name: DpoLoss(terms=((name, 1.0),), label_smoothing=0.1) for name in LOSSES},
    "wpo": DpoLoss(use_weighting=True),
    "orpo": OrpoLoss(),
    "cpo": CpoLoss(),
    "simpo": CpoLoss(loss="simpo", cpo_alpha=0.0),
}


def random_pairs(count: int, seed: int = 0) -> list[Unit]:
    """Pairs of random answers of 2 to 9 tokens, after prompts of 3 to 6."""
    random = np.random.default_rng(seed)
    units = []
    for _ in range(count):
        prompt = random.integers(3, 500, random.integers(3, 7))
        rows = []
        for _ in range(2):
            ids = np.concatenate([prompt, random.integers(3, 500, random.integers(2, 10))])
            mask = np.arange(len(ids)) >= len(prompt)
            ref = np.where(mask, -6 + random.standard_normal(len(ids)), 0).astype(np.float32)
            rows.append(Example(ids, mask, "rows:1", truncated=False, extras={REF_LOGPROBS: ref}))
        units.append(Unit(tuple(rows)))
    return units


def loaded(folder: Path, dropout: float = 0.0) -> TorchPolicy:
    """A policy whose adapter already does something: its B is not zero."""
    policy = load_backend("cpu").load(folder, LoadSpec(train=LoraSpec(4, 8.0, dropout=dropout)))
    assert isinstance(policy, TorchPolicy)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in policy.parameters.values():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return policy


def gradients(policy: TorchPolicy) -> dict[str, Any]:
    """Returns the accumulated gradient and clears it."""
    found = dict(policy.gradients())
    policy.optimizer.clear()
    return found


def batches(units: Sequence[Unit], size: int) -> list[Batch]:
    return list(make_window(units, max_units=size).batches)


QUICK = ("sigmoid", "aot", "orpo", "sft")
"""One of each shape; the other losses are compared in the slow tests."""


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in OBJECTIVES]
)
def test_micro_batches_of_one_pair_give_the_gradient_of_the_window(tiny: Path, name: str) -> None:
    policy, units, objective = loaded(tiny), random_pairs(6), OBJECTIVES[name]
    whole_loss = accumulate_window(policy, objective, batches(units, 6), KEYS[:1])
    whole = gradients(policy)
    cut_loss = accumulate_window(policy, objective, batches(units, 1), KEYS)
    assert cut_loss == pytest.approx(whole_loss, rel=1e-5, abs=1e-6)
    assert relative_error(gradients(policy), whole) < TOLERANCE


def autograd(policy: TorchPolicy, objective: Objective, parts: Sequence[Batch]) -> dict[str, Any]:
    """Returns the gradient by ordinary autograd through all micro-batches at once."""
    stats: dict[Any, list[torch.Tensor]] = {stat: [] for stat in objective.needs}
    width = max(part.ids_BT.shape[1] for part in parts)
    for part, key in zip(parts, KEYS, strict=True):
        moved = to_device(part, policy.device)
        with policy._learning(key, moved):
            scored = policy.module.scored(moved)
        found = chunk_statistics(scored, objective.needs, scored.hidden_ND, slice(None))
        for stat, values in found.items():
            placed = moved.scatter(values)
            stats[stat].append(torch.nn.functional.pad(placed, (0, width - placed.shape[1])))
    joined = {stat: torch.cat(values) for stat, values in stats.items()}
    arrays = {
        name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in _joined(parts).items()
    }
    objective(TorchNamespace(), joined, arrays)[0].backward()
    return gradients(policy)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aot", "aot_unpaired", "sigmoid"])
def test_with_dropout_a_replay_is_plain_autograd_over_the_same_parts(tiny: Path, name: str) -> None:
    policy, objective = loaded(tiny, dropout=0.3), OBJECTIVES[name]
    parts = batches(random_pairs(6), 1)
    accumulate_window(policy, objective, parts, KEYS)
    got = gradients(policy)
    assert relative_error(got, autograd(policy, objective, parts)) < TOLERANCE
    accumulate_window(policy, objective, parts, KEYS[::-1])
    assert relative_error(gradients(policy), got) > 0.01  # other keys drop other values
