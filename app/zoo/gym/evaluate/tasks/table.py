"""The table of tasks, and how names choose from it."""

from pathlib import Path

from zoo.gym.config.report import unknown
from zoo.gym.errors import InputError
from zoo.gym.evaluate.items import Measure
from zoo.gym.evaluate.tasks.building import measures_of_task
from zoo.gym.evaluate.tasks.choices import MC1, MC2, MMLU
from zoo.gym.evaluate.tasks.code import HUMANEVAL, MBPP
from zoo.gym.evaluate.tasks.instructions import IFEVAL
from zoo.gym.evaluate.tasks.reasoning import BBH, GSM8K, MATH
from zoo.gym.evaluate.tasks.safety import SAFETY, safety_measures
from zoo.gym.evaluate.tasks.spec import Spec
from zoo.gym.evaluate.tasks.tools import TOOLS

TASKS = {
    spec.name: spec for spec in (GSM8K, MATH, BBH, MMLU, MC1, MC2, HUMANEVAL, MBPP, IFEVAL, TOOLS)
}
"""The tasks that are read from files, by name."""


def measures_of_tasks(
    names: str,
    folder: Path | None,
    *,
    shots: int | None,
    limit: int | None,
    max_new_tokens: int | None,
    is_plain: bool,
) -> list[Measure]:
    """Returns how models are measured on tasks.

    Args:
        names: names with commas between them.
        folder: the folder of their files.
        shots: see `measures_of_task`; None is 0.
        limit: see `measures_of_task`.
        max_new_tokens: see `measures_of_task`.
        is_plain: see `measures_of_task`.

    Raises:
        InputError: a name is unknown or given twice, or an option has no effect on it.
        NotAvailableError: a file is missing.
    """
    words = [word.strip() for word in names.split(",")]
    if twice := next((word for word in words if words.count(word) > 1), None):
        raise InputError(f"--tasks: expected '{twice}' once", code="evaluate.given_twice")
    measures: list[Measure] = []
    for word in words:
        if word == SAFETY:
            _refuse_without_effect(word, shots=shots, max_new_tokens=max_new_tokens)
            measures += safety_measures(limit, is_plain=is_plain)
            continue
        spec, part = _spec_of(word)
        if folder is None:
            raise InputError(
                f"--data: expected a folder with {spec.files[0]} ({spec.form}), got none",
                code="evaluate.no_folder",
            )
        _check_options(spec, shots, max_new_tokens, is_plain=is_plain)
        measures += measures_of_task(
            spec,
            folder,
            part,
            shots=shots or 0,
            limit=limit,
            max_new_tokens=max_new_tokens,
            is_plain=is_plain,
        )
    return measures


def _spec_of(word: str) -> tuple[Spec, str]:
    """Returns a task, and the part of it that a name means."""
    if word in TASKS:
        return TASKS[word], ""
    name, _, part = word.partition("_")
    if part and name in TASKS and TASKS[name].has_parts:
        return TASKS[name], part
    raise InputError(
        f"--tasks: {unknown('task', word, [*TASKS, SAFETY])}",
        hint=f"tasks are {', '.join([*TASKS, SAFETY])}; a part is bbh_PART, mmlu_SUBJECT",
        code="evaluate.unknown_task",
    )


def _check_options(
    spec: Spec, shots: int | None, max_new_tokens: int | None, *, is_plain: bool
) -> None:
    if not spec.has_shots:
        _refuse_without_effect(spec.name, shots=shots)
    if spec.how == "choices" and not spec.is_split:
        _refuse_without_effect(spec.name, max_new_tokens=max_new_tokens)
    if spec is TOOLS and is_plain:
        _refuse_without_effect(spec.name, plain=1)


def _refuse_without_effect(name: str, **options: int | None) -> None:
    for option, value in options.items():
        if value:
            raise InputError(
                f"--{option}: has no effect on {name}: expected it left out, or other tasks",
                code="evaluate.no_effect",
            )
