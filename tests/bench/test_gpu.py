"""The command for a CUDA machine, as far as it can be tried without one."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bench import source_tree
from bench.gpu.__main__ import Bench
from bench.gpu.models import Models
from bench.gpu.packages import bring, missing
from bench.gpu.parts import Part, parts
from bench.gpu.process import run_part
from bench.gpu.report import figures, targets_met
from zoo.core import _core
from zoo.models import pico_folder

WITHOUT_CORE = """
import sys
sys.modules["zoo.core._core"] = None
from bench.source_tree import use_source_tree
assert use_source_tree() and use_source_tree()
from zoo.models.folder import count_parameters
from pathlib import Path
print(count_parameters(Path(sys.argv[1])))
"""


def test_the_stand_in_reads_a_header_as_the_core_does() -> None:
    file = pico_folder() / "model.safetensors"
    assert source_tree.read_header(file, False) == _core.read_header(file, False)


@pytest.mark.slow
def test_a_tree_without_its_core_still_reads_models() -> None:
    argv = [sys.executable, "-c", WITHOUT_CORE, str(pico_folder())]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert int(done.stdout) == 821_632  # zen-pico, by its card


def test_the_built_core_is_used_where_it_is() -> None:
    assert source_tree.use_source_tree() is False


def test_the_stand_in_reads_bytes_as_the_core_does() -> None:
    file = pico_folder() / "model.safetensors"
    rooms = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    source_tree.OpenFile(file).read_at(rooms[0], 1000)
    _core.OpenFile(file).read_at(rooms[1], 1000)
    assert rooms[0].tobytes() == rooms[1].tobytes()


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_part_that_fails_leaves_its_figures_and_its_error(tmp_path: Path) -> None:
    code = "print('{\"losses\": [2.0]}'); raise SystemExit('no such device')"
    found = run_part(python(code), 60.0, tmp_path)
    assert (found["exit_code"], found["losses"]) == (1, [2.0])
    assert "no such device" in found["error"]
    assert "no such device" in (tmp_path / "gpu.log").read_text()


@pytest.mark.slow
def test_a_part_that_takes_too_long_leaves_its_figures_so_far(tmp_path: Path) -> None:
    code = 'import time; print(\'{"step_s": 1.5}\\n{"step_s": 1\', flush=True); time.sleep(99)'
    found = run_part(python(code), 5.0, tmp_path)
    assert (found["ended"], found["exit_code"], found["step_s"]) == (True, None, 1.5)


def test_parts_behind_a_spent_budget_are_skipped_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(tmp_path, deadline=0.0, dry=True)
    with Models(tmp_path, tmp_path, dry=True) as models:
        bench.run(Part("contract", ("none",), 60), models)
    assert [one.name for one in bench.skipped] == ["contract"]
    assert "contract: skipped: the time is spent" in capsys.readouterr().err
    assert bench.exit_code([]) == 3


def test_a_part_whose_package_is_missing_is_skipped_by_its_name(tmp_path: Path) -> None:
    bench = Bench(tmp_path, deadline=float("inf"), dry=True)
    with Models(tmp_path, tmp_path, dry=True) as models:
        bench.run(Part("x", ("none",), 60, needs=("json", "no_such_package")), models)
    assert [one.reason for one in bench.skipped] == ["no_such_package: not installed here"]


def test_a_model_that_cannot_be_written_fails_only_its_parts(tmp_path: Path) -> None:
    bench = Bench(tmp_path, deadline=float("inf"), dry=True)
    log = tmp_path / "zen-eco.log"
    with Models(tmp_path, tmp_path, dry=True) as models, log.open("w") as stderr:
        argv = python("raise SystemExit('disk full')")
        writer = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=stderr, text=True)
        models.writers["zen-eco"] = writer
        bench.run(Part("x", ("none",), 60, model="zen-eco"), models)
    assert "disk full" in bench.parts["x"]["error"]
    assert bench.exit_code([]) == 1


def test_a_wheel_is_imported_by_this_process_and_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "before")
    with zipfile.ZipFile(tmp_path / "brought-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("brought_here.py", "")
    (tmp_path / "broken.whl").write_bytes(b"no archive")
    assert bring(tmp_path, tmp_path / "place") == ["brought-1-py3-none-any.whl"]
    assert missing(["brought_here", "not_here"]) == ["not_here"]
    assert os.environ["PYTHONPATH"] == f"{tmp_path / 'place'}{os.pathsep}before"


def test_a_peak_above_a_graphics_card_of_8_gb_misses_its_target() -> None:
    for gib, met in ((7.4, True), (7.6, False)):
        parts = {"zen-eco grpo qlora ours": {"peak_device_bytes": gib * 2**30}}
        assert targets_met(figures(parts, dry=False)) == met


def test_steps_are_compared_with_those_of_the_same_kind() -> None:
    mine = {"step_s": 2.0, "peak_device_bytes": 3}
    parts = {"zen-eco grpo qlora ours": mine, "zen-nano grpo qlora trl": {"step_s": 1.0}}
    assert [case.unit for case in figures(parts, dry=False)] == ["GiB"]
    parts["zen-eco grpo qlora trl"] = {"step_s": 4.0, "peak_device_bytes": 6}
    ratios = [case.ratio for case in figures(parts, dry=False) if case.against == "trl"]
    assert ratios == [0.5, 0.5]


def test_every_kind_of_training_is_measured_with_and_without_trl() -> None:
    names = {part.name for part in parts(dry=False)}
    for model in ("zen-nano", "zen-eco"):
        for kind in ("sft lora", "sft qlora", "grpo qlora"):
            assert {f"{model} {kind} ours", f"{model} {kind} trl"} <= names


@pytest.mark.slow
def test_the_command_writes_what_its_parts_found(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "bench.gpu", "--dry", "--only", "machine", "--out", str(tmp_path)]
    subprocess.run(argv, check=True, cwd=source_tree.ROOT, stdout=subprocess.DEVNULL)
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert found["parts"]["machine"]["packages"]["torch"] != "absent"
    assert found["whole"]


@pytest.mark.nightly
@pytest.mark.timeout(2400)
def test_the_dry_way_measures_every_part(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "bench.gpu", "--dry", "--budget", "2300", "--out", str(tmp_path)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(argv, check=True, env=env, cwd=source_tree.ROOT, stdout=subprocess.DEVNULL)
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert {name for name, part in found["parts"].items() if part["exit_code"] != 0} == set()
    assert found["parts"]["contract"]["collected"] > 100
    assert all(case["ratio"] < 0.01 for case in found["cases"] if "first loss" in case["name"])
