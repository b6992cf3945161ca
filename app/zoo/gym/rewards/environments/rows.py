"""Writes tasks of an environment as rows with a prompt, the answer, and what scores an answer."""

import json
from collections.abc import Iterator, Mapping

from zoo.gym.errors import InputError
from zoo.gym.rewards.environments.package import FIELD, dataset

RIGHT = 0.99
"""The least score of a task's own answer."""


def rows(
    name: str, count: int, seed: int, options: Mapping[str, object] | None = None
) -> Iterator[str]:
    """Yields a line of JSON for each task.

    Args:
        name: of the environment.
        count: the number of tasks.
        seed: of the tasks: the same one gives the same tasks with the same version.
        options: of the environment, such as `{"max_terms": 3}`.

    Raises:
        InputError: there is no such environment, it refuses an option, or does not accept the
            answer to a task once it is stored as JSON.
        NotAvailableError: reasoning-gym is not installed.
    """
    tasks = dataset(name, **{**(options or {}), "seed": seed, "size": count})
    for number in range(count):
        task = tasks[number]
        answer = task["answer"]
        of_task = {"name": name, "answer": answer, "metadata": task["metadata"]}
        row = {"prompt": task["question"], "answer": answer, FIELD: of_task}
        try:
            line = json.dumps(row, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"environment {name}: its tasks cannot be stored: {error}",
                code="rewards.environment_not_stored",
            ) from None
        if answer is not None and score(tasks, json.loads(line)[FIELD], str(answer)) < RIGHT:
            raise InputError(
                f"environment {name}: it does not accept the answer to task {number + 1} once the "
                "task is stored as JSON: expected another environment",
                code="rewards.environment_not_stored",
            )
        yield line


def score(tasks: object, of_task: Mapping[str, object], answer: str) -> float:
    """Returns the score of an answer by the rules of its environment, mostly from 0 to 1.

    Args:
        tasks: the environment: see `dataset`.
        of_task: the field `FIELD` of a row.
        answer: the text of the answer.
    """
    entry = {key: of_task[key] for key in ("answer", "metadata")} | {"question": ""}
    return float(tasks.score_answer(answer=answer, entry=entry))  # type: ignore[attr-defined]
