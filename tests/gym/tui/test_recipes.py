"""A recipe of each method trains from the app; the workers are real ones."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.cli.test_recipes import RECIPES, data, rows, small
from tests.gym.jobs.left_over import kill_workers
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.jobs import read_status, run_folders
from zoo.gym.tui.app import GymApp

__all__ = ["rows"]  # a fixture

OF_STAGES = {yaml.safe_load(recipe.read_text())["stage"]: recipe for recipe in RECIPES}

CHOSEN = "model_name_or_path=zen-pico"
"""What the form's own choice of a model says already."""

SOONER = ("grpo",)
"""The stages of slow tests; every recipe trains from the command line there."""


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> Iterator[None]:
    yield
    kill_workers()


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(stage, marks=pytest.mark.slow if stage in SOONER else pytest.mark.nightly)
        for stage in OF_STAGES
    ],
)
def test_a_recipe_trains_from_the_app(
    drive: Drive,
    place: Path,
    rows: dict[str, Path],
    stage: str,
) -> None:
    recipe = OF_STAGES[stage]

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(data(recipe, rows)))
        await shows(pilot, "1 Examples")
        items = [item for item in small(recipe, place) if item != CHOSEN]
        settings = " ".join([f"stage={stage}", recipe.name, *items])
        app.screen.query_one("#settings", Input).value = settings
        await until(pilot, lambda: "20 examples" in screen_text(app), 120)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "Done, step 2 of 2" in screen_text(app), 120)

    drive(visit, size=(120, 36))
    [run] = run_folders()
    assert read_status(run).state == "done"
    events = [json.loads(line) for line in run.events.path.read_text().splitlines()]
    assert [event["step"] for event in events if event["kind"] == "step"] == [1, 2]
