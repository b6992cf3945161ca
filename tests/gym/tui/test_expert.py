"""An expert's run of GRPO in the app: rewards by function, groups, and alarms that a run causes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.gym.tui.conftest import Drive, screen_text, shows
from zoo.gym.tui.app import GymApp

STEPS = ("per_device_train_batch_size=4", "gradient_accumulation_steps=1")
CUT = ("max_completion_length=1", "group_size=4", "max_steps=12", "early_stopping_steps=0")
"""Answers of one token: all are cut, and none is a sum of two digits."""


@pytest.mark.slow
def test_a_run_of_equal_and_cut_answers_shows_both_alarms(
    drive: Drive, home: Path, tmp_path: Path
) -> None:
    sums = [{"prompt": f"What is {a}+{b}?", "answer": a + b} for a in range(12, 20) for b in (4, 5)]
    rows = tmp_path / "sums.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in sums))
    rewards = "reward={exact: {}, length: {most: 10}}"
    words = ["train", str(rows), "--model", "zen-pico", "stage=grpo", rewards, *CUT, *STEPS]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-P", "-m", "zoo.gym", *words], check=True, env=env, capture_output=True
    )

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch("r0001")
        await shows(pilot, "have equal rewards, which teach nothing", "are cut at")
        for _ in range(30):  # one figure after the other
            if "rewards/exact  " in screen_text(app):
                break
            await pilot.press("right_square_bracket")
            await pilot.pause(0.1)
        await shows(pilot, "rewards/exact \u2812")
        await pilot.press("a")
        await shows(pilot, "all rewards equal", "cut", "exact 0")

    drive(visit, size=(120, 36))
