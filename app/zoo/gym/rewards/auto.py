"""Chooses the reward for `reward: auto` from the rows, with the reason in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from zoo.gym.config.reward import (
    AnswerSettings,
    EnvironmentSettings,
    ExactSettings,
    MathSettings,
    NumericSettings,
    RewardSettings,
    SimilaritySettings,
    TestsSettings,
)
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted
from zoo.gym.rewards.answers.final import accepted_answers
from zoo.gym.rewards.answers.numeric import has_number
from zoo.gym.rewards.code.row_tests import has_tests
from zoo.gym.rewards.environments.environment import of_task
from zoo.gym.rewards.reward import Task


@dataclass(frozen=True)
class Choice:
    """A chosen reward, and why."""

    settings: RewardSettings
    why: str


def choose(tasks: Sequence[Task]) -> Choice:
    """Returns the reward that fits all rows.

    It is `tests` if all have unit tests, `environment` if environments made them, `similarity` if
    they have reference outputs alone, and else by their answers: `numeric`, `math` if some are
    formulas of LaTeX, `exact`, or `answer` if only some are numbers.

    Raises:
        InputError: there are no rows, or some have nothing that a response can be compared with.
    """
    if tasks and (choice := _by_fields(tasks)):
        return choice
    bare = [task for task in tasks if not accepted_answers(task.answer)]
    if bare or not tasks:
        raise _nothing_to_compare(tasks, bare)
    rows = counted(len(tasks), "row")
    numbers = sum(has_number(task) for task in tasks)
    if numbers == len(tasks):
        return Choice(NumericSettings(), f"every answer of {rows} is a number")
    formulas = sum(_is_formula(task) for task in tasks)
    if formulas:
        return Choice(MathSettings(), f"the answers of {formulas:,} of {rows} are formulas")
    if numbers == 0:
        return Choice(ExactSettings(), f"the answers of {rows} are text")
    why = f"the answers of {numbers:,} of {rows} are numbers, the others text"
    return Choice(AnswerSettings(), why)


def has_choice(task: Task) -> bool:
    """Returns whether a reward fits a row by itself."""
    try:
        choose([task])
    except InputError:
        return False
    return True


def _by_fields(tasks: Sequence[Task]) -> Choice | None:
    """Returns the reward for rows that have more than an answer; None if they do not."""
    rows = counted(len(tasks), "row")
    if all(has_tests(task) for task in tasks):
        return Choice(TestsSettings(), f"{rows} {'has' if len(tasks) == 1 else 'have'} unit tests")
    if all(of_task(task) for task in tasks):
        return Choice(EnvironmentSettings(), f"environments of reasoning-gym made {rows}")
    if all(task.reference and task.answer is None for task in tasks):
        why = "the rows have no answers, only reference outputs"
        return Choice(SimilaritySettings(), f"{why}. It is a weak reward")
    return None


def _is_formula(task: Task) -> bool:
    """Returns whether an answer contains a command of LaTeX and is not just a number."""
    return not has_number(task) and any("\\" in answer for answer in accepted_answers(task.answer))


def _place(source: str) -> tuple[str, int]:
    """Returns file and line of a row, to be sorted by: a split has shuffled the rows."""
    file, _, line = source.rpartition(":")
    return (file, int(line)) if line.isascii() and line.isdecimal() else (source, 0)


def _nothing_to_compare(tasks: Sequence[Task], bare: Sequence[Task]) -> InputError:
    got = f"{len(bare):,} of {counted(len(tasks), 'row')} have none" if tasks else "no rows"
    sources = sorted((task.source for task in bare if task.source), key=_place)
    first = f", first {sources[0]}" if sources else ""
    return InputError(
        f"reward: auto needs an answer in every row to compare responses with: {got}{first}",
        hint="add the key 'answer' to the rows, or choose a reward that needs none: a function of "
        "yours, reward=FILE.py:FUNCTION, or a model that scores, reward='{kind: judge, model: "
        "MODEL}'; pairs of a better and a worse answer train a reward model with stage=rm; zoo-gym "
        "experience train also has majority, which takes what most answers say",
        code="rewards.no_answers",
    )
