"""One of two processes with a divided policy, against the whole one: `MODULE RANK FOLDER MODEL`.

Prints a line of JSON for each case: relative errors, and what else must be equal. Importing torch
takes longer than all cases, so that they share two processes.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.backends import reference
from tests.backends.objectives_for_tests import CRITIC, DISTILL, GRPO, SFT, TestObjective
from tests.backends.policies import KINDS, LORA, SIGNS, moved
from tests.backends.test_distributed import rows
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, Policy, Sampling, Stat
from zoo.backends.optimizer_spec import OptimizerSpec
from zoo.backends.ranks import Place, Ranks
from zoo.backends.spec import Train
from zoo.backends.torch.parallel.shares import own_part
from zoo.backends.torch.policy import TorchPolicy

BATCH = reference.example_batch(rows=8)


@dataclass(frozen=True)
class Case:
    """What is trained, on which objective, and what else a policy is loaded with."""

    name: str
    train: Train
    objective: TestObjective = GRPO
    spec: dict[str, Any] = field(default_factory=dict[str, Any])


CASES = [
    *(Case(name, train) for name, train in KINDS.items() if train != SIGNS),
    Case("critic", LORA, CRITIC, {"value_head": True, "optimizer": OptimizerSpec(name="lion")}),
    Case("distill", LORA, DISTILL, {"optimizer": OptimizerSpec(name="sgd")}),
    Case("distill full", "full", DISTILL, {"optimizer": OptimizerSpec(name="sgd")}),
    Case("noise", replace(LORA, dropout=0.2), GRPO, {"neftune_noise_alpha": 5.0}),
    Case("bf16", LORA, GRPO, {"dtype": "bf16"}),
    Case("bf16 widened", LORA, GRPO, {"dtype": "bf16-widened"}),
    Case("packed", LORA, SFT, {"packing": "required"}),
]


def trained(policy: Policy, parts: range, objective: TestObjective, steps: int) -> list[float]:
    """Takes steps on some halves of the rows and returns the gradient norms."""
    norms: list[float] = []
    for step in range(steps):
        with policy.reference() as teacher:
            given = teacher if objective is DISTILL else None
            for half in parts:
                batch = rows(BATCH, slice(4 * half, 4 * half + 4))
                policy.accumulate(objective, batch, key=2 * step + half, teacher=given)
        norms.append(policy.optimizer_step(1e-3, 0.5).grad_norm)
    return norms


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest error of scores, of those above 1 relative to the score."""
    return float((np.abs(found - expected) / np.maximum(1.0, np.abs(expected))).max())


def error(found: Policy, expected: Policy) -> float:
    return reference.relative_error(dict(found.trained()), dict(expected.trained()))


def compared(folder: Path, model: Path, ranks: Ranks, case: Case) -> Iterator[tuple[str, object]]:
    """Yields what is compared."""
    engine, objective = load_backend("cpu"), case.objective
    own, everything = range(ranks.rank, ranks.rank + 1), range(2)

    def load(*, sharded: bool) -> Policy:
        given: dict[str, Any] = {
            "dtype": "f32",
            "seed": 1,
            "gradient_checkpointing": True,
        } | case.spec
        policy = moved(engine.load(model, LoadSpec(train=case.train, sharded=sharded, **given)))
        return engine.divide(policy, ranks) if sharded else policy

    whole, divided = load(sharded=False), load(sharded=True)
    expected = trained(whole, everything, objective, 2)
    norms = trained(divided, own, objective, 2)
    yield "norms", float(np.abs(np.array(norms) / expected - 1).max())
    yield "weights", error(divided, whole)
    yield "moved", error(whole, load(sharded=False))
    for name, policy in (("whole", whole), ("divided", divided)):
        with policy.collected(optimizer=True):
            if ranks.is_first:
                (folder / name).mkdir(parents=True)
                policy.save_checkpoint(folder / name)
        ranks.meet()
    # each continues from what the other has written
    crossed = load(sharded=False), load(sharded=True)
    crossed[0].load_checkpoint(folder / "divided")
    crossed[1].load_checkpoint(folder / "whole")
    for policy in (whole, crossed[0]):
        trained(policy, everything, objective, 1)
    for policy in (divided, crossed[1]):
        trained(policy, own, objective, 1)
    yield "resumed whole", error(crossed[0], whole)
    yield "resumed divided", error(crossed[1], whole)
    needs = frozenset({Stat.LOGPROBS, Stat.ENTROPY})
    with whole.reference() as one, divided.reference() as other:
        for name, scorers in (("scores", (whole, divided)), ("reference", (one, other))):
            found = [scorer.score(BATCH, needs) for scorer in scorers]
            yield name, max(relative(found[1][stat], found[0][stat]) for stat in needs)
    prompts, keys = [[5, 6, 7], [8, 9], [5, 6, 7]][ranks.rank :], [11, 12, 13][ranks.rank :]
    sampling = Sampling(max_new_tokens=6, temperature=1.0)
    answers = [[r.ids for r in p.generate(prompts, sampling, keys=keys)] for p in (whole, divided)]
    yield "answers", answers[0] == answers[1]
    assert isinstance(divided, TorchPolicy)
    parameters = list(divided.module.parameters())
    yield "share", sum(own_part(p).numel() for p in parameters) / sum(map(torch.numel, parameters))
    divided.reassemble()
    if ranks.is_first:
        yield "reassembled", error(divided, whole)


def main(rank: int, folder: Path, model: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    with load_backend("cpu").connect(Place(rank, 2, rank, str(folder / "meet"))) as ranks:
        for case in CASES:
            if not names or case.name in names:
                found = dict(compared(folder / case.name, model, ranks, case))
                print(json.dumps({"name": case.name, **found}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
