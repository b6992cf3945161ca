"""A killed measurement goes on where it was, and nothing is asked twice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gym.evaluate.conftest import Call, write_rows
from zoo.gym.files.lock import locked

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")

ROWS = 40
WORDS = ("eval", "zen-pico", "--tasks", "gsm8k", "--data", "bench", "--max_new_tokens", "60")


def rows_of(folder: Path) -> Path:
    folder.mkdir()
    rows = ({"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(ROWS))
    return write_rows(folder / "gsm8k.jsonl", rows)


def lines_in(home: Path) -> list[bytes]:
    files = [*home.rglob("gsm8k-*.jsonl"), *home.rglob("gsm8k-*.jsonl.part")]
    return files[0].read_bytes().splitlines() if files else []


def killed_at(count: int, place: Path) -> None:
    """Starts the command and kills it as soon as it has kept so many lines."""
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo.gym", *WORDS],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while len(lines_in(place / "home")) < count and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
@POSIX
def test_after_a_kill_the_figures_are_the_same(place: Path, call: Call) -> None:
    rows_of(place / "bench")
    killed_at(1, place)
    before = lines_in(place / "home")
    assert 1 <= len(before) < ROWS
    assert not list((place / "home").rglob("gsm8k-*[0-9a-f].json"))
    outcome = call(*WORDS, "--json")
    assert outcome.code == 0, outcome.stderr
    after = lines_in(place / "home")
    assert after[: len(before) - 1] == before[:-1]  # a kill may cut the last line
    assert len(after) == ROWS
    fresh = fresh_result(place, call)
    assert outcome.json["results"] == fresh["results"]


@POSIX
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_ten_kills_change_no_byte(place: Path, call: Call) -> None:
    rows_of(place / "bench")
    for count in (1, 3, 6, 10, 14, 19, 24, 29, 35, ROWS):
        killed_at(count, place)
    figures = call(*WORDS, "--json").json["results"]
    (answers,) = (place / "home").rglob("gsm8k-*.jsonl")
    lines = answers.read_bytes()
    assert figures == fresh_result(place, call)["results"]
    (fresh,) = (place / "home").rglob("gsm8k-*.jsonl")
    assert lines == fresh.read_bytes()


def fresh_result(place: Path, call: Call) -> dict[str, Any]:
    """Returns the report of the same command in a new home."""
    (place / "home").rename(place / "other")
    return json.loads(call(*WORDS, "--json").stdout.splitlines()[-1])  # type: ignore[no-any-return]


def test_other_rows_are_asked_anew(place: Path, call: Call) -> None:
    rows_of(place / "bench")
    first = call(*WORDS, "--limit", "2", "--json")
    second = call(*WORDS, "--limit", "3", "--json")
    counts = [outcome.json["results"][0]["rows"] for outcome in (first, second)]  # type: ignore[index]
    assert counts == [2, 3]
    assert len(list((place / "home").rglob("gsm8k-*.jsonl"))) == 2


def test_a_second_process_is_told_to_wait(place: Path, call: Call) -> None:
    rows_of(place / "bench")
    assert call(*WORDS, "--limit", "1").code == 0
    (answers,) = (place / "home").rglob("gsm8k-*.jsonl")
    answers.unlink()
    with locked(answers.with_name(f".{answers.name}.lock")):
        outcome = call(*WORDS, "--limit", "1", "--json")
    assert outcome.code == 1
    assert "hint: wait for its end: its answers are used then" in outcome.stderr
