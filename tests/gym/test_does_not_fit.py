"""A run that needs more memory than there is, through the command."""

from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from tests.gym.conftest import Refused
from tests.gym.tui.fakes import rows_file
from zoo.gym.jobs import read_status, run_folders
from zoo.gym.jobs.events import tail_events

Memory = namedtuple("Memory", ["available", "total"])


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 0.5 GB free; a run of zen-pico is estimated at 0.8 GB and more."""
    found = Memory(available=500_000_000, total=8_000_000_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: found)


@pytest.mark.slow
def test_a_run_that_does_not_fit_ends_with_3_and_the_three_levers(
    refused: Refused, place: Path, little_memory: None
) -> None:
    path = rows_file(place)
    message = refused("train", str(path), "--model", "zen-pico", "max_steps=2", code=3)
    assert "expected at most the 0.50 GB that are free on cpu" in message
    [run] = run_folders()
    hint = read_status(run).hint or ""
    levers = ("per_device_train_batch_size=1", "gradient_accumulation_steps", "cutoff_len")
    assert all(lever in hint for lever in (*levers, "gradient_checkpointing=true"))


@pytest.mark.slow
def test_the_sum_is_told_before_the_refusal(
    refused: Refused, place: Path, little_memory: None
) -> None:
    refused("train", str(rows_file(place)), "--model", "zen-pico", "max_steps=2", code=3)
    [run] = run_folders()
    [plan] = [event for event in tail_events(run.events.path)[0] if event["kind"] == "plan"]
    shares = plan["memory"]
    parts = ("weights", "adapter", "gradients", "optimizer", "activations", "statistics", "reserve")
    assert shares["total"] >= sum(shares[part] for part in parts)
    assert not run.checkpoints.exists() or not any(run.checkpoints.iterdir())
