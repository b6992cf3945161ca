"""The demo's bounds, and the whole demo as a user runs it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gym.delta.lora import write_lora
from zoo.gym import RunResult
from zoo.gym.demo.run import Row, compress, missed_bounds, table
from zoo.models import pico_folder

GOOD = (
    Row("base", 0.0, None, 1_648_128, ()),
    Row("tuned-lora", 1.0, None, 629_744, ()),
    Row("tuned-full", 0.99, None, 3_291_376, ()),
    Row("lowrank-2bit", 0.95, 0.95, 64_960, ()),
    Row("dense-1bit", 0.99, 0.99, 143_720, ()),
    Row("random-signs", 0.0, 0.0, 136_112, ()),
)


def test_good_figures_miss_nothing() -> None:
    assert list(missed_bounds(GOOD)) == []


@pytest.mark.parametrize(
    ("name", "accuracy", "recovered"),
    [
        ("base", 0.06, None),
        ("tuned-lora", 0.89, None),
        ("tuned-full", 0.89, None),
        ("lowrank-2bit", 0.8, 0.89),
        ("dense-1bit", 0.9, 0.94),
        ("dense-1bit", 0.0, None),
        ("random-signs", 0.2, 0.11),
    ],
)
def test_each_missed_target_is_reported_by_name(
    name: str, accuracy: float, recovered: float | None
) -> None:
    worse = (
        replace(row, accuracy=accuracy, recovered=recovered) if row.name == name else row
        for row in GOOD
    )
    [sentence] = missed_bounds(tuple(worse))
    assert sentence.startswith(f"{name}: expected at ")


def test_the_table_has_a_line_for_each_row() -> None:
    lines = table(GOOD)
    assert [line.split()[0] for line in lines[2:]] == [row.name for row in GOOD]


def test_a_second_demo_replaces_the_deltas_of_the_first(tmp_path: Path) -> None:
    for step in (0.01, 0.02):
        model = write_lora(tmp_path / str(step), step=step)
        result = RunResult("r0001", tmp_path, model, {})
        report = compress(result, pico_folder(), tmp_path / "d.safetensors", distills=False)
    assert report.tensors == 1


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_whole_demo_keeps_its_promises(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("zoo-gym")
    environment = {**os.environ, "ZOO_GYM_HOME": str(tmp_path)}
    done = subprocess.run(
        [str(program), "demo", "--json"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout.splitlines()[-1])["rows"]}
    assert list(rows) == [row.name for row in GOOD]
    # payload as the format computes it, and at most 40 kB of header
    assert 42_752 < rows["lowrank-2bit"]["bytes"] <= 42_752 + 40_000
    assert 129_696 < rows["dense-1bit"]["bytes"] <= 129_696 + 40_000
    assert "zoo-gym train my-examples.jsonl --model zen-nano" in done.stderr
