"""A reward function that Python code passes, called in this process."""

from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from zoo.gym.config.reward import LiveSettings
from zoo.gym.errors import InputError, InterruptedRunError
from zoo.gym.rewards.description import describe
from zoo.gym.rewards.functions.batch import batch_function, lacking
from zoo.gym.rewards.functions.calling import Call, call, caller, further_parameters, refuse_columns
from zoo.gym.rewards.functions.file import fields_of, score_of
from zoo.gym.rewards.reward import Configured, Sample, Score, Task, no_reward

TIMEOUT_S = 300.0
"""The time limit of one call: a thread cannot be killed, so a hanging one ends the run."""


class LiveFunction(Configured[LiveSettings]):
    """Calls a function of this process for each sample, or once for all, in a thread.

    Args:
        settings: the function.
        timeout_s: the time limit of one call.

    Raises:
        InputError: the function takes other parameters.
    """

    def __init__(self, settings: LiveSettings, timeout_s: float = TIMEOUT_S) -> None:
        self.settings, self._timeout_s = settings, timeout_s
        try:
            self._batch = batch_function(settings.function)
            self._call: Call | None = None if self._batch else caller(settings.function)
            self._further = [] if self._batch else further_parameters(settings.function)
        except ValueError as error:
            raise InputError(f"reward: {self.name}: {error}", code="rewards.bad_function") from None

    @property
    def description(self) -> str:
        """Which function it calls."""
        return f"the result of the function {self.name}"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the result of each call.

        Raises:
            InterruptedRunError: a call did not return in time.
        """
        results: SimpleQueue[dict[str, object]] = SimpleQueue()

        def work() -> None:
            fields = [fields_of(sample) for sample in samples]
            for reply in self._replies(fields):
                results.put(reply)

        Thread(target=work, daemon=True).start()
        return [self._result(results, sample) for sample in samples]

    def missing(self, task: Task) -> str | None:
        """Returns the first column that the function needs and the row lacks."""
        refuse_columns(self._further, task.metadata, task.answer)
        needs = self._batch.needs if self._batch else ()
        return lacking(needs, fields_of(Sample(task, "")))

    def _replies(self, fields: list[dict[str, Any]]) -> Iterator[dict[str, object]]:
        if self._batch is not None:
            yield from self._batch.call(fields)
            return
        assert self._call is not None
        yield from (call(self._call, field) for field in fields)

    def _result(self, results: "SimpleQueue[dict[str, object]]", sample: Sample) -> Score:
        try:
            return score_of(results.get(timeout=self._timeout_s))
        except Empty:
            raise InterruptedRunError(
                f"the reward function {self.name} did not return within {self._timeout_s:g} s: "
                f"{describe(sample, no_reward('no result'))}",
                hint="write it to a file and use reward=path.py:function, which can be stopped",
                code="rewards.function_failed",
            ) from None
