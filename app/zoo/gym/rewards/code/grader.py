"""OpenAI's graders in Python: `grade(sample, item)` gives a number, in a confined process.

`sample` has `output_text`, `output_json` (the response read as JSON, or None), `output_tools` and
`choices`; `item` has the row's columns, `answer` and `messages` among them.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zoo.gym.config.reward import GraderSettings
from zoo.gym.data.rendering.template import openai_turn
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rewards.code.sandbox import Limits, Outcome, Program, run_all, run_program
from zoo.gym.rewards.reward import Configured, Sample, Score, no_reward

_GRADED = "Graded: "

# what a program returns is why its test failed, so the number is what an exception says
_CALL = """
class Graded(Exception): pass
import json
raise Graded(repr(float(grade(*json.loads({arguments!r})))))
"""


@dataclass(frozen=True)
class PythonGrader(Configured[GraderSettings]):
    """The number that the function `grade` of a source returns for each response.

    Raises:
        NotAvailableError: the system cannot confine the code.
        InputError: the source defines no function `grade`.
    """

    settings: GraderSettings

    def __post_init__(self) -> None:
        outcome = run_program(Program(self.settings.source, ("grade.__call__",)), self._limits)
        if outcome.refused:
            raise NotAvailableError(
                f"reward: grader: this system cannot confine its code: {outcome.refused}",
                code="rewards.no_sandbox",
            )
        failure = outcome.problem or (outcome.failures or ("",))[0]
        if failure:
            raise InputError(
                f"reward: grader: expected a source with a function grade(sample, item): {failure}",
                code="rewards.bad_grader",
            )

    @property
    def description(self) -> str:
        """What it calls."""
        return "the number that grade(sample, item) returns"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the number for each sample; an error or a limit gives no reward."""
        source = self.settings.source
        programs = [Program(source, (_CALL.format(arguments=_fields(each)),)) for each in samples]
        return [_score(outcome) for outcome in run_all(programs, self._limits)]

    @property
    def _limits(self) -> Limits:
        return Limits(self.settings.timeout_s, self.settings.memory_mb * 1_000_000)


def _fields(sample: Sample) -> str:
    """Returns both arguments as JSON."""
    text, task = sample.response, sample.task
    message = {"role": "assistant", "content": text}
    given: dict[str, Any] = {"output_text": text, "output_json": _read(text), "output_tools": []}
    given["choices"] = [{"index": 0, "message": message}]
    turns = [openai_turn(turn) for turn in task.messages]
    return json.dumps([given, {**task.metadata, "answer": task.answer, "messages": turns}])


def _read(text: str) -> object:
    """Returns a response read as JSON; None if it is none, or too deep to be passed on."""
    try:
        parsed: object = json.loads(text)
        json.dumps([[parsed]])  # as deep as the arguments are
    except (ValueError, RecursionError):
        return None
    return parsed


def _score(outcome: Outcome) -> Score:
    if outcome.refused or outcome.problem:
        return no_reward(outcome.refused or outcome.problem)
    (failure,) = outcome.failures
    number = (failure or "").removeprefix(_GRADED)
    if failure is None or number == failure:
        return no_reward(failure or "grade returned nothing")
    try:
        value = float(number.partition(" (")[0])
    except ValueError:  # the source defines its own repr, float or Graded
        return no_reward(f"grade returned {number!r}: expected a number")
    if not math.isfinite(value):
        return no_reward(f"grade returned {value}: expected a finite number")
    return Score(value, "graded")
