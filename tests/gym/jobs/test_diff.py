"""`runs diff`: what differs between two runs, and what does not."""

import json
from typing import Any

import pytest

from zoo.gym.cli import main
from zoo.gym.jobs.run import Run, create_run


def made(rank: int, loss: float, data: str | None) -> Run:
    env = {"base": {"weights": "w"}} | ({"data": {"rows.jsonl": data}} if data else {})
    run = create_run(f"model_name_or_path: zen-pico\nlora_rank: {rank}\n", env)
    run.identity_file.unlink()
    run.events.emit("end", state="done", exit_code=0, metrics={"eval_loss": loss})
    return run


def compared(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["runs", "diff", "r0001", "r0002", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_only_settings_that_differ_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    made(8, 2.5, "a")
    made(16, 2.25, "a")
    found = compared(capsys)
    assert found["settings"] == {"lora_rank": [8, 16]}
    assert found["figures"] == {"eval_loss": [2.5, 2.25]}


@pytest.mark.parametrize(("data", "same"), [("a", True), ("b", False), (None, None)])
def test_data_is_compared_by_its_digests(
    data: str | None, same: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    made(8, 2.5, "a")
    made(8, 2.5, data)
    found = compared(capsys)
    assert (found["same_data"], found["same_base"], found["settings"]) == (same, True, {})


@pytest.mark.parametrize(("digest", "same"), [("a", True), ("b", False)])
def test_tasks_of_lessons_are_compared_by_their_digest(
    digest: str, same: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    for tasks in ("a", digest):
        create_run("model: zen-pico\n", {"kind": "experience", "tasks_sha256": tasks})
    assert compared(capsys)["same_data"] is same


def test_the_text_has_both_values(capsys: pytest.CaptureFixture[str]) -> None:
    made(8, 2.5, "a")
    made(16, 2.25, "b")
    assert main(["runs", "diff", "r0001", "r0002"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["lora_rank", "8", "16"] in lines
    assert ["data", "not", "the", "same"] in lines
