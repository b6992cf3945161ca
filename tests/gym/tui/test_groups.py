"""The sampled answers of a run by RL, group by group."""

import json
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs import groups
from zoo.gym.tui.runs.groups import read_groups


def line(step: int, prompt: str, reward: float | None, **fields: Any) -> str:
    sample = {"step": step, "source": "a:1", "prompt": prompt, "completion": f"{prompt} {reward}"}
    figures: dict[str, Any] = {
        "reward": reward,
        "advantage": reward,
        "tokens": 7,
        "truncated": False,
        "parts": {},
    }
    return json.dumps(sample | figures | fields) + "\n"


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines))
    return path


def test_answers_to_one_prompt_of_one_step_are_a_group(tmp_path: Path) -> None:
    lines = (line(1, "a", 0), line(1, "a", 1), line(1, "b", 0), line(2, "b", 0), line(2, "b", 0))
    found = read_groups(written(tmp_path / "s", *lines))
    assert [(group.step, group.prompt, len(group.samples)) for group in found] == [
        *((1, "a", 2), (1, "b", 1), (2, "b", 2))
    ]
    assert [group.is_flat for group in found] == [False, True, True]


def test_damaged_lines_and_a_missing_file_are_no_group(tmp_path: Path) -> None:
    assert read_groups(tmp_path / "absent") == []
    lines = ("not json\n", "[1]\n", '{"step": "x", "prompt": "a"}\n', line(1, "a", 1), '{"st')
    assert len(read_groups(written(tmp_path / "s", *lines))) == 1


def test_of_a_large_file_the_newest_whole_lines_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line(step, "a", 1) for step in range(1, 9)]
    monkeypatch.setattr(groups, "TAIL_BYTES", len("".join(lines[5:])) + 9)
    found = read_groups(written(tmp_path / "s", *lines))
    assert [group.step for group in found] == [6, 7, 8]


@pytest.mark.slow
def test_a_group_is_sorted_and_its_answers_are_read_in_full(drive: Drive) -> None:
    run = fakes.trained(2)
    long = "word " * 60 + "the end"
    written(
        run.samples,
        line(1, "earlier?", 1),
        line(2, "2+2?", 0.25, tokens=9, truncated=True, parts={"format": 1.0}),
        line(2, "2+2?", 0.75, completion=long),
    )

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "training loss")
        await pilot.press("a")
        await shows(pilot, "Step 2, group 2 of 2", "2+2?", "+0.75 0.75 7 eos", "the end")
        await pilot.press("s")
        await shows(pilot, "2 answers by length", "+0.25 0.25 9 cut", "format 1")
        text = screen_text(app)
        assert text.index("+0.25") < text.index("+0.75")
        await pilot.press("p")
        await shows(pilot, "Step 1, group 1 of 2", "earlier?", "all rewards equal")

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_a_run_without_answers_says_where_they_come_from(drive: Drive) -> None:
    run = fakes.trained(2)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "training loss")
        await pilot.press("a", "p", "s", "y")
        await shows(pilot, "No sampled answers yet")

    drive(visit)
