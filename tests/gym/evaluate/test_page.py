"""The reference page has every task, as the program reads it."""

from pathlib import Path

import pytest

from zoo.gym.evaluate.tasks.table import TASKS

PAGE = (Path(__file__).parents[3] / "docs/reference/eval.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_documented_with_its_files_and_their_form(name: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}`"))
    assert f"`{TASKS[name].files[0]}`" in row
    assert TASKS[name].form in row
