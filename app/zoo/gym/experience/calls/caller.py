"""Makes calls, many at once, and returns their answers by slot.

A call with an answer in the journal is not made again. A replay makes none: a call without an
answer is the first difference.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from queue import Empty, SimpleQueue
from typing import Protocol, runtime_checkable

from zoo.backends.openai.failure import TooLongError, TryAgainError, UnreadableAnswerError
from zoo.backends.openai.reply import Reply
from zoo.backends.openai.retry import with_retries
from zoo.backends.sampling import Sampling
from zoo.gym.errors import GymError, InterruptedRunError, StorageError
from zoo.gym.experience.calls.budget import (
    Budget,
    CapReachedError,
    bill_of,
    bill_of_unreadable,
    worst_case,
)
from zoo.gym.experience.calls.journal import Ask, Journal, Spent
from zoo.gym.experience.providers.table import Price

TOO_LONG = "too_long"
"""The finish of a missing reply: the messages are longer than the model can read."""

GRACE_S = 30.0
"""How long a stopped run waits for answers on their way: they are paid for."""

_POLL_S = 0.1


class Answerer(Protocol):
    """Makes one attempt of a call: a client of a server, or a stand-in for it."""

    def attempt(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: Sampling,
        *,
        schema: Mapping[str, object] | None = None,
        seed: int | None = None,
    ) -> Reply:
        """Returns the answer, or raises `TryAgainError`."""
        ...


@runtime_checkable
class TogetherAnswerer(Protocol):
    """Answers many chats together, faster than one after the other."""

    def attempt_all(
        self,
        chats: Sequence[Sequence[Mapping[str, str]]],
        sampling: Sampling,
        seeds: Sequence[int],
    ) -> list[Reply]:
        """Returns the answer to each chat."""
        ...


@runtime_checkable
class AbandoningAnswerer(Protocol):
    """Can end answers that are on their way."""

    def abandon(self) -> None:
        """Ends them."""


@dataclass
class Model:
    """A model that is called.

    Attributes:
        name: its id, part of each call's key.
        answerer: makes the calls.
        price: what they cost; None is nothing.
        concurrency: calls at the same time.
        per_minute: calls that start in a minute at most; None is no limit.
    """

    name: str
    answerer: Answerer
    price: Price | None = None
    concurrency: int = 1
    per_minute: int | None = None

    def __post_init__(self) -> None:
        self._next = 0.0
        self._lock = threading.Lock()

    def wait_s(self) -> float:
        """Returns how long the next call has to wait, and reserves its start."""
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + (60 / self.per_minute if self.per_minute else 0.0)
            return start - now


class ReplayEndedError(GymError):
    """A replay needs an answer that the journal does not have."""

    def __init__(self, slot: str, why: str) -> None:
        super().__init__(f"{slot}: {why}", code="experience.replay_differs")
        self.slot = slot


class Caller:
    """Makes the calls of a run.

    Args:
        journal: the answers so far; new ones are added.
        budget: what may be spent.
        leaving: returns, between calls, why the run should end; it may wait.
        tell: gets notices, in the thread that calls `ask`.
        replay: whether answers come from the journal alone.
    """

    def __init__(
        self,
        journal: Journal,
        budget: Budget,
        *,
        leaving: Callable[[], str | None] = lambda: None,
        tell: Callable[[str], None] = lambda _: None,
        replay: bool = False,
    ) -> None:
        self.journal = journal
        self.budget = budget
        self.notices: SimpleQueue[str] = SimpleQueue()
        self.tell, self._leaving, self._replay = tell, leaving, replay
        self._ended = threading.Event()
        self._is_leaving = False

    def ask(self, model: Model, asks: Sequence[Ask]) -> list[Reply]:
        """Returns the answer to each call, in their order.

        Raises:
            InterruptedRunError: the run should end, the cap is reached, or a server is.
            GymError: a server refuses; answers that arrived before are in the journal.
            ReplayEndedError: a replay has no answer to one of them.
        """
        keys = [ask.key(model.name) for ask in asks]
        missing = [n for n, key in enumerate(keys) if key not in self.journal.replies]
        if self._replay and missing:
            slot = str(asks[missing[0]].slot)
            is_empty = slot not in self.journal.slots
            why = "the journal has no answer" if is_empty else "the request is another one"
            raise ReplayEndedError(slot, why)
        self._make(model, [(keys[n], asks[n]) for n in missing])
        return [self.journal.replies[key] for key in keys]

    def _make(self, model: Model, calls: Sequence[tuple[str, Ask]]) -> None:
        if isinstance(model.answerer, TogetherAnswerer):
            for sampling, group in groupby(calls, lambda call: call[1].sampling):
                while batch := list(islice(group, model.concurrency)):
                    self._check_leaving()
                    self._call_together(model, model.answerer, batch, sampling)
                    self._pass_on()
            return
        if not calls:
            return
        waiting = iter(calls)
        running: set[Future[None]] = set()
        # one call has a thread, too: this one sees requests to end while that one waits
        with ThreadPoolExecutor(min(model.concurrency, len(calls))) as pool:
            try:
                self._run(model, pool, waiting, running)
            except BaseException:
                self._ended.set()  # those that wait give up; those on the way are journalled
                raise
            finally:
                self._wait(running, model)
                self._ended.clear()
                self._pass_on()

    def _wait(self, running: set[Future[None]], model: Model) -> None:
        """Waits for the calls on their way; if the run was stopped, only for `GRACE_S`.

        A second Ctrl-C abandons them at once.
        """
        ends: float | None = None
        try:
            while wait(running, _POLL_S).not_done:
                self._is_leaving = self._is_leaving or self._leaving() is not None
                if self._is_leaving:
                    ends = time.monotonic() + GRACE_S if ends is None else ends
                if ends is not None and time.monotonic() >= ends:
                    _abandon(model)
                    wait(running)
        except KeyboardInterrupt:
            _abandon(model)
            raise

    def _run(
        self,
        model: Model,
        pool: ThreadPoolExecutor,
        waiting: Iterator[tuple[str, Ask]],
        running: set[Future[None]],
    ) -> None:
        while True:
            self._check_leaving()
            for key, ask in islice(waiting, model.concurrency - len(running)):
                running.add(pool.submit(self._call, model, key, ask))
            if not running:
                return
            done, _ = wait(running, _POLL_S, FIRST_COMPLETED)
            running -= done
            for future in done:
                future.result()
            self._pass_on()

    def _call(self, model: Model, key: str, ask: Ask) -> None:
        def attempt(number: int) -> None:
            self._pause(model.wait_s())
            self._attempt(model, key, ask, number)

        with_retries(attempt, pause=self._pause)

    def _call_together(
        self,
        model: Model,
        answerer: TogetherAnswerer,
        calls: Sequence[tuple[str, Ask]],
        sampling: Sampling,
    ) -> None:
        worst = [worst_case(ask, model.price) for _, ask in calls]
        reserved = sum(worst, Spent())
        try:
            self.budget.reserve(reserved, self._give_up)
            billed = Spent()
            try:
                for (key, ask), most in zip(calls, worst, strict=True):
                    self.journal.sent(key, ask, model.name, 0, most)
                chats = [ask.messages for _, ask in calls]
                replies = answerer.attempt_all(chats, sampling, [ask.slot.seed for _, ask in calls])
                for (key, ask), reply, most in zip(calls, replies, worst, strict=True):
                    bill = bill_of(reply, most, model.price)
                    billed += bill
                    self.journal.got(key, str(ask.slot), reply, bill)
            except GymError as error:
                if isinstance(error, TooLongError) and len(calls) == 1:
                    self._too_long(*calls[0], error)
                    return
                for key, _ in calls:
                    self.journal.lost(key, error.message, Spent())
                raise
            finally:
                self.budget.settle(reserved, billed)
        except (CapReachedError, TooLongError):
            if len(calls) == 1:
                raise
            for call in calls:  # some of them may fit
                self._call_together(model, answerer, [call], sampling)

    def _too_long(self, key: str, ask: Ask, error: TooLongError) -> None:
        self.notices.put(f"{ask.slot}: no answer, and so no reward: {error.message}")
        reply = Reply("", reasoning=error.message, finish=TOO_LONG)
        self.journal.got(key, str(ask.slot), reply, Spent())

    def _attempt(self, model: Model, key: str, ask: Ask, number: int) -> None:
        worst = worst_case(ask, model.price)
        self.budget.reserve(worst, self._give_up)
        bill = Spent()
        try:
            self.journal.sent(key, ask, model.name, number, worst)
            bill = worst
            reply = model.answerer.attempt(
                ask.messages, ask.sampling, schema=ask.schema, seed=ask.slot.seed
            )
            bill = bill_of(reply, worst, model.price)
            self.journal.got(key, str(ask.slot), reply, bill)
        except TryAgainError as error:
            bill = worst if error.billed else Spent()
            self.journal.lost(key, error.message, bill)
            raise
        except TooLongError as error:
            bill = Spent()
            self._too_long(key, ask, error)
        except StorageError:
            raise  # an answer that cannot be stored is paid for
        except UnreadableAnswerError as error:
            bill = bill_of_unreadable(error, worst, model.price)
            self.journal.lost(key, error.message, bill)
            raise
        except GymError as error:
            bill = Spent()  # refused before any work
            self.journal.lost(key, error.message, bill)
            raise
        finally:
            self.budget.settle(worst, bill)

    def _pause(self, seconds: float) -> None:
        """Waits between attempts; gives up as soon as the run ends."""
        if seconds > 0:
            self._ended.wait(seconds)
        self._give_up()

    def _give_up(self) -> None:
        if self._ended.is_set():
            raise InterruptedRunError(
                "the run ends: a call that waited was not made", code="experience.run_stopped"
            )

    def _check_leaving(self) -> None:
        if (reason := self._leaving()) is not None:
            self._is_leaving = True
            raise InterruptedRunError(
                f"{reason} between calls; all answers are kept", code="experience.run_stopped"
            )

    def _pass_on(self) -> None:
        with suppress(Empty):
            while True:
                self.tell(self.notices.get_nowait())


def _abandon(model: Model) -> None:
    if isinstance(model.answerer, AbandoningAnswerer):
        model.answerer.abandon()
