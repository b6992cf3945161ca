"""A killed program's private files go at the next start; a living one's stay."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.gym.files import new_file, new_folder

_WRITER = """
import os, signal, sys
from pathlib import Path
from zoo.gym.files import {kind}
with {kind}(Path(sys.argv[1])) as beside:
    (beside / "part" if {inside} else beside).write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_while_writing(
    path: Path, kind: str, *, reaped: bool
) -> tuple[subprocess.Popen[bytes], list[Path]]:
    """Kills a process in the middle of writing `path`, and returns it and what it left."""
    script = _WRITER.format(kind=kind, inside=kind == "new_folder")
    process = subprocess.Popen([sys.executable, "-c", script, str(path)])
    if reaped:
        process.wait()
    else:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return process, list(path.parent.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
@pytest.mark.parametrize("kind", ["new_file", "new_folder"])
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_what_a_killed_program_left_goes_when_the_next_file_is_written(
    tmp_path: Path, kind: str, reaped: bool
) -> None:
    process, [left] = killed_while_writing(tmp_path / "out", kind, reaped=reaped)
    assert left.suffix == ".tmp"
    with new_file(tmp_path / "other") as beside:
        beside.write_bytes(b"whole")
    assert [entry.name for entry in tmp_path.iterdir()] == ["other"]
    process.wait()


def test_a_file_that_a_living_program_writes_is_left_alone(tmp_path: Path) -> None:
    with new_folder(tmp_path / "slow") as slow:
        with new_file(tmp_path / "quick") as beside:
            beside.write_bytes(b"whole")
        assert slow.is_dir()
    assert {entry.name for entry in tmp_path.iterdir()} == {"quick", "slow"}


def test_files_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    for name in (".out.1a2b3c4d.tmp", "out.999999-1-0a0a0a0a.tmp", ".swap.tmp"):
        (tmp_path / name).touch()
    with new_file(tmp_path / "out") as beside:
        beside.touch()
    assert len(list(tmp_path.iterdir())) == 4
