"""`zoo-gym round aggregate --ray`: the result of one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gym.cli.test_communities import Call, person, revealed

__all__ = ["person"]  # a fixture


@pytest.mark.slow
def test_a_result_that_a_cluster_computed_is_that_of_one_process(
    person: Call, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    revealed(person, "--method", "median")
    command = [sys.executable, "-m", "zoo.gym", "round", "aggregate", "--ray", "local", "--json"]
    env = os.environ | {"ZOO_GYM_HOME": str(tmp_path / "homes" / "maker")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])

    again = person("maker", "round", "aggregate", "--json")
    assert (again.code, again.json["digest"]) == (0, result["digest"]), again.stderr
    assert person("eve", "round", "verify", "round", "--json").json["passed"]
