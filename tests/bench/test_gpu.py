"""The command for a CUDA machine, as far as it can be tried without one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import gpu, source_tree
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


def test_a_tree_without_its_core_still_reads_models() -> None:
    argv = [sys.executable, "-c", WITHOUT_CORE, str(pico_folder())]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert int(done.stdout) == 821_632  # zen-pico, by its card


def test_the_built_core_is_used_where_it_is() -> None:
    assert source_tree.use_source_tree() is False


def test_cases_behind_a_spent_budget_are_skipped_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    found = gpu.measured({"contract": lambda _: {}, "ours": lambda _: {}}, 0.0)
    assert found == {"skipped": ["contract", "ours"], "failed": []}
    assert capsys.readouterr().err.count("skipped: the 0 s are spent") == 2


def test_a_case_that_fails_leaves_the_others_to_run() -> None:
    def broken(_: float) -> gpu.Case:
        raise subprocess.CalledProcessError(3, "x")

    found = gpu.measured({"plain": broken, "contract": lambda _: {"exit_code": 1}}, 60.0)
    assert found["failed"] == ["plain", "contract"]


def test_a_case_that_takes_too_long_counts_as_skipped() -> None:
    def endless(limit_s: float) -> gpu.Case:
        raise subprocess.TimeoutExpired("x", limit_s)

    assert gpu.measured({"ours": endless}, 60.0)["skipped"] == ["ours"]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_dry_way_measures_every_case(tmp_path: Path) -> None:
    out, env = tmp_path / "gpu.json", os.environ | {"OMP_NUM_THREADS": "1"}
    # without bf16 arithmetic, the plain step takes minutes
    argv = [sys.executable, "-m", "bench.gpu", "--dry", "--budget", "1400", "--out", str(out)]
    subprocess.run(argv, check=True, env=env, cwd=source_tree.ROOT, stdout=subprocess.DEVNULL)
    found = json.loads(out.read_text())
    assert (found["skipped"], found["failed"]) == ([], [])
    assert "tests collected" in found["contract"]["summary"]
    assert found["first_loss_difference"] < 0.01
    assert found["shared_update_ratio"] > 0
    assert found["group"]["notes"] == []
