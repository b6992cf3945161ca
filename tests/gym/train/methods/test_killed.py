"""`kill -9` at a random step of a method over pairs: a resume ends in the bytes of a whole run."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gym.train.methods.pairs import settings, write_pairs
from zoo.gym import run_training
from zoo.gym.config import dump_config
from zoo.gym.jobs.run import create_run
from zoo.gym.jobs.worker import main as work

pytestmark = [
    pytest.mark.nightly,  # jobs/test_survival_methods.py kills each stage once among slow tests
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's"),
]

STEPS = 6


def weights(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file of weights."""
    return {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}


@pytest.mark.parametrize("stage", ["dpo", "kto", "orpo", "rm"])
def test_a_killed_run_resumes_to_the_same_bytes(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    more = {"max_steps": STEPS, "save_steps": 2, "eval_steps": 3, "learning_rate": 1e-3}
    more |= {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    config = settings(write_pairs(tmp_path), stage, lora_dropout=0.1, **more)
    whole = run_training(config)
    step = random.randint(1, STEPS)
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    command = [sys.executable, "-m", "tests.gym.train.methods.dying", str(run.folder), str(step)]
    assert subprocess.run(command, check=False).returncode == -9
    assert not run.result.exists()
    assert work([str(run.folder)]) == 0, f"killed at step {step}"
    assert weights(run.result) == weights(whole.model), f"killed at step {step}"
