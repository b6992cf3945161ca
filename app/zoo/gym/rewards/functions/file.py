"""A reward function from a file, in a process of its own that is killed when a call hangs."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.gym.config.reward import FunctionSettings
from zoo.gym.data.rendering.template import openai_turn
from zoo.gym.errors import InputError, InterruptedRunError
from zoo.gym.rewards.functions.batch import lacking
from zoo.gym.rewards.functions.calling import refuse_columns
from zoo.gym.rewards.processes.workers import Workers
from zoo.gym.rewards.reward import Configured, Sample, Score, Task, no_reward


class FileFunction(Configured[FunctionSettings]):
    """Calls `f(query, response)` or `f(query, response, answer)` for each sample.

    A function of TRL's form, `f(completions, **columns)`, is called once for all of them.

    A call that raises, returns no number or takes too long gives no reward. What the function
    prints goes to stderr. Its files may not change while it is used: a process that is started
    after a failed call would score by other rules than the first.

    Raises:
        InputError: the file cannot be imported, has no such function, or it takes other parameters.
    """

    def __init__(self, settings: FunctionSettings) -> None:
        self.settings = settings
        path, _, name = settings.function.rpartition(":")
        if path.endswith(".py"):
            file = Path(path).expanduser().absolute()
            if not file.is_file():
                raise InputError(f"reward: no such file: '{path}'", code="rewards.no_such_file")
            path = str(file)
        argv = [sys.executable, "-P", "-m", "zoo.gym.rewards.functions.child", path, name]
        self._workers = Workers([*argv, str(settings.timeout_s)], timeout_s=settings.timeout_s)
        hello = self._workers.start()
        if reason := hello.get("refused", hello.get("failed")):
            self.close()
            raise InputError(
                f"reward: '{settings.function}': {reason}", code="rewards.bad_function"
            )
        self._sources = self._workers.sources
        self._needs: list[str] | None = hello.get("needs")  # of a function of a batch
        self._further: list[str] = hello.get("further", [])

    @property
    def sources(self) -> Mapping[str, str]:
        """The file of the function and those that it imports; not what a call imports later."""
        return self._sources

    @property
    def description(self) -> str:
        """Which function it calls."""
        return f"the result of {self.settings.function}"

    def missing(self, task: Task) -> str | None:
        """Returns the first column that the function needs and the row lacks."""
        refuse_columns(self._further, task.metadata, task.answer)
        return lacking(self._needs or (), fields_of(Sample(task, "")))

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the result of each call.

        Raises:
            InputError: a row has a value that JSON lacks.
            InterruptedRunError: its process cannot be started again, or its files have changed.
        """
        for sample in samples:
            _require_json(sample.task)
        fields = [fields_of(sample) for sample in samples]
        if self._needs is None:
            replies = self._workers.ask(fields)
        else:
            [reply] = self._workers.ask([{"samples": fields}])
            replies = reply.get("replies", [reply] * len(fields))
        if lost := next((reply for reply in replies if reply.get("unstarted")), None):
            raise InterruptedRunError(
                f"reward: '{self.settings.function}': {lost['failed']}",
                hint="put the old files back and resume the run, or start a new one",
                code="rewards.function_failed",
            )
        return [score_of(reply) for reply in replies]

    def close(self) -> None:
        """Ends the process."""
        self._workers.close()


def fields_of(sample: Sample) -> dict[str, Any]:
    """Returns what a function may read of a sample, by name."""
    task = sample.task
    return {
        "query": task.query,
        "response": sample.response,
        "answer": task.answer,
        "messages": [openai_turn(turn) for turn in task.messages],
        "metadata": dict(task.metadata),
        "is_chat": task.is_chat,
    }


def _require_json(task: Task) -> None:
    """Refuses a row of Python code that another process cannot read.

    Raises:
        InputError: it has a value that JSON lacks.
    """
    try:
        json.dumps([task.answer, dict(task.metadata)])
    except (TypeError, ValueError) as error:
        where = f"{task.source}: " if task.source else ""
        raise InputError(
            f"{where}expected JSON values for a reward function: {error}", code="rewards.not_json"
        ) from None


def score_of(reply: Mapping[str, Any]) -> Score:
    """Returns the score for a reply of `calling.call`, or of a process that failed."""
    if problem := reply.get("problem", reply.get("failed")):
        return no_reward(str(problem))
    return Score(float(reply["value"]), str(reply["reason"]))
