"""Two processes with half the rows each, against one process with all of them."""

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.backends import reference
from tests.backends.ddp_worker import METHODS
from tests.backends.objectives_for_tests import GRPO
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lora", "full"])
def test_two_processes_gather_the_gradient_of_one(tied: Path, tmp_path: Path, method: str) -> None:
    out, port = tmp_path / "gradients.npz", str(free_port())
    command = [sys.executable, "-m", "tests.backends.ddp_worker", str(tied), method]
    workers = [
        subprocess.Popen([*command, str(rank), port, str(out)], cwd=ROOT) for rank in range(2)
    ]
    assert [worker.wait(timeout=240) for worker in workers] == [0, 0]
    alone = load_backend("cpu").load(tied, LoadSpec(train=METHODS[method], seed=1))
    alone.accumulate(GRPO, reference.example_batch(rows=8), key=0)
    assert reference.relative_error(dict(np.load(out)), dict(alone.gradients())) < 1e-6
