"""A batch with a temperature: its statistics are those of the logits divided by it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends import reference
from tests.backends.objectives_for_tests import CRITIC, DISTILL, GRPO, SFT, TestObjective
from tests.backends.policies import LORA, as_reference, policies
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, Sampling, Stat
from zoo.backends.torch.generation.draws import sampling_logprobs

WARM = replace(reference.example_batch(), temperature=0.7)


@pytest.mark.slow
@pytest.mark.parametrize("train", [LORA, "full"], ids=["lora", "full"])
@pytest.mark.parametrize("objective", [SFT, GRPO, CRITIC], ids=lambda o: o.name)
def test_loss_and_gradient_are_those_of_divided_logits(
    engine: str, tied: Path, objective: TestObjective, train: Any
) -> None:
    mine, plain = policies(engine, tied, train, value_head=Stat.VALUES in objective.needs)
    loss, gradients = reference.loss_and_gradients(as_reference(plain), objective, WARM)
    found = mine.accumulate(objective, WARM, key=0)["loss"]
    assert found == pytest.approx(loss, rel=1e-5)
    assert reference.relative_error(dict(mine.gradients()), gradients) < 1e-5


@pytest.mark.slow
def test_a_teacher_has_the_temperature_too(engine: str, untied: Path, teacher_folder: Path) -> None:
    mine, plain = policies(engine, untied, LORA)
    other, other_plain = (load_backend(name).load(teacher_folder) for name in (engine, "cpu"))
    loss, gradients = reference.loss_and_gradients(
        as_reference(plain), DISTILL, WARM, as_reference(other_plain)
    )
    got = mine.accumulate(DISTILL, WARM, key=0, teacher=other)
    assert got["loss"] == pytest.approx(loss, rel=1e-5)
    assert reference.relative_error(dict(mine.gradients()), gradients) < 1e-5


def test_scores_are_the_log_probabilities_that_tokens_were_sampled_with(
    stored_bf16: Path,
) -> None:
    """In 16 bits too: the hidden states are not rounded again."""
    policy = as_reference(load_backend("cpu").load(stored_bf16, LoadSpec(dtype="bf16")))
    ids = [5, 60, 7, 80, 9, 100]
    mask = np.arange(len(ids))[None] > 0
    batch = Batch(np.array([ids]), np.array([len(ids)]), mask, temperature=0.7)
    scores = policy.score(batch, frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS][0, 1:]

    logits = torch.from_numpy(policy.logits(ids)[:-1])
    sampled = sampling_logprobs(logits, Sampling(temperature=0.7))
    expected = sampled.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]
    np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_divides_nothing_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="temperature: expected more than 0"):
        replace(WARM, temperature=wrong)
