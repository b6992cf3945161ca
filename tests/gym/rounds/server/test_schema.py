"""Requests that Schemathesis makes up from the server's own description of itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gym.rounds.server.world import World
from zoo.gym.rounds.server.config import Role


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "examples",
    [pytest.param(5, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.nightly)],
)
def test_answers_are_those_of_the_description(world: World, tmp_path: Path, examples: int) -> None:
    """A description cannot say that bytes have the digest in their name: those may be refused."""
    before = world.files()
    auth = f"Authorization: Bearer {world.server.tokens[Role.MAKER]}"
    words = ["run", f"{world.server.url}/openapi.json", "-H", auth, "--seed", "1", "--no-color"]
    words += ["--max-examples", str(examples), "--exclude-checks", "positive_data_acceptance"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("schemathesis")), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Tested: 5" in done.stdout
    assert world.files() == before
