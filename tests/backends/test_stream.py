"""Tokens as they are sampled: the same on every engine, and the same as whole answers."""

import gc
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Policy, Rollout, Sampling, TokenEvent
from zoo.backends.sampling import StopText, before_stop

PROMPTS = [[9, 21, 33, 45], [50, 61], [9, 21, 33, 45], [72, 83, 94]]
WARM = Sampling(max_new_tokens=12, temperature=1.0, stop_ids=tuple(range(20, 60)))
"""Some answers end early, others do not."""

LETTERS = "abcdefghij"


def decode(ids: Sequence[int]) -> str:
    """A token is two letters, so that texts of two letters may be in two tokens."""
    return "".join(LETTERS[token // 10 % 10] + LETTERS[token % 10] for token in ids)


@pytest.fixture
def policy(engine: str, tied: Path) -> Policy:
    return load_backend(engine).load(tied, LoadSpec(dtype="f32"))


def streamed(policy: Policy, sampling: Sampling = WARM, **options: Any) -> list[TokenEvent]:
    return list(policy.stream(PROMPTS, sampling, keys=range(4), **options))


def row_of(events: Sequence[TokenEvent], row: int) -> Rollout:
    mine = [event for event in events if event.row == row]
    return Rollout([e.id for e in mine], [e.logprob for e in mine], str(mine[-1].finish))


def test_the_events_are_the_answers_of_generate(policy: Policy) -> None:
    events = streamed(policy)
    answers = policy.generate(PROMPTS, WARM, keys=range(4))
    assert {answer.finish for answer in answers} == {"stop", "length"}
    assert [row_of(events, row) for row in range(4)] == answers


def test_rows_end_independently_and_only_their_last_token_says_so(policy: Policy) -> None:
    events = streamed(policy)
    lengths = [len(row_of(events, row).ids) for row in range(4)]
    assert len(set(lengths)) > 1
    ends = [place for place, event in enumerate(events) if event.finish]
    assert len(ends) == 4
    assert [events[place].row for place in ends] == sorted(
        range(4), key=lambda row: (lengths[row], [event.row for event in events[:4]].index(row))
    )
    # a row's tokens come while others still grow
    assert {event.row for event in events[:4]} == {0, 1, 2, 3}


def test_a_token_comes_before_the_next_is_computed(policy: Policy) -> None:
    """Nothing waits for the end of an answer that would take hours."""
    endless = policy.stream([[5, 6]], Sampling(max_new_tokens=400), keys=[0])
    first = next(endless)
    assert isinstance(endless, Iterator)
    assert (first.row, first.finish) == (0, None)
    endless.close()  # type: ignore[attr-defined]


def test_a_closed_stream_frees_its_rows_and_the_policy_goes_on(
    policy: Policy, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = "mlx" if engine == "mlx" else "torch"
    generation = import_module(f"zoo.backends.{room}.generation.generate")
    batches: list[Any] = []

    class Watched(generation.Decoding):  # type: ignore[misc, name-defined]
        def read(self, ids: Any) -> Any:
            logits = super().read(ids)
            caches = self._caches if engine == "mlx" else self.state["past_key_values"].layers
            batches.extend(weakref.ref(each) for each in (self, *caches))
            return logits

    expected = policy.generate(PROMPTS, WARM, keys=range(4))
    monkeypatch.setattr(generation, "Decoding", Watched)
    gc.collect()
    gc.disable()  # what is freed must not wait for the collector
    try:
        events: Any = policy.stream(PROMPTS, WARM, keys=range(4))
        while len(batches) < 2:
            next(events)
        assert all(each() is not None for each in batches)
        events.close()
        assert all(each() is None for each in batches)
    finally:
        gc.enable()
    assert list(events) == []
    assert policy.generate(PROMPTS, WARM, keys=range(4)) == expected


@pytest.mark.slow
def test_a_policy_learns_after_a_closed_stream_as_before(engine: str, tied: Path) -> None:
    from tests.backends import reference
    from tests.backends.objectives_for_tests import SFT

    spec = LoadSpec(train=LoraSpec(rank=4, alpha=8.0, dropout=0.5), dtype="f32", seed=1)
    batch, losses = reference.example_batch(), []
    for closes in (False, True):
        policy = load_backend(engine).load(tied, spec)
        events: Any = policy.stream(PROMPTS, WARM, keys=range(4))
        if closes:
            next(events)
            events.close()
        losses.append(policy.accumulate(SFT, batch, key=3)["loss"])
        # and sampling after an update is without dropout
        losses.append(policy.generate(PROMPTS, WARM, keys=range(4))[0].logprobs[0])
    assert losses[:2] == losses[2:]


def test_a_stop_id_inside_ends_the_row_there(policy: Policy) -> None:
    free = replace(WARM, stop_ids=())
    whole = row_of(streamed(policy, free), 1)
    place = next(p for p in range(2, 12) if whole.ids[p] not in whole.ids[:p])
    stops = replace(free, stop_ids=(whole.ids[place],))
    cut = row_of(streamed(policy, stops), 1)
    assert cut.ids == whole.ids[: place + 1]
    assert cut.finish == "stop"
    # also as the last token that an answer may have
    assert row_of(streamed(policy, replace(stops, max_new_tokens=place + 1)), 1) == cut
    assert cut.logprobs == pytest.approx(whole.logprobs[: place + 1], abs=1e-4)


@pytest.mark.parametrize("offset", [0, 1], ids=["one token", "across tokens"])
def test_a_stop_string_ends_the_row_with_the_token_that_completes_it(
    policy: Policy, offset: int
) -> None:
    free = replace(WARM, stop_ids=(), decode=decode)
    wholes = [row_of(streamed(policy, free), row) for row in range(4)]
    text = decode(wholes[1].ids)
    stop = text[6 + offset : 8 + offset]  # letters of token 3, or of tokens 3 and 4
    end = text.index(stop) + len(stop)
    events = streamed(policy, replace(free, stop_strings=("never", stop)))
    found = row_of(events, 1)
    assert found.ids == wholes[1].ids[: -(-end // 2)]  # two letters a token, rounded up
    assert found.finish == "stop"
    assert before_stop(decode(found.ids), ("never", stop)) == text[: end - len(stop)]
    for row in (0, 2, 3):  # the others go on, as long as they are without it
        if stop not in decode(wholes[row].ids):
            assert row_of(events, row).ids == wholes[row].ids


def test_a_character_in_two_tokens_may_end_an_answer(policy: Policy) -> None:
    """The text of a token alone is then no character."""
    free = Sampling(max_new_tokens=6, temperature=1.0)
    ids = policy.generate([[5, 6, 7]], free, keys=[0])[0].ids
    assert len(set(ids[:4])) == 4

    def halves(tokens: Sequence[int]) -> str:
        text = "".join({ids[2]: "<", ids[3]: ">"}.get(token, "x") for token in tokens)
        return text.replace("<>", "é").replace("<", "\ufffd").replace(">", "\ufffd")

    stops = replace(free, stop_strings=("é",), decode=halves)
    [found] = policy.generate([[5, 6, 7]], stops, keys=[0])
    assert (found.ids, found.finish) == (ids[:4], "stop")


def test_a_stop_string_before_part_of_a_character_ends_an_answer() -> None:
    texts = {1: "a", 2: ".\ufffd"}
    stops = Sampling(stop_strings=(".",), decode=lambda ids: "".join(texts[one] for one in ids))
    looks = StopText(stops)
    assert [looks.add(1), looks.add(2)] == [False, True]


def test_a_prefix_changes_no_token(policy: Policy) -> None:
    shared = [(7 * place + 3) % 250 for place in range(40)]
    prompts = [shared + rest for rest in PROMPTS]
    kept = policy.read_prefix(shared)
    assert kept is not None
    after, whole = (
        list(policy.stream(prompts, WARM, keys=range(4), prefix=prefix)) for prefix in (kept, None)
    )
    for row in range(4):
        ours, theirs = row_of(after, row), row_of(whole, row)
        assert (ours.ids, ours.finish) == (theirs.ids, theirs.finish)
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_what_cannot_be_continued_is_refused_before_the_first_token(policy: Policy) -> None:
    with pytest.raises(ValueError, match="one key per prompt"):
        policy.stream([[5], []], WARM, keys=[0, 1])
    with pytest.raises(ValueError, match="one key per prompt"):
        policy.stream([[5]], WARM, keys=[0, 1])
    with pytest.raises(ValueError, match="stop_strings: expected decode"):
        policy.stream([[5]], Sampling(stop_strings=("x",)), keys=[0])


@pytest.mark.parametrize("wrong", ["x", ("",), ("x", "")])
def test_stop_strings_without_letters_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="stop_strings: expected texts"):
        Sampling(stop_strings=wrong)
