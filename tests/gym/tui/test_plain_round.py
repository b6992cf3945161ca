"""A round of three people by line, each command made of answers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gym.tui.test_plain import number
from tests.gym.tui.test_share_real import other_adapter, run_here, trained, zoo_gym

__all__ = ["run_here", "trained"]


def answer(home: Path, *lines: str) -> str:
    """Answers the questions of the program, and returns what it prints."""
    env = os.environ | {"ZOO_GYM_HOME": str(home), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-P", "-m", "zoo.gym", "--plain"]
    text = "".join(f"{line}\n" for line in (*lines, "q"))
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True, env=env)
    assert "exit code" not in done.stdout, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_round_by_line_ends_in_a_result_that_is_verified(
    run_here: Path, trained: Path, tmp_path: Path
) -> None:
    place = tmp_path / "round"
    answer(run_here, number("Start a round"), "summer", "", str(place), "", "", "")
    answer(run_here, number("Contribute"), "", "", "send", "")
    others = [tmp_path / "home-ben", tmp_path / "home-cat"]
    for seed, home in enumerate(others):
        adapter = other_adapter(trained, tmp_path / f"of-{seed}", seed)
        zoo_gym(home, "round", "contribute", str(adapter), "--round", str(place), "--send")
    answer(run_here, number("End the phase"), "", "")
    for home in others:
        zoo_gym(home, "round", "reveal", str(place), "--send")
    answer(run_here, number("Reveal"), "", "send", "")
    answer(run_here, number("End the phase"), "", "")
    assert "3 contributions, byzantine_robust" in answer(
        run_here, number("Compute the result"), "", ""
    )
    assert "recomputes it gets this result" in answer(run_here, number("Verify a round"), "", "")
