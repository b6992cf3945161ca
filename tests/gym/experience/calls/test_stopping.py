"""What a run that should end does about its calls: no more of them, and not long for the last."""

import threading
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.experience.calls.test_calls import PRICE, Echo, ask
from zoo.backends.openai.failure import (
    TryAgainError,
)
from zoo.backends.openai.reply import Reply
from zoo.gym.errors import NotAvailableError
from zoo.gym.experience.calls import caller
from zoo.gym.experience.calls.budget import Budget, Cap, worst_case
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.calls.journal import Journal


def test_a_run_that_should_end_makes_no_more_calls() -> None:
    echo = Echo()

    def leaving() -> str | None:
        return "stopped" if echo.asked >= 2 else None

    caller = Caller(Journal(), Budget(Cap()), leaving=leaving)
    with raises("experience.run_stopped") as caught:
        caller.ask(Model("m", echo), [ask(task) for task in range(9)])
    assert caught.value.code == "experience.run_stopped"
    assert echo.asked == 2


class Slow(Echo):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    def attempt(self, *args: Any, **more: Any) -> Reply:
        self.let.wait()
        return super().attempt(*args, **more)


def test_while_answers_are_on_their_way_no_more_calls_are_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(caller, "_POLL_S", 0.001)
    slow, looks = Slow(), count()

    def leaving() -> str | None:
        if next(looks) < 20:
            return None
        slow.let.set()
        return "stopped"

    one = Caller(Journal(), Budget(Cap()), leaving=leaving)
    with raises("experience.run_stopped") as caught:
        one.ask(Model("m", slow, concurrency=3), [ask(task) for task in range(30)])
    assert caught.value.code == "experience.run_stopped"
    assert slow.asked == 3


class Endless(Slow):
    """Answers only when it is abandoned."""

    def abandon(self) -> None:
        self.failures = [TryAgainError("abandoned", billed=True)]
        self.let.set()


@pytest.mark.slow
def test_a_stopped_run_abandons_answers_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "GRACE_S", 0.05)
    endless, journal, looks = Endless(), Journal(), iter([None, "stopped"])
    one = Caller(journal, Budget(Cap()), leaving=lambda: next(looks))
    with raises("experience.run_stopped") as caught:
        one.ask(Model("m", endless, PRICE), [ask()])
    assert caught.value.code == "experience.run_stopped"
    assert (endless.asked, journal.spent.usd) == (1, worst_case(ask(), PRICE).usd)


@pytest.mark.slow
def test_a_run_that_is_stopped_while_it_fails_abandons_them_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(caller, "GRACE_S", 0.05)
    endless, looks = Endless(), count()
    model = Model("m", endless, concurrency=2)

    def attempt(messages: Sequence[Mapping[str, str]], *args: Any, **more: Any) -> Reply:
        if messages[0]["content"] == "bad":
            raise NotAvailableError("no key")
        return Endless.attempt(endless, messages, *args, **more)

    monkeypatch.setattr(endless, "attempt", attempt)
    one = Caller(Journal(), Budget(Cap()), leaving=lambda: "stopped" if next(looks) > 3 else None)
    with pytest.raises(NotAvailableError, match="no key"):
        one.ask(model, [ask(0), ask(1, "bad")])
    assert endless.asked == 1


def test_a_waiting_call_is_not_made_when_another_fails() -> None:
    echo = Echo([NotAvailableError("no key")])
    model = Model("m", echo, concurrency=2, per_minute=6)
    with pytest.raises(NotAvailableError, match="no key"):
        Caller(Journal(), Budget(Cap())).ask(model, [ask(0), ask(1)])
    assert echo.asked == 1


@pytest.mark.slow
def test_a_wait_of_the_only_call_sees_that_the_run_should_end() -> None:
    echo = Echo([TryAgainError("busy", wait_s=500.0)])
    ends = iter([None, None, "stopped"])
    caller = Caller(Journal(), Budget(Cap()), leaving=lambda: next(ends))
    with raises("experience.run_stopped") as caught:
        caller.ask(Model("m", echo), [ask(0)])
    assert caught.value.code == "experience.run_stopped"
    assert echo.asked == 1
