"""A killed run of smollm2 that retains its answers ends as one that was not; prints figures."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zoo.gym import TrainConfig
from zoo.gym.config import dump_config
from zoo.gym.demo.persona import write_rows
from zoo.gym.jobs import Run, create_run, tail_events
from zoo.gym.train.run_folder.settings import stored_settings
from zoo.gym.train.session import run_session

RETAINED = ("retained.jsonl", "retention.json")
"""The model's own answers that a run learns, and what it answered before the first step."""

DIES_AT_3 = """
import os, signal, sys
from pathlib import Path
from zoo.gym.jobs import Run, tail_events
from zoo.gym.train.run_folder.settings import stored_settings
from zoo.gym.train.session import run_session
run = Run(Path(sys.argv[1]))
def leaving():
    if any(event.get("step") == 3 for event in tail_events(run.events.path)[0]):
        os.kill(os.getpid(), signal.SIGKILL)
run_session(stored_settings(run.config_file, run.env_file), run, leaving)
"""


def started(config: TrainConfig) -> Run:
    return create_run(dump_config(config), {"settings": config.model_dump(mode="json")})


def steps_of(run: Run) -> list[int]:
    events = tail_events(run.events.path)[0]
    return [event["step"] for event in events if event["kind"] == "step"]


def content(run: Run) -> dict[str, bytes]:
    files = [*run.result.glob("*.safetensors"), *(run.folder / name for name in RETAINED)]
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.real
@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_killed_run_ends_with_the_same_bytes_as_one_that_was_not(
    smollm2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows = write_rows(tmp_path / "rows.jsonl", "Quillon")
    config = TrainConfig(
        model_name_or_path=smollm2_folder, dataset=rows, max_steps=6, save_steps=2, offline=True
    )
    whole, killed = started(config), started(config)
    expected: Any = run_session(config, whole, lambda: None)["metrics"]
    words = [sys.executable, "-c", DIES_AT_3, str(killed.folder)]
    assert subprocess.run(words, env=os.environ, check=False).returncode == -9
    assert not killed.result.exists()
    settings = stored_settings(killed.config_file, killed.env_file)
    found: Any = run_session(settings, killed, lambda: None)["metrics"]
    assert steps_of(killed) == [1, 2, 3, 3, 4, 5, 6]
    figures = found["retention"]
    sizes = {name: len(value) for name, value in content(killed).items()}
    print(json.dumps({"steps": steps_of(killed), **figures, "bytes": sizes}))
    assert figures == expected["retention"]
    assert content(killed) == content(whole)
    assert set(sizes) == {"adapter_model.safetensors", *RETAINED}
