"""Workers on a cluster of Ray: one of them is killed, then the raylet, and no byte changes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.gym.rounds.work.test_divided import RULES, by_tasks, divided, whole
from zoo.gym.rounds.work.queue import Progress

pytest.importorskip("ray")

DRIVER = """
import sys
from zoo.gym.rounds.work.ray_crew import run_on_ray
run_on_ray("local", ["-m", "tests.gym.rounds.work.crew", *sys.argv[1:]], 2, 1)
"""


class Cluster:
    """A driver with two workers, which is started again when it is gone."""

    def __init__(self, queue: Path) -> None:
        self._words = [sys.executable, "-c", DRIVER, "sqlite", str(queue), "float", "2"]
        self.starts = 0
        self.start()

    def start(self) -> None:
        self.driver = subprocess.Popen(self._words, stderr=subprocess.DEVNULL)
        self.starts += 1

    def kill(self, words: str) -> bool:
        """Kills one process below the driver whose command has these words, if there is one."""
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.driver.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if words in " ".join(process.cmdline()):
                        process.kill()
                        return True
        return False

    def end(self) -> None:
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.driver.pid).children(recursive=True)
            self.driver.kill()
            for process in below:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self.driver.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path / "q.db")
    yield found
    found.end()


@pytest.mark.slow
def test_a_lost_worker_and_a_lost_raylet_change_no_byte(cluster: Cluster, tmp_path: Path) -> None:
    rule = RULES["default"]
    killed: set[str] = set()

    def disturb(kind: str, progress: Progress) -> None:
        if progress.done >= 1 and "worker" not in killed and cluster.kill("rounds.work.crew sq"):
            killed.add("worker")
        elif kind == "combine" and "raylet" not in killed and cluster.kill("raylet/raylet"):
            killed.add("raylet")
            cluster.end()
            cluster.start()

    engine = divided(tmp_path / "q.db", "float", columns=1, lease_s=2)
    engine = replace(engine, helps=False, watch=disturb)
    assert by_tasks(engine, "float", rule) == whole("float", rule)
    assert killed == {"worker", "raylet"}
    assert cluster.starts == 2
