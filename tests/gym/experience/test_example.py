"""The example of the docs: its commands run as they are printed, offline, on a stand-in."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gym.experience.conftest import Call

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/experience.md").read_text(encoding="utf-8")
BLOCK = re.findall(r"## Try it without a model.*?```sh\n(.*?)```", PAGE, re.DOTALL)[0]
FIRST, *COMMANDS = [shlex.split(line.partition(" # ")[0]) for line in BLOCK.splitlines()]


@pytest.fixture
def clerk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The stand-in at a port of its own, started as the page says; its address."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    assert (FIRST[0], FIRST[-1]) == ("python", "&")
    argv = [sys.executable, str(ROOT / FIRST[1]), FIRST[2], "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip().rpartition(" ")[2]
        server.terminate()


@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_every_command_of_the_page_runs(clerk: str, call: Call) -> None:
    answers = {}
    for program, *words in COMMANDS:
        assert program == "zoo-gym"
        moved = [word.replace("http://127.0.0.1:8099/v1", clerk) for word in words]
        result = call(*moved, "--json")
        assert result.code == 0, result.stderr
        answers[words[1]] = result.json
    assert answers["train"]["verdict"] == "proven"
    assert answers["infer"]["text"] == "shelf D"
    assert answers["replay"]["same"] is True
    assert Path("parcels/SKILL.md").is_file()
