"""Runs about lessons: learned, and turned into weights."""

import json

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows
from zoo.gym.jobs import Run
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs.lessons_run import Spending, short


@pytest.mark.slow
def test_a_run_of_lessons_shows_its_verdict_and_no_loss(drive: Drive) -> None:
    run = fakes.lessons_run(done=True)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "balls@1 is proven: +53.3 points of 100, 95 % +35.4 to +70.6")
        await shows(pilot, "teacher wise", "calls 714", "reward 0.2133", "- Red balls bounce.")
        text = screen_text(app)
        assert "experience show balls@1" in text
        for wrong in ("loss", "held out", "delta create", "chat --run"):
            assert wrong not in text

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_a_run_of_lessons_that_is_running_shows_what_it_spent(drive: Drive) -> None:
    run = fakes.lessons_run(done=False)
    bill = {"calls": 1, "prompt_tokens": 90, "completion_tokens": 10, "usd": 0.00021}
    journal = run.folder / "journal.jsonl"
    journal.write_text("".join(json.dumps({"got": str(i), "bill": bill}) + "\n" for i in range(3)))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Learning lessons", "calls 3", "tokens 300", "spent 0.00063 USD")

    drive(visit)


@pytest.mark.slow
def test_a_distillation_shows_what_was_gained(drive: Drive) -> None:
    run = fakes.distillation_run()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "distils balls@1 into zen-pico", "the adapter is proven")
        await shows(pilot, "adapter: +12.0, 95 %", f"chat --run {run.id}")
        assert "delta create" not in screen_text(app)

    drive(visit, size=(120, 36))


def test_a_line_that_is_half_written_is_read_later(home: object) -> None:
    run: Run = fakes.new_run()
    path, spent = run.folder / "journal.jsonl", Spending()
    bill = {"calls": 1, "prompt_tokens": 9, "completion_tokens": 1, "usd": 0.5}
    line = json.dumps({"lost": "a", "bill": bill}) + "\n"
    path.write_text(line + line[:20])
    assert spent.read(path)
    assert (spent.calls, spent.tokens, spent.usd) == (1, 10, 0.5)
    path.write_text(line + line)
    assert spent.read(path)
    assert (spent.calls, spent.tokens, spent.usd) == (2, 20, 1.0)


@pytest.mark.parametrize(
    ("model", "shown"),
    [("http://127.0.0.1:80/v1#clerk", "clerk at 127.0.0.1:80"), ("zen-nano", "zen-nano")],
)
def test_an_address_is_shortened(model: str, shown: str) -> None:
    assert short(model) == shown
