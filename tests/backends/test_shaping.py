"""Bias, penalties, constraints and min-p: what they do to the tokens that are drawn."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.backends.test_slots import PROMPTS, answered
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, Sampling, TokenEvent
from zoo.backends.batching import BLOCKED, Batcher, OneByOne, Request
from zoo.backends.shaping import BlockedError, Shaping, top_tokens


class Alternating:
    """Allows 7 and 9 in turns, then the end after four tokens, and nothing after a 9 at the end."""

    def __init__(self, most: int = 4) -> None:
        self.read: list[int] = []
        self.most = most

    def allowed(self, size: int) -> NDArray[np.bool_]:
        allowed_V = np.zeros(size, np.bool_)
        if len(self.read) == self.most:
            allowed_V[1] = True
        elif len(self.read) > self.most:
            raise BlockedError("it has ended")
        else:
            allowed_V[9 if len(self.read) % 2 else 7] = True
        return allowed_V

    def advance(self, token: int) -> None:
        self.read.append(token)


def batchers(folder: Path, engine: str) -> list[Batcher]:
    """One whose rows come and go, if the engine has it, and one that answers one by one."""
    policy = load_backend(engine).load(folder, LoadSpec(dtype="f32"))
    slots = policy.batcher(rows=4, tokens=64)
    one_by_one = OneByOne(load_backend(engine).load(folder, LoadSpec(dtype="f32")), tokens=64)
    return [one_by_one] if slots is None else [slots, one_by_one]


def events_of(batcher: Batcher) -> list[TokenEvent]:
    events: list[TokenEvent] = []
    while batcher.busy:
        events += batcher.step()
    return events


def test_penalties_count_the_tokens_of_the_answer() -> None:
    settings = Sampling(presence_penalty=0.5, frequency_penalty=0.25, logit_bias=((2, 3.0),))
    shaping = Shaping(settings)
    for token in (1, 1, 2):
        shaping.add(token)
    # token 1: -0.5 - 2 * 0.25; token 2: 3 - 0.5 - 0.25
    logits_V = np.zeros(4, np.float32)
    assert shaping.shape(logits_V).tolist() == [0, -1, 2.25, 0]
    assert not logits_V.any()


def test_the_most_likely_tokens_come_first_and_equal_ones_by_their_ids() -> None:
    logprobs_V = np.array([-3, -1, -2, -1, -2], np.float32)
    assert top_tokens(logprobs_V, 3) == ((1, -1.0), (3, -1.0), (2, -2.0))
    assert len(top_tokens(logprobs_V, 9)) == 5


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_constraint_chooses_the_tokens_and_others_are_as_without(
    tied: Path, engine: str, temperature: float
) -> None:
    plain = Sampling(max_new_tokens=9, temperature=temperature)
    bound = Sampling(9, temperature, stop_ids=(1,), constraint=Alternating, top_logprobs=2)
    requests = [Request(ids, bound if n % 2 else plain, n) for n, ids in enumerate(PROMPTS)]
    for batcher in batchers(tied, engine):
        mixed = answered(batcher, requests)
        alone = answered(batcher, [each for each in requests if each.sampling is plain])
        assert [each.ids for each in mixed[::2]] == [each.ids for each in alone]
        for rollout in mixed[1::2]:
            assert (rollout.ids, rollout.finish) == ([7, 9, 7, 9, 1], "stop")
            assert max(rollout.logprobs) < -0.5  # those of the model: none is near 0


def test_a_row_whose_constraint_allows_nothing_ends_alone(tied: Path, engine: str) -> None:
    blocked = Sampling(max_new_tokens=9, constraint=Alternating)  # its end is no stop id
    plain = Sampling(max_new_tokens=9)
    for batcher in batchers(tied, engine):
        first, second = answered(batcher, [Request((5, 6), blocked), Request((5, 6), plain)])
        assert first.ids[:5] == [7, 9, 7, 9, 1]
        assert first.finish == BLOCKED
        assert (len(second.ids), second.finish) == (9, "length")


def test_settings_that_shape_logits_change_what_is_drawn(tied: Path, engine: str) -> None:
    plain = Sampling(max_new_tokens=12, temperature=1.0)
    for batcher in batchers(tied, engine):
        greedy = answered(batcher, [Request((5, 6), Sampling(max_new_tokens=12))])[0].ids
        expected = {
            Sampling(12, 1.0, min_p=1.0): greedy,
            Sampling(12, logit_bias=((7, 100.0),)): [7] * 12,
        }
        for sampling, ids in expected.items():
            assert answered(batcher, [Request((5, 6), sampling)])[0].ids == ids
        once = Sampling(12, logit_bias=tuple((t, 100.0) for t in range(12)), presence_penalty=50.0)
        assert sorted(answered(batcher, [Request((5, 6), once)])[0].ids) == list(range(12))
        assert answered(batcher, [Request((5, 6), plain)])[0].ids != greedy


def test_most_likely_tokens_are_reported_with_the_log_probabilities_of_the_model(
    tied: Path, engine: str
) -> None:
    sampling = Sampling(max_new_tokens=3, top_logprobs=2)
    for batcher in batchers(tied, engine):
        row = batcher.add(Request((5, 6), sampling))
        events = events_of(batcher)
        assert [event.row for event in events] == [row] * 3
        for event in events:
            assert event.top[0] == (event.id, event.logprob)
            assert len(event.top) == 2
            assert event.top[1][1] <= event.logprob


def test_tokens_of_a_prompt_are_scored_as_the_model_scores_them(
    tied: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo.backends.torch.generation import prompt_scores, slots

    monkeypatch.setattr(slots, "PIECE", 16)
    monkeypatch.setattr(prompt_scores, "CHUNK", 7)
    policy = load_backend(engine).load(tied, LoadSpec(dtype="f32"))
    greedy = policy.generate([(5, 6)], Sampling(max_new_tokens=38), keys=[0])[0].ids
    prompts = [tuple(range(3, 43)), tuple(range(3, 43)), (5, 6, *greedy)]
    sampling = Sampling(max_new_tokens=2, top_logprobs=2)
    logits = [np.asarray(policy.logits(prompt), np.float64) for prompt in prompts]
    for batcher in batchers(tied, engine):
        answered(batcher, [Request(prompts[0], sampling)])  # its beginning could be shared
        rows = [batcher.add(Request(ids, sampling, scores_prompt=True)) for ids in prompts]
        rows.append(batcher.add(Request(prompts[0], sampling)))
        events = events_of(batcher)
        first = {event.row: event.prompt for event in reversed(events)}
        assert first[rows[3]] == ()
        assert sum(bool(event.prompt) for event in events) == 3
        for row, ids, logits_TV in zip(rows, prompts, logits, strict=False):
            logprobs_TV = logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True))
            expected = [logprobs_TV[n, token] for n, token in enumerate(ids[1:])]
            assert [score for score, _ in first[row]] == pytest.approx(expected, abs=1e-4)
            tops = [top[0] for _, top in first[row]]
            assert [token for token, _ in tops] == logprobs_TV[:-1].argmax(-1).tolist()
        most_likely = [(score, top[0]) for score, top in first[rows[2]]][1:]
        assert most_likely == [(score, (token, score)) for token, (score, _) in
                               zip(greedy, most_likely, strict=True)]  # fmt: skip
