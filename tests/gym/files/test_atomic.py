"""Where a new file or folder may stand, and what keeps a rename from Windows."""

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.cli import main
from zoo.gym.errors import InputError
from zoo.gym.files import atomic as disk
from zoo.gym.files import move_over, new_file, new_folder, remove_file, settle_inside, write_beside
from zoo.gym.train.result.output import check_output


def link(folder: Path) -> Path:
    (folder / "target").mkdir()
    (folder / "link").symlink_to("target")
    return folder / "link"


def loose_end(folder: Path) -> Path:
    (folder / "loose").symlink_to("nowhere")
    return folder / "loose"


def folder_with_files(folder: Path) -> Path:
    (folder / "full").mkdir()
    (folder / "full" / "a").touch()
    return folder / "full"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


ODD: list[tuple[Callable[[Path], Path], str]] = [
    (link, "got a symbolic link"),
    (loose_end, "got a symbolic link"),
    (folder_with_files, "expected"),
    (pipe, "expected"),
    (lambda _: Path(), "got nothing"),
    (lambda _: Path(), "got nothing"),
    (lambda _: Path("/dev/stdout"), "expected"),
]


@pytest.mark.parametrize("make", [new_file, new_folder])
@pytest.mark.parametrize(("odd", "said"), ODD)
def test_an_output_that_would_lose_something_is_refused_before_the_work(
    tmp_path: Path, make: Any, odd: Callable[[Path], Path], said: str
) -> None:
    path = odd(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=said), make(path):
        pytest.fail("the work began")
    assert sorted(tmp_path.rglob("*")) == before


def test_what_comes_to_a_place_during_the_work_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    work = new_folder(out)
    work.__enter__()
    out.mkdir()
    (out / "mine").touch()
    with raises("files.folder_not_empty"):
        work.__exit__(None, None, None)
    assert sorted(tmp_path.rglob("*")) == [out, out / "mine"]


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_new_folder_has_the_mode_of_the_empty_one_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o700)
    with new_folder(tmp_path / "out") as beside:
        (beside / "a").touch()
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert (tmp_path / "out" / "a").exists()


@pytest.mark.parametrize("odd", [link, loose_end, pipe])
def test_only_a_folder_is_replaced_by_one(tmp_path: Path, odd: Callable[[Path], Path]) -> None:
    path = odd(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with (
        pytest.raises(InputError, match="expected a folder or nothing, got"),
        new_folder(path, replace=True),
    ):
        pytest.fail("the work began")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "env.json"
    with raises("paths.storage", f"cannot write '{path}': no space left") as caught:
        write_beside(path, "{}", sync=True)
    assert caught.value.hint == "free some space on that disk"
    assert not list(tmp_path.iterdir())


def test_a_link_as_the_folder_of_a_result_is_refused(tmp_path: Path) -> None:
    with raises("files.symbolic_link") as caught:
        check_output(link(tmp_path))
    assert caught.value.hint == f"use its target: {tmp_path / 'target'}"


@pytest.mark.parametrize(
    "words",
    [
        ["delta", "create", "base", "--out", ""],
        ["delta", "apply", "d.safetensors", "--out", ""],
        ["train", "d.safetensors", "--model", "zen-pico", "--output_dir", ""],
    ],
)
def test_an_empty_output_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base").mkdir()
    Path("d.safetensors").touch()
    assert main(words) == 2
    assert f"{words[-2]}: expected " in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "d.safetensors"]


def test_only_files_are_opened_to_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a").touch()
    synced: list[Path] = []
    monkeypatch.setattr(disk, "sync_file", synced.append)
    settle_inside(tmp_path, keep_private=False)
    assert synced == [tmp_path / "deep" / "a"]


@pytest.mark.parametrize("act", ["move", "remove"])
def test_on_windows_a_file_that_a_reader_has_open_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    answers = iter([PermissionError, PermissionError, None])
    name = "replace" if act == "move" else "unlink"
    real = getattr(Path, name)

    def busy(self: Path, *rest: Any, **named: Any) -> Any:
        if answer := next(answers):
            raise answer
        return real(self, *rest, **named)

    monkeypatch.setattr(Path, name, busy)
    monkeypatch.setattr(disk, "_TRY_S", 0.0)
    monkeypatch.setattr(disk, "_TRIES", 3)
    monkeypatch.setattr(disk, "_IS_WINDOWS", True)
    if act == "move":
        move_over(tmp_path / "a", tmp_path / "b")
        assert (tmp_path / "b").read_text() == "new"
    else:
        remove_file(tmp_path / "b")
        assert not (tmp_path / "b").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is mapped")
def test_nothing_of_a_checkpoint_stays_mapped_behind_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.gym.tui.fakes import rows_file
    from zoo.gym import TrainConfig, run_training
    from zoo.gym.engine import open_engine
    from zoo.gym.train.loading import load_policy
    from zoo.gym.train.methods.sft import Supervised
    from zoo.gym.train.plan import Facts, make_plan
    from zoo.gym.train.progress import restore
    from zoo.models import pico_folder

    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    config = TrainConfig(
        model_name_or_path="zen-pico", dataset=(str(rows_file(tmp_path)),), max_steps=2
    )
    checkpoints = run_training(config).folder / "checkpoints"
    policy = load_policy(config, pico_folder(), open_engine("cpu"), threads=1)
    method = Supervised(policy, make_plan(config, Facts(1, 1, 1, 1, 0, 0)), (), (), tmp_path)
    assert restore(method, checkpoints)[0].step == 2
    assert str(checkpoints) not in Path("/proc/self/maps").read_text()
