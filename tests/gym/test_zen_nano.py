"""zen-nano in its true size, random weights: training, stop and resume, delta, chat, memory."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bench.step import run_step
from bench.zen_nano import write_model
from zoo.models.registry import registry

PROGRAM = [sys.executable, "-m", "zoo.gym"]
TEXT_CHARACTERS = 30_000
"""About 8,000 tokens: three windows to learn, and one of a tenth to measure on."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="peaks are read as Linux counts them"),
]


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, shared: Callable[[str], Path]
) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("nano")
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    tokenizer = shared("data/tokenizers/qwen3")
    write_model(folder / "hub", entry, tokenizer=tokenizer, seed=0)
    text = shared("data/text/tinyshakespeare.txt").read_text()
    (folder / "text.txt").write_text(text[:TEXT_CHARACTERS])
    (folder / "held.txt").write_text(text[-1000:])
    yield folder
    shutil.rmtree(folder)


def answer(place: Path, *words: str, stdin: str = "") -> dict[str, Any]:
    """Runs a command that must succeed and returns its JSON."""
    home = {"ZOO_GYM_HOME": str(place / "home"), "HF_HUB_CACHE": str(place / "hub")}
    env = os.environ | home | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    argv, pipe = [*PROGRAM, *words, "--json"], subprocess.PIPE
    done = subprocess.run(argv, env=env, cwd=place, check=True, input=stdin, stdout=pipe, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def weights(place: Path) -> Path:
    return next(place.glob("hub/models--*/snapshots/*/model.safetensors"))


def events(place: Path) -> list[dict[str, Any]]:
    lines = (place / "home/data/runs/r0001/events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def wait_for(place: Path, kind: str) -> dict[str, Any]:
    while True:
        found = [event for event in events(place) if event["kind"] == kind]
        if found:
            return found[-1]
        time.sleep(0.5)


def resumed_run(place: Path) -> dict[str, Any]:
    """Stops a run of three steps after its first one, resumes it, and returns its end event."""
    batch = ("--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "1")
    options = ("--model", "zen-nano", "--max_steps", "3", *batch)
    answer(place, "train", "text.txt", *options, "--detach")
    wait_for(place, "step")
    assert answer(place, "runs", "stop", "last")["state"] == "interrupted"
    answer(place, "runs", "resume", "last")
    while not (ends := [e for e in events(place) if e["kind"] == "end" and "metrics" in e]):
        time.sleep(0.5)
    return ends[-1]


def test_the_whole_path_runs_within_its_memory(place: Path) -> None:
    before = sha256(weights(place).read_bytes()).digest()
    end = resumed_run(place)
    peak, memory = end["metrics"]["peak_host_bytes"], wait_for(place, "plan")["memory"]
    assert end["metrics"]["steps"] == 3
    assert peak <= 3.6e9
    assert memory["total"] == pytest.approx(peak, rel=0.2)
    made = answer(place, "delta", "create", "last", "--data", "held.txt")
    assert made["bytes"] <= 1.06 * 2_759_680
    checked = answer(place, "delta", "check", made["file"], "--base", "zen-nano")
    assert checked["passed"]
    assert "2759680 payload bytes" in str(checked["checks"])
    chat = ("chat", "--delta", made["file"], "--max_new_tokens", "4")
    assert answer(place, *chat, stdin="hello\n")["turns"]
    assert sha256(weights(place).read_bytes()).digest() == before


def test_a_step_costs_less_than_the_plain_one(place: Path) -> None:
    folder = weights(place).parent
    plain, ours = (run_step(way, folder, "--steps", "1") for way in ("plain", "ours"))
    assert ours["peak_host_bytes"] <= 0.6 * plain["peak_host_bytes"]
    assert ours["cpu_s"] <= 0.95 * plain["cpu_s"]
    assert ours["losses"] == pytest.approx(plain["losses"], abs=0.01)


def test_512_tokens_need_at_most_2_9_gigabytes(place: Path) -> None:
    found = run_step("ours", weights(place).parent, "--tokens", "512", "--steps", "1")
    assert found["peak_host_bytes"] <= 2.9e9
