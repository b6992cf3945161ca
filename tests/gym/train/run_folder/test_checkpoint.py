import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.errors import StorageError
from zoo.gym.files import atomic
from zoo.gym.train.run_folder import checkpoint
from zoo.gym.train.run_folder.checkpoint import STAGES, find_checkpoint, write_checkpoint
from zoo.gym.train.run_folder.manifest import MANIFEST

KILLED_AT = """
import os, sys
from pathlib import Path
from zoo.gym.train.run_folder.checkpoint import write_checkpoint
def write(folder):
    (folder / "weights").write_bytes(b"new" * 1000)
    (folder / "sub").mkdir()
    (folder / "sub" / "optimizer").write_bytes(b"new")
def hook(stage):
    if stage == sys.argv[2]:
        os._exit(9)
write_checkpoint(Path(sys.argv[1]), int(sys.argv[3]), write, hook=hook)
"""


class Killed(BaseException):
    """Ends the writing as a kill does: nothing cleans up behind it."""


def write(content: str) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        (folder / "weights").write_text(content)
        (folder / "sub").mkdir()
        (folder / "sub" / "optimizer").write_text(content)

    return fill


def kill_at(stage: str) -> Callable[[str], None]:
    def hook(reached: str) -> None:
        if reached == stage:
            raise Killed

    return hook


def content_of(folder: Path | None) -> str | None:
    return (folder / "weights").read_text() if folder else None


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_is_a_folder_named_by_its_step(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 123, write("a"))
    assert folder == tmp_path / "step-00000123"
    assert names(folder) == [MANIFEST, "sub", "weights"]
    assert (tmp_path / "latest").read_text() == "step-00000123\n"
    assert find_checkpoint(tmp_path) == checkpoint.Found(folder, 123)


def test_a_folder_that_is_not_there_has_no_checkpoint(tmp_path: Path) -> None:
    assert find_checkpoint(tmp_path / "absent").folder is None


def test_two_are_kept_and_older_ones_go(tmp_path: Path) -> None:
    for step in (5, 6, 7):
        write_checkpoint(tmp_path, step, write(str(step)))
    assert names(tmp_path) == ["latest", "step-00000006", "step-00000007"]


def test_named_ones_stay_besides_whatever_their_step(tmp_path: Path) -> None:
    for step in (5, 8, 6, 7):
        write_checkpoint(tmp_path, step, write(str(step)), keep=1, also=(5, 8))
    assert names(tmp_path) == ["latest", "step-00000005", "step-00000007", "step-00000008"]


def test_checkpoints_of_a_course_that_was_given_up_go(tmp_path: Path) -> None:
    for step in (10, 20, 15):
        write_checkpoint(tmp_path, step, write(str(step)))
    assert names(tmp_path) == ["latest", "step-00000010", "step-00000015"]


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_writings_of_a_step_the_later_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    for name in ("step-00000001.old", "step-00000001"):
        write_checkpoint(tmp_path / "made", 1, write(name)).rename(tmp_path / name)

    def listed(folder: Path) -> dict[str, int]:
        return dict.fromkeys(["step-00000001", "step-00000001.old"][::order], 1)

    monkeypatch.setattr(checkpoint, "_step_folders", listed)
    assert content_of(find_checkpoint(tmp_path).folder) == "step-00000001"


def test_a_step_can_be_written_again_after_a_kill_left_its_older_writing(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, write("first"))
    with pytest.raises(Killed):
        write_checkpoint(tmp_path, 1, write("second"), hook=kill_at("renamed"))
    write_checkpoint(tmp_path, 1, write("third"))
    assert content_of(find_checkpoint(tmp_path).folder) == "third"
    assert names(tmp_path) == ["latest", "step-00000001"]


def test_what_is_not_a_checkpoint_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step, write("a"), keep=1)
    assert names(tmp_path) == ["best", "latest", "step-00000003"]


class Order(list[str]):
    """What happened to which file, in order; the syncs themselves are left out."""

    def file(self, path: Path) -> None:
        self.append(f"file {path.name}")

    def folder(self, path: Path) -> None:
        self.append(f"folder {path.name}")

    def pointer(self, path: Path, content: str, *, sync: bool) -> None:
        self.append(f"{path.name} {sync}")

    def watch(self, patch: pytest.MonkeyPatch, name: str) -> None:
        real: Callable[[Path, Path], Path] = getattr(Path, name)

        def watched(path: Path, to: Path) -> Path:
            self.append(name)
            return real(path, to)

        patch.setattr(Path, name, watched)


def test_bytes_reach_the_disk_before_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order()
    order.watch(monkeypatch, "rename")
    monkeypatch.setattr(checkpoint, "sync_file", order.file)
    monkeypatch.setattr(checkpoint, "sync_folder", order.folder)
    monkeypatch.setattr(checkpoint, "write_beside", order.pointer)
    write_checkpoint(tmp_path, 1, write("a"), hook=order.append)
    assert order[:4] == ["written", "file manifest.json", "file optimizer", "file weights"]
    assert order[4:7] == ["fsynced-files", "folder sub", "folder step-00000001.tmp"]
    assert order[7:10] == ["fsynced-folder", "rename", "renamed"]
    assert order[10:12] == [f"folder {tmp_path.name}", "fsynced-parent"]
    assert order[12:] == ["latest True", "pointed", "pruned"]


def test_the_pointer_reaches_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order()
    order.watch(monkeypatch, "replace")
    monkeypatch.setattr(atomic, "sync_file", order.file)
    monkeypatch.setattr(atomic, "sync_folder", order.folder)
    atomic.write_beside(tmp_path / "latest", "a", sync=True)
    written, named, folder = order
    assert (written.startswith("file .latest"), named) == (True, "replace")
    assert folder == f"folder {tmp_path.name}"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which file is synced")
def test_the_system_is_asked_for_syncs_and_names_in_that_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def sync(handle: int) -> None:
        order.append(Path(f"/proc/self/fd/{handle}").readlink().name)

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, renaming(order, getattr(os, name)))
    monkeypatch.setattr(os, "fsync", sync)
    write_checkpoint(tmp_path, 1, write("a"))
    files_first = ["manifest.json", "optimizer", "weights", "sub", "step-00000001.tmp"]
    written = next(name for name in order if name.startswith(f".latest.{os.getpid()}-"))
    pointer_last = [written, "-> latest", tmp_path.name]
    assert order == [*files_first, "-> step-00000001", tmp_path.name, *pointer_last]


def renaming(order: list[str], real: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    def rename(path: Path, to: Path) -> None:
        order.append(f"-> {Path(to).name}")
        real(path, to)

    return rename


def test_a_file_that_could_not_be_replaced_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, to: Path) -> Path:
        raise PermissionError

    (tmp_path / "latest").write_text("old")
    monkeypatch.setattr(Path, "replace", refuse)
    with raises("paths.storage", "latest"):
        atomic.write_beside(tmp_path / "latest", "new")
    assert names(tmp_path) == ["latest"]
    assert (tmp_path / "latest").read_text() == "old"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("step", [2, 1])  # a later step, and the same step written again
def test_a_kill_leaves_the_older_or_the_newer_whole(tmp_path: Path, stage: str, step: int) -> None:
    write_checkpoint(tmp_path, 1, write("old"))
    with pytest.raises(Killed):
        write_checkpoint(tmp_path, step, write("new"), hook=kill_at(stage))
    whole = content_of(find_checkpoint(tmp_path).folder)
    renamed = STAGES.index(stage) >= STAGES.index("renamed")
    pointed = STAGES.index(stage) >= STAGES.index("pointed")
    assert whole == ("new" if pointed or (renamed and step == 1) else "old")


@pytest.mark.parametrize("stage", STAGES)
def test_a_process_that_is_killed_leaves_a_whole_checkpoint(tmp_path: Path, stage: str) -> None:
    write_checkpoint(tmp_path, 1, write("old"))
    argv = [sys.executable, "-c", KILLED_AT, str(tmp_path), stage, "2"]
    assert subprocess.run(argv, check=False).returncode == 9
    found = find_checkpoint(tmp_path)
    assert (content_of(found.folder), found.warnings) in [("old", ()), ("new" * 1000, ())]


def test_a_kill_between_the_two_renames_of_a_step_written_again_keeps_the_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path, 1, write("old"))
    rename = Path.rename

    def killed(path: Path, to: Path) -> Path:
        if path.suffix == ".tmp":
            raise Killed
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(Killed):
        write_checkpoint(tmp_path, 1, write("new"))
    assert content_of(find_checkpoint(tmp_path).folder) == "old"


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_kill_left_behind_goes_with_the_next_checkpoint(tmp_path: Path, stage: str) -> None:
    write_checkpoint(tmp_path, 1, write("a"))
    for step in (1, 2):
        with pytest.raises(Killed):
            write_checkpoint(tmp_path, step, write("b"), hook=kill_at(stage))
    write_checkpoint(tmp_path, 3, write("c"), keep=1)
    assert names(tmp_path) == ["latest", "step-00000003"]


def test_a_pointer_that_a_kill_left_half_written_goes_with_the_next_checkpoint(
    tmp_path: Path,
) -> None:
    (tmp_path / ".latest.4194305-1-0a0a0a0a.tmp").write_text("step-0000")
    write_checkpoint(tmp_path, 2, write("b"))
    assert names(tmp_path) == ["latest", "step-00000002"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), ValueError()])
def test_a_failed_writing_leaves_the_last_good_one_and_no_stray(
    tmp_path: Path, error: Exception
) -> None:
    def fail(folder: Path) -> None:
        (folder / "weights").write_text("half")
        raise error

    write_checkpoint(tmp_path, 1, write("good"))
    before = names(tmp_path)
    with pytest.raises(StorageError if isinstance(error, OSError) else ValueError):
        write_checkpoint(tmp_path, 2, fail)
    assert names(tmp_path) == before
    assert content_of(find_checkpoint(tmp_path).folder) == "good"


def test_a_disk_that_fails_at_the_sync_leaves_no_stray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "sync_file", refuse)
    with raises("paths.storage", "no space left on device"):
        write_checkpoint(tmp_path, 2, write("a"))
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("weights", "x", "with other bytes"),
        ("weights", "xx", "with another size"),
        ("weights", None, "no file 'weights'"),
        (MANIFEST, None, "no manifest"),
        (MANIFEST, '{"v": 1, ', "an unreadable manifest"),
        (MANIFEST, "[]", "not of version 1 and step 2"),
    ],
)
def test_a_damaged_newest_is_passed_over_with_a_warning(
    tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    write_checkpoint(tmp_path, 1, write("a"))
    damaged = write_checkpoint(tmp_path, 2, write("b")) / name
    damaged.unlink() if content is None else damaged.write_text(content)
    found = find_checkpoint(tmp_path)
    assert (content_of(found.folder), found.step) == ("a", 1)
    (warning,) = found.warnings
    assert said in warning
    assert "step-00000002" in warning


def test_a_renamed_folder_is_not_another_steps_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, write("a")).rename(tmp_path / "step-00000009")
    assert find_checkpoint(tmp_path).folder is None


@pytest.mark.parametrize("pointer", [None, b"", b"step-00000007\n", b"\xff\xfe", b"../..\n"])
def test_without_a_good_pointer_the_newest_whole_one_is_found(
    tmp_path: Path, pointer: bytes | None
) -> None:
    for step in (1, 2):
        write_checkpoint(tmp_path, step, write(str(step)))
    (tmp_path / "latest").unlink()
    if pointer is not None:
        (tmp_path / "latest").write_bytes(pointer)
    assert content_of(find_checkpoint(tmp_path).folder) == "2"


def test_files_beside_the_listed_ones_do_no_harm(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 1, write("a"))
    (folder / ".DS_Store").write_text("x")
    assert find_checkpoint(tmp_path).folder == folder


@pytest.mark.parametrize(("step", "keep"), [(-1, 2), (1, 0)])
def test_a_negative_step_and_keeping_none_are_refused(tmp_path: Path, step: int, keep: int) -> None:
    with pytest.raises(ValueError, match="keep >= 1"):
        write_checkpoint(tmp_path, step, write("a"), keep=keep)


@pytest.mark.slow
def test_one_flipped_bit_anywhere_is_found_or_harmless(tmp_path: Path) -> None:
    folder, chosen = write_checkpoint(tmp_path, 1, write("abc")), random.Random(1)
    for path in [path for path in folder.rglob("*") if path.is_file()] * 40:
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[chosen.randrange(len(whole))] ^= 1 << chosen.randrange(8)
        path.write_bytes(flipped)
        assert find_checkpoint(tmp_path).folder in (
            [None] if path.name != MANIFEST else [None, folder]
        )
        path.write_bytes(whole)
    assert find_checkpoint(tmp_path).folder == folder


def test_checkpoints_can_be_moved_as_a_folder(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a", 1, write("x"))
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert content_of(find_checkpoint(tmp_path / "b").folder) == "x"


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_read_only_files_of_a_writer_are_brought_to_the_disk_too(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "weights").write_text("a")
        (folder / "weights").chmod(0o444)

    assert write_checkpoint(tmp_path, 1, fill) == find_checkpoint(tmp_path).folder
