"""Sampled answers as rows: what is computed on them is at the temperature they were sampled at."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import zoo.gym.train.buffer as buffers
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, Policy, Sampling, Stat
from zoo.backends.ranks import ALONE
from zoo.gym.data.batches import cut_groups
from zoo.gym.data.units import WEIGHT, Example, Unit, weighted
from zoo.gym.rewards import Score
from zoo.gym.train.buffer import Buffer, make_buffer
from zoo.gym.train.rollouts import Answer

PROMPT = [5, 6, 7, 8]


@pytest.fixture(scope="module")
def policy(tiny: Path) -> Policy:
    return load_backend("cpu").load(tiny, LoadSpec(train="full"))


def sampled(policy: Policy) -> Buffer:
    prompt = Example(np.array(PROMPT), np.zeros(4, np.bool_), "row", truncated=False)
    settings = Sampling(max_new_tokens=5, temperature=0.5)
    found = policy.generate([PROMPT] * 3, settings, keys=[1, 2, 3])
    answers = [Answer(prompt, one.ids, "", True, Score(1.0)) for one in found]
    advantages = np.array([[1.0, -1.0, 0.0]])
    return make_buffer([answers], advantages, np.array([False]), mask_truncated=False)


@pytest.mark.slow
def test_scores_and_windows_have_the_temperature_of_the_answers(policy: Policy) -> None:
    cold = sampled(policy)
    warm = replace(cold, temperature=0.5)
    assert [batch.temperature for batch in warm.window(None, 1000).batches] == [0.5]
    scores = [one.scored(policy, Stat.LOGPROBS, 1000, ALONE) for one in (cold, warm)]
    row = warm.units[0].rows[0]
    logprobs = policy.logits(row.ids.tolist()) / 0.5
    logprobs -= np.log(np.exp(logprobs).sum(-1, keepdims=True))
    expected = logprobs[np.arange(len(row.ids) - 1), row.ids[1:]][3:]
    np.testing.assert_allclose(scores[1][0][4:], expected, atol=1e-4)
    assert np.abs(scores[0][0][4:] - expected).max() > 1e-2


def test_a_stored_buffer_keeps_the_temperature(policy: Policy, tmp_path: Path) -> None:
    replace(sampled(policy), temperature=0.5).save(tmp_path / "rows.safetensors")
    assert Buffer.load(tmp_path / "rows.safetensors").temperature == 0.5


def test_answers_have_the_weight_of_their_prompt_also_after_a_resume(tmp_path: Path) -> None:
    prompt = Example(np.array(PROMPT), np.zeros(4, np.bool_), "row", truncated=False)
    groups = [
        [Answer(weighted(prompt, weight), [9], "", False, Score(reward)) for reward in (0.0, 1.0)]
        for weight in (3.0, 0.5)
    ]
    made = make_buffer(groups, np.array([[-1.0, 1.0]] * 2), np.zeros(2, np.bool_))
    made.save(tmp_path / "rows.safetensors")
    for buffer in (made, Buffer.load(tmp_path / "rows.safetensors")):
        (batch,) = buffer.window(None, 1000).batches
        assert batch.extras[WEIGHT].tolist() == [3, 3, 0.5, 0.5]


def test_the_rows_of_a_group_share_their_prompt(policy: Policy) -> None:
    (batch,) = sampled(policy).window(None, 1000).batches
    assert batch.prefix is not None
    assert batch.prefix.lengths_R[0] >= len(PROMPT)


def test_a_wide_group_is_learned_in_parts_with_the_constants_of_the_whole(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = sampled(policy)
    whole = group.window(None, 1000).batches
    monkeypatch.setattr(buffers, "GROUP_TOKENS", 2 * group.units[0].longest)
    parts = group.window(1, 1000).batches
    assert [len(batch.ids_BT) for batch in parts] == [2, 1]
    assert all(batch.constants == whole[0].constants for batch in parts)
    scores = group.scored(policy, Stat.LOGPROBS, 10, ALONE)
    assert [len(row) for row in scores] == [len(row.ids) for row in group.units[0].rows]


def test_the_parts_of_a_group_are_as_even_as_their_rows_allow() -> None:
    row = Example(np.arange(10), np.zeros(10, np.bool_), "row", truncated=False)
    sizes = [len(unit.rows) for unit in cut_groups([Unit((row,) * 8), Unit((row,))], 30)]
    assert sizes == [3, 3, 2, 1]
    assert [len(unit.rows) for unit in cut_groups([Unit((row,) * 2)], 5)] == [1, 1]
