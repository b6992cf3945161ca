"""The place Share with real commands: small files, a round of three people, a server."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Button, Static

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows, until
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.dialogs.confirm import ConfirmDialog
from zoo.gym.tui.dialogs.typed import TypedDialog
from zoo.gym.tui.share.deltas import deltas_folder
from zoo.gym.tui.share.form import FormScreen
from zoo.gym.tui.share.variants_pane import VariantsPane

SETTINGS = ("--model", "zen-pico", "max_steps=5", "lora_rank=4", "finetuning_type=lora")


def zoo_gym(home: Path, *words: str) -> dict[str, object]:
    """Runs a command as the person who has a home, and returns its object."""
    env = os.environ | {"ZOO_GYM_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, "-P", "-m", "zoo.gym", *words, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a run of five steps."""
    folder = tmp_path_factory.mktemp("trained")
    zoo_gym(folder / "home", "train", str(fakes.rows_file(folder)), *SETTINGS)
    return folder / "home"


@pytest.fixture
def run_here(home: Path, trained: Path) -> Path:
    """The home of the app, with that run in it."""
    shutil.copytree(trained, home)
    return home


def other_adapter(trained: Path, folder: Path, seed: int) -> Path:
    """The adapter of the run, with other values: that of somebody else."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    [run] = (trained / "data" / "runs").iterdir()
    shutil.copytree(run / "result", folder)
    file = folder / "adapter_model.safetensors"
    draw = np.random.default_rng(seed).normal  # a multiple of another's would count as a copy
    tensors = load_file(file).items()
    save_file({key: draw(scale=0.02, size=v.shape).astype(v.dtype) for key, v in tensors}, file)
    return folder


@pytest.mark.slow
def test_a_small_file_is_made_of_a_run_and_checked(drive: Drive, run_here: Path) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("6")
        await shows(pilot, "run, zen-pico")
        await opened(pilot, "c", FormScreen)
        await pilot.press("ctrl+s")
        await shows(pilot, "* --bits", "of the gain kept", "Written with")
        assert [path.name for path in deltas_folder().iterdir()] == ["r0001.delta.safetensors"]
        await pilot.press("escape")
        await shows(pilot, "small file", " kB")
        await pilot.press("k")  # the cursor has stayed on the run, below the new file
        await shows(pilot, "Measured by its maker", "same top token")
        await pilot.press("enter", "ctrl+s")
        await shows(pilot, "5 checks hold.")

    drive(visit, size=(160, 45))


async def opened(pilot: Pilot[None], key: str, screen: type[Screen[Any]]) -> None:
    """Presses a key and waits for the screen that it opens, which gets the next one."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, screen) and pilot.app.screen.is_mounted)


async def ran(pilot: Pilot[None], keys: str, *texts: str) -> None:
    """Opens a form of the list by its key, runs it, waits for its texts and goes back."""
    await opened(pilot, keys, FormScreen)
    if keys in "vx":
        await opened(pilot, "ctrl+s", ConfirmDialog)
        await pilot.press("y")
    else:
        await pilot.press("ctrl+s")
    await shows(pilot, *texts)
    await pilot.press("escape")


@pytest.mark.slow
def test_a_round_of_three_people_ends_in_a_result_that_is_verified(
    drive: Drive, run_here: Path, trained: Path, tmp_path: Path
) -> None:
    place = tmp_path / "round"
    others = {
        tmp_path / f"home-{name}": other_adapter(trained, tmp_path / name, seed)
        for seed, name in enumerate(("ben", "cat"))
    }
    chosen = ("--base", "zen-pico", "--out", str(place), "--min-contributors", "3")
    zoo_gym(run_here, "round", "create", "summer", *chosen, "--method", "mean", "--form", "lowrank")
    for home, adapter in others.items():
        zoo_gym(home, "round", "contribute", str(adapter), "--round", str(place), "--send")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("6", "right", "right")
        await shows(pilot, "summer", "[commit]", "Contribute")
        await pilot.press("s")
        await shows(pilot, "No privacy budget")
        await pilot.press("ctrl+s")
        await shows(pilot, "Prepared")
        await opened(pilot, "ctrl+s", TypedDialog)
        await pilot.press(*"send", "enter")
        await shows(pilot, "Receipt: inbox/")
        await pilot.press("escape")
        await shows(pilot, "contributor")
        await ran(pilot, "x", "added to the log: 3", "Done.")
        for home in others:
            zoo_gym(home, "round", "reveal", str(place), "--send")
        await shows(pilot, "[reveal]", "committed, not revealed", "v Reveal")
        await ran(pilot, "v", "revealed in", "Done.")
        await ran(pilot, "x", "added to the log: 3", "Done.")
        await shows(pilot, "[compute]", "a Result")
        await ran(pilot, "a", "Published: 3 contributions count, 0 were refused.")
        await shows(pilot, "[published]", "V Verify")
        await ran(pilot, "V", "Recomputed here: equal")
        await ran(pilot, "p", "Verified and written")
        await ran(pilot, "u", "no longer counts")

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_a_server_of_variants_is_turned_on_and_off(drive: Drive, run_here: Path) -> None:
    zoo_gym(run_here, "variants", "create", "--user", "ann", "--run", "last")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("6", "right")
        await shows(pilot, "ann", "Server: off")
        await opened(pilot, "S", FormScreen)
        await pilot.press("end", *["backspace"] * 4, "0", "ctrl+s")
        await shows(pilot, "Server: on, http://127.0.0.1:", "serve.token", "zen-pico:ann")
        await pilot.press("escape")
        pane = app.screen.query_one(VariantsPane)
        process = pane.server._process
        assert process is not None
        assert process.poll() is None
        await pilot.press("S", "y")
        await shows(pilot, "Server: off")
        assert process.poll() is not None

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_the_server_ends_with_the_app(drive: Drive, run_here: Path) -> None:
    zoo_gym(run_here, "variants", "create", "--user", "ann", "--run", "last")
    left = []

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("6", "right")
        await shows(pilot, "ann", "Server: off")
        await opened(pilot, "S", FormScreen)
        await pilot.press("end", *["backspace"] * 4, "0", "ctrl+s")
        await shows(pilot, "Server: on, http://127.0.0.1:")
        await pilot.press("escape")
        left.append(app.screen.query_one(VariantsPane).server._process)

    drive(visit, size=(120, 36))
    assert left[0] is not None
    assert left[0].poll() is not None


@pytest.mark.slow
def test_an_estimate_of_learning_is_made_without_a_call(
    drive: Drive, home: Path, tmp_path: Path
) -> None:
    rows = [f'{{"prompt": "{i}+{i}", "answer": "{2 * i}"}}' for i in range(40)]
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("\n".join(rows) + "\n", encoding="utf-8")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("6", "right", "right", "right")
        await shows(pilot, "Press l")
        await pilot.press("l", *str(tasks), "tab", *"zen-pico", "ctrl+s")
        await shows(pilot, "calls", "nothing: all calls stay on this machine", "Estimated")
        assert str(app.screen.query_one("#run", Button).label) == "Start ..."
        assert app.screen.query_one("#state", Static).has_class("good")

    drive(visit, size=(160, 45))
