"""`kill -9` in a run on MLX: the resume ends in the bytes of a plain run."""

import json
import sys
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.gym.jobs.real_runs import Place
from tests.gym.jobs.warm import server

pytestmark = [
    pytest.mark.mlx,
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's"),
]
pytest.importorskip("mlx_lm", reason="MLX is not installed")


@pytest.fixture(scope="module")
def shared() -> ForkServerContext:
    return server()


def run(folder: Path, shared: ForkServerContext, stage: str, entry: str | None) -> Place:
    place = Place(folder, shared, stage)
    place.words = [*place.words, "backend=mlx"]
    place.train(entry)
    place.await_death()
    return place


@pytest.mark.nightly
@pytest.mark.parametrize("stage", ["sft", "dpo", "grpo"])
def test_a_killed_run_resumes_to_the_bytes_of_a_plain_one(
    stage: str, shared: ForkServerContext, tmp_path: Path
) -> None:
    whole = run(tmp_path / "whole", shared, stage, None)
    found = run(tmp_path / "killed", shared, stage, "renamed").outcome()
    assert (found.listed, found.torn) == ("interrupted", [])
    assert (found.state, found.weights) == ("done", whole.weights())
    env = json.loads((whole.run.folder / "env.json").read_text())
    assert env["device"] == "mlx"
