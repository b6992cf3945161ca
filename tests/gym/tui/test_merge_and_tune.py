"""Merging models and searching settings from the app, by the real commands."""

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows
from zoo.gym import TrainConfig, run_training
from zoo.gym.jobs import list_runs
from zoo.gym.tui.app import GymApp

pytestmark = pytest.mark.slow


def trained(rows: Path, seed: int) -> None:
    settings = TrainConfig(model_name_or_path="zen-pico", dataset=str(rows), max_steps=1, seed=seed)
    run_training(settings)


def test_two_runs_are_merged_to_a_model_folder(drive: Drive, home: Path, tmp_path: Path) -> None:
    rows, out = fakes.rows_file(tmp_path), tmp_path / "merged"
    for seed in (1, 2):
        trained(rows, seed)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "r0002")
        await pilot.press("m")
        await shows(pilot, "zoo-gym merge r0002 r0001 --method linear")
        app.screen.query_one("#field-out", Input).value = str(out)
        await pilot.press("ctrl+s")
        await shows(pilot, "Merged:")
        assert (out / "model.safetensors").is_file()

    drive(visit, size=(200, 36))


def test_settings_are_searched_in_trial_runs(drive: Drive, home: Path, tmp_path: Path) -> None:
    rows = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_tune(str(rows))
        await shows(pilot, "Settings to search")
        app.screen.query_one("#field-search", Input).value = "lora_rank=2,4 max_steps=2"
        app.screen.query_one("#field-trials", Input).value = "2"
        await pilot.press("ctrl+s")
        await shows(pilot, "The best trial is")
        assert len(list_runs()) >= 2

    drive(visit, size=(200, 36))
