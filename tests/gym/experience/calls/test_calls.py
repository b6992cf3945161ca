"""Calls are paid once: the journal, the budget and what makes the calls."""

import errno
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.backends.openai.failure import (
    EndlessAnswerError,
    TooLongError,
    TryAgainError,
    UnreadableAnswerError,
)
from zoo.backends.openai.reply import Reply
from zoo.backends.openai.usage import Usage
from zoo.backends.sampling import Sampling
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.calls.budget import Budget, Cap, CapReachedError, bill_of, worst_case
from zoo.gym.experience.calls.caller import TOO_LONG, Caller, Model, ReplayEndedError
from zoo.gym.experience.calls.journal import Ask, Journal, Slot, Spent
from zoo.gym.experience.providers.table import Price
from zoo.gym.rewards.reward import Score, no_reward

PRICE = Price(input=1.0, cached=0.1, output=2.0, date="2026-01-01")


def ask(task: int = 0, text: str = "hi", draw: int = 0) -> Ask:
    slot = Slot("rollout", 0, 0, task, draw)
    return Ask(slot, [{"role": "user", "content": text}], Sampling(max_new_tokens=10))


class Echo:
    """Answers with the seed of the call, or fails as it is told."""

    def __init__(self, failures: Sequence[Exception] = ()) -> None:
        self.failures = list(failures)
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0
        self.lock = threading.Lock()

    def attempt(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: Sampling,
        *,
        schema: Mapping[str, object] | None = None,
        seed: int | None = None,
    ) -> Reply:
        with self.lock:
            self.asked += 1
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
            failure = self.failures.pop(0) if self.failures else None
        threading.Event().wait(0.002)
        with self.lock:
            self.at_once -= 1
        if failure is not None:
            raise failure
        return Reply(f"{messages[-1]['content']} {seed}", usage=Usage(5, 0, 4))


def texts(echo: Echo, asks: Sequence[Ask], journal: Journal, *, at_once: int = 1) -> list[str]:
    model = Model("m", echo, PRICE, at_once)
    caller = Caller(journal, Budget(Cap(), journal.spent))
    return [reply.text for reply in caller.ask(model, asks)]


def test_answers_come_by_slot_whatever_their_order() -> None:
    echo = Echo()
    asks = [ask(task, f"t{task}") for task in range(40)]
    found = texts(echo, asks, Journal(), at_once=8)
    assert found == [f"t{one.slot.task} {one.slot.seed}" for one in asks]
    assert 1 < echo.most_at_once <= 8


def test_the_same_messages_in_two_slots_are_two_calls() -> None:
    first, second = ask(draw=0), ask(draw=1)
    assert first.key("m") != second.key("m")
    assert first.key("m") == ask().key("m") != first.key("other")


def test_other_stop_strings_are_another_call() -> None:
    plain, stops = Sampling(max_new_tokens=10), Sampling(max_new_tokens=10, stop_strings=("Q:",))
    keys = {replace(ask(), sampling=how).key("m") for how in (plain, stops)}
    assert len(keys) == 2


def test_an_answer_in_the_journal_is_not_asked_for_again(tmp_path: Path) -> None:
    echo, asks = Echo(), [ask(0), ask(1)]
    journal = Journal(tmp_path / "j")
    found = texts(echo, asks[:1], journal)
    journal.close()
    again = Journal(tmp_path / "j")
    assert texts(echo, asks, again)[0] == found[0]
    assert (echo.asked, again.spent.calls) == (2, 2)
    again.close()


def test_a_request_is_on_the_disk_before_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "j"
    seen: list[str] = []

    class Look(Echo):
        def attempt(self, *args: object, **more: object) -> Reply:
            seen.append(path.read_text())
            return Reply("yes")

    journal = Journal(path)
    texts(Look(), [ask(3)], journal)
    journal.close()
    assert '"sent"' in seen[0]
    assert '"got"' not in seen[0]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_killed_call_is_booked_at_its_worst_case(tmp_path: Path) -> None:
    journal, one = Journal(tmp_path / "j"), ask()
    worst = worst_case(one, PRICE)
    journal.sent(one.key("m"), one, "m", 0, worst)
    journal.close()
    again = Journal(tmp_path / "j")
    assert again.spent == worst
    texts(Echo(), [one], again)
    # 5 tokens at 1 USD and 4 at 2 USD for a million, besides what was lost
    assert again.spent.usd == pytest.approx(worst.usd + 13e-6)
    again.close()


def test_a_cut_last_line_is_dropped_and_other_damage_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    texts(Echo(), [ask(0), ask(1)], journal)
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert Journal(path).spent.calls == 2  # the second is booked, but has no answer
    path.write_bytes(whole.replace(b'"bill"', b'"bull"', 1))
    with raises("experience.damaged_journal", ":3: damaged") as caught:
        Journal(path)
    assert caught.value.code == "experience.damaged_journal"


def test_rewards_are_kept_also_those_that_are_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.scored({"a": Score(0.5, "half"), "b": no_reward("no answer")})
    journal.close()
    again = Journal(tmp_path / "j")
    again.close()
    assert again.scores["a"] == Score(0.5, "half")
    assert again.scores["b"].failed
    assert again.scores["b"].reason == "no answer"


def test_a_failure_that_passes_is_journalled_and_repeated() -> None:
    journal = Journal()
    echo = Echo([TryAgainError("busy", wait_s=0.0), TryAgainError("cut", wait_s=0.0, billed=True)])
    assert texts(echo, [ask()], journal) == [f"hi {ask().slot.seed}"]
    worst = worst_case(ask(), PRICE)
    assert journal.spent.usd == pytest.approx(worst.usd + 13e-6)  # the cut one may be charged


def test_the_others_on_the_way_are_kept_when_one_call_fails() -> None:
    journal = Journal()
    echo = Echo([NotAvailableError("no key")])
    with pytest.raises(NotAvailableError, match="no key"):
        texts(echo, [ask(task) for task in range(30)], journal, at_once=4)
    assert 1 <= echo.asked < 30
    kept = [one for one in (ask(task) for task in range(30)) if one.key("m") in journal.replies]
    assert len(kept) == echo.asked - 1


def test_an_endless_answer_is_paid_for_and_not_asked_again() -> None:
    echo, journal = Echo([EndlessAnswerError("on and on")]), Journal()
    with pytest.raises(EndlessAnswerError):
        texts(echo, [ask()], journal)
    assert (echo.asked, journal.spent.usd) == (1, worst_case(ask(), PRICE).usd)


# the worst: 2 bytes in a frame of 272 and 10 tokens, 1 and 2 USD for a million
UNREADABLE = {
    "no text": (UnreadableAnswerError("x"), 294e-6, 284),
    "few parts": (EndlessAnswerError("x", 3), 294e-6, 284),
    "many parts": (EndlessAnswerError("x", 105), 484e-6, 379),
    "more tokens than parts": (EndlessAnswerError("x", 105, Usage(9, 0, 500)), 1274e-6, 774),
    "more parts than tokens": (EndlessAnswerError("x", 105, Usage(9, 9, 50)), 484e-6, 379),
    "a cost": (EndlessAnswerError("x", 105, Usage(9, 0, 1, 0.5)), 0.5, 379),
}


@pytest.mark.parametrize(("error", "usd", "tokens"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_answer_that_cannot_be_used_is_booked_at_what_came(
    error: Exception, usd: float, tokens: int
) -> None:
    journal, budget = Journal(), Budget(Cap())
    with pytest.raises(UnreadableAnswerError):
        Caller(journal, budget).ask(Model("m", Echo([error]), PRICE), [ask()])
    for spent in (journal.spent, budget.spent):
        assert spent.usd == pytest.approx(usd)
        assert spent.tokens == tokens


def test_a_replay_names_the_first_slot_that_differs() -> None:
    journal, asks = Journal(), [ask(0), ask(1), ask(2)]
    texts(Echo(), asks[:2], journal)
    caller = Caller(journal, Budget(Cap()), replay=True)
    assert len(caller.ask(Model("m", Echo()), asks[:2])) == 2
    with pytest.raises(ReplayEndedError, match="task 2 draw 0: the journal has no answer"):
        caller.ask(Model("m", Echo()), asks)
    with pytest.raises(ReplayEndedError, match="task 1 draw 0: the request is another one"):
        caller.ask(Model("m", Echo()), [asks[0], ask(1, "changed")])


def test_the_cap_holds_for_calls_in_flight_too() -> None:
    worst = worst_case(ask(), PRICE)
    cap = Cap(usd=2.5 * worst.usd)
    echo, journal = Echo(), Journal()
    caller = Caller(journal, Budget(cap))
    with pytest.raises(CapReachedError, match=r"the cap of 0\.00 USD is reached"):
        caller.ask(Model("m", echo, PRICE, 16), [ask(task) for task in range(99)])
    assert echo.most_at_once == 2
    assert journal.spent.usd <= cap.usd  # type: ignore[operator]
    assert echo.asked == journal.spent.calls > 2


def test_a_call_waits_for_others_in_flight_before_it_gives_up() -> None:
    worst = Spent(1, 10, 0, 10, 1.0)
    budget = Budget(Cap(usd=1.5))
    budget.reserve(worst)
    threading.Timer(0.05, lambda: budget.settle(worst, Spent(1, 5, 0, 1, 0.2))).start()
    budget.reserve(worst)
    assert budget.spent.usd == 0.2
    budget.settle(worst, worst)
    with pytest.raises(CapReachedError):
        budget.reserve(worst)


def test_a_cap_may_count_tokens() -> None:
    budget = Budget(Cap(tokens=50))
    budget.reserve(Spent(1, 30, 0, 20))
    budget.settle(Spent(1, 30, 0, 20), Spent(1, 3, 0, 20))
    with pytest.raises(CapReachedError, match="50 tokens is reached: 23 tokens are spent"):
        budget.reserve(Spent(1, 20, 0, 10))


# the worst: 2 bytes in a frame of 272 and 10 tokens of answer, 1 and 2 USD for a million
BILLS = {
    "no counts": (None, 294e-6),
    "credible ones": (Usage(30, 20, 5), 22e-6),  # 10 + 20 / 10 + 5 * 2
    "no tokens for a text": (Usage(0, 0, 0), 294e-6),
    "no tokens of an answer": (Usage(30, 0, 0), 294e-6),
    "more tokens than bytes": (Usage(1000, 0, 1), 1002e-6),
    "a longer answer than its limit": (Usage(10, 0, 200), 410e-6),
    "a cost above the price": (Usage(30, 20, 5, 0.01), 0.01),
    "a cost below the price": (Usage(30, 20, 5, 1e-9), 22e-6),
}


@pytest.mark.parametrize(("usage", "usd"), BILLS.values(), ids=BILLS)
def test_a_bill_is_the_servers_count_unless_too_small(usage: Usage | None, usd: float) -> None:
    worst = worst_case(ask(text="hi"), PRICE)
    assert worst.usd == pytest.approx(294e-6)
    assert bill_of(Reply("x", usage=usage), worst, PRICE).usd == pytest.approx(usd)


def test_an_answer_lost_to_a_full_disk_is_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write, asks = tmp_path / "j", os.write, [ask(0), ask(1)]

    def full(handle: int, data: bytes) -> int:
        if data.startswith(b'{"sent"'):
            return write(handle, data)
        if not data.startswith(b'{"'):
            raise OSError(errno.ENOSPC, "no space left")
        return write(handle, data[:20])

    journal = Journal(path)
    caller = Caller(journal, Budget(Cap()))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with raises("paths.storage"):
            caller.ask(Model("m", Echo(), PRICE), asks[:1])
    assert caller.budget.spent.usd > 0
    texts(Echo(), asks, journal)
    journal.close()
    again = Journal(path)
    assert all(one.key("m") in again.replies for one in asks)
    assert again.spent.calls == 3  # the one without an answer is booked
    again.close()


def test_a_rate_limit_spaces_the_calls() -> None:
    model = Model("m", Echo(), per_minute=60)
    assert [round(model.wait_s()) for _ in range(4)] == [0, 1, 2, 3]


def test_a_retry_takes_its_place_in_the_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def pause(_: Caller, seconds: float) -> None:
        waits.append(round(seconds))

    monkeypatch.setattr(Caller, "_pause", pause)
    echo = Echo([TryAgainError("busy", wait_s=0.0)])
    Caller(Journal(), Budget(Cap())).ask(Model("m", echo, per_minute=60), [ask(0), ask(1)])
    assert waits == [0, 0, 1, 2]  # the first, its repetition's own wait and place, the second


def test_a_too_long_call_has_no_answer_and_is_not_repeated() -> None:
    echo, journal = Echo([TooLongError("100 tokens too many")]), Journal()
    found = [Caller(journal, Budget(Cap())).ask(Model("m", echo), [ask(0)]) for _ in range(2)]
    assert [(one.text, one.finish, one.reasoning) for [one] in found] == [
        ("", TOO_LONG, "100 tokens too many")
    ] * 2
    assert (echo.asked, journal.spent.usd) == (1, 0)


class Choir:
    """Answers many chats together."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def attempt(self, *args: object, **more: object) -> Reply:
        raise AssertionError("not alone")

    def attempt_all(
        self,
        chats: Sequence[Sequence[Mapping[str, str]]],
        sampling: Sampling,
        seeds: Sequence[int],
    ) -> list[Reply]:
        self.sizes.append(len(chats))
        if len(self.sizes) == 3:
            raise InputError("refused")
        if len(chats) > 1 and any("long" in chat[-1]["content"] for chat in chats):
            raise TooLongError("too long")
        if "long" in chats[0][-1]["content"]:
            raise TooLongError("too long")
        return [Reply(f"{c[-1]['content']} {s}") for c, s in zip(chats, seeds, strict=True)]


def test_a_batching_model_is_asked_together_and_paid_once() -> None:
    choir, journal = Choir(), Journal()
    caller = Caller(journal, Budget(Cap()))
    asks = [ask(task, f"t{task}") for task in range(10)]
    found = caller.ask(Model("m", choir, None, 4), asks[:8])
    assert [reply.text for reply in found] == [
        f"t{one.slot.task} {one.slot.seed}" for one in asks[:8]
    ]
    with pytest.raises(InputError, match="refused"):
        caller.ask(Model("m", choir, None, 4), asks)
    assert choir.sizes == [4, 4, 2]
    assert (journal.spent.calls, caller.budget.spent.calls) == (8, 8)


def test_of_batched_chats_those_under_the_cap_are_answered() -> None:
    choir, journal = Choir(), Journal()
    one = worst_case(ask(0, "t0"), None)  # without counts a call is booked at its worst
    caller = Caller(journal, Budget(Cap(tokens=2 * one.tokens)))
    with pytest.raises(CapReachedError):
        caller.ask(Model("m", choir, None, 4), [ask(task, f"t{task}") for task in range(4)])
    assert choir.sizes == [1, 1]
    assert journal.spent.tokens == 2 * one.tokens


def test_of_batched_chats_those_not_too_long_are_answered() -> None:
    choir, journal = Choir(), Journal()
    choir.sizes += [0, 0, 0]
    caller = Caller(journal, Budget(Cap()))
    asks = [ask(0, "a"), ask(1, "long"), ask(2, "b")]
    found = caller.ask(Model("m", choir, None, 4), asks)
    assert [one.finish for one in found] == ["stop", TOO_LONG, "stop"]
    assert choir.sizes[3:] == [3, 1, 1, 1]
