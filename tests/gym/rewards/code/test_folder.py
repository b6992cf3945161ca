"""What a program may write, and that its folder is removed whatever is in it."""

import tempfile
from pathlib import Path

import pytest

from zoo.gym.rewards.code import sandbox
from zoo.gym.rewards.code.folder import MOST_FILES, MOST_WRITTEN_BYTES, excess, remove
from zoo.gym.rewards.code.sandbox import Limits, Program, run_program

LIMITS = Limits(timeout_s=4.0, memory_bytes=256_000_000)
TOO_LARGE = "it wrote more than 64 MB of files"
TOO_MANY = "it made more than 1000 files and folders"
DEEP = "import os\nfor _ in range({0}):\n    os.mkdir({1!r}); os.chdir({1!r})\n"
DELETED = """
import mmap, os, time
kept = []
for _ in range(5):
    with open("a", "wb+") as file:
        file.write(bytes(15_000_000))
        file.flush()
        os.remove("a")
        {}
time.sleep(20)
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if refused := run_program(Program("", ()), LIMITS).refused:
        pytest.skip(f"this system cannot confine a process: {refused}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (DEEP.format(1100, "d"), TOO_MANY),
        (DEEP.format(20, "d" * 250), "it made a folder that cannot be read: File name too long"),
        ("import os\nfor i in range(1001): os.symlink('/usr', str(i))", TOO_MANY),
        ("for i in range(5): open(str(i), 'wb').write(bytes(15_000_000))", TOO_LARGE),
        (DELETED.format("kept.append(os.dup(file.fileno()))"), TOO_LARGE),
        (DELETED.format("kept.append(mmap.mmap(file.fileno(), 4096))"), TOO_LARGE),
        (
            DELETED.format("m = mmap.mmap(file.fileno(), 4096); kept.append(m)")
            + "os.closerange(3, 64)",
            TOO_LARGE,
        ),
    ],
)
@pytest.mark.slow
def test_what_is_written_is_limited_and_removed(scratch: Path, code: str, why: str) -> None:
    outcome = run_program(Program(code, ("pass",)), LIMITS)
    assert (outcome.failures, outcome.problem) == ((), why)
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_a_deleted_file_within_the_limit_is_no_problem(scratch: Path) -> None:
    code = "import tempfile, time\nf = tempfile.TemporaryFile()\nf.write(bytes(10**7))\n"
    outcome = run_program(Program(code + "f.flush()\ntime.sleep(0.2)", ("f.close()",)), LIMITS)
    assert outcome.failures == (None,)


def test_a_system_that_does_not_show_open_files_refuses(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "is_observable", lambda pid: False)
    outcome = run_program(Program("", ("pass",)), LIMITS)
    assert outcome.failures == ()
    assert outcome.refused.endswith("does not list its open files")
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_a_folder_may_contain_as_much_as_the_limits_say(tmp_path: Path) -> None:
    for index in range(MOST_FILES - 1):
        (tmp_path / str(index)).symlink_to("nowhere")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_WRITTEN_BYTES - 10 * MOST_FILES)
    assert excess(tmp_path) == ""
    (tmp_path / "one more").mkdir()
    assert excess(tmp_path) == TOO_MANY


def test_folders_without_permissions_are_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_text("x")
    for place in (top / "a" / "b", top / "a"):
        place.chmod(0)
    remove(top)
    assert not top.exists()


def test_what_a_link_leads_to_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "kept" / "inner").mkdir(parents=True)
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "kept")
    remove(tmp_path / "top")
    assert [one.name for one in tmp_path.rglob("*")] == ["kept", "inner"]
