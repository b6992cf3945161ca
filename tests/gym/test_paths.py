import errno
import os
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.paths import ensure_folder, folders, storage_error


def test_the_home_variable_overrides_all_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    found = folders()
    assert (found.config, found.data) == (tmp_path / "config", tmp_path / "data")
    assert (found.cache, found.log) == (tmp_path / "cache", tmp_path / "log")
    assert found.runs == tmp_path / "data" / "runs"


def test_a_relative_home_does_not_move_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", "here")
    monkeypatch.chdir(tmp_path)
    found = folders()
    monkeypatch.chdir("/")
    assert found.data == tmp_path / "here" / "data"


def test_a_tilde_is_the_users_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", "~/gym")
    assert folders().cache == Path.home() / "gym" / "cache"


def test_a_home_of_an_unknown_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", "~no-such-user/gym")
    with raises("paths.unknown_home"):
        folders()


@pytest.mark.parametrize("value", [None, ""])
def test_without_the_variable_the_platforms_folders_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("ZOO_GYM_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("ZOO_GYM_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert "zoo-gym" in folders().data.parts
    assert len({folders().config, folders().data, folders().cache}) == 3


@pytest.mark.skipif(os.name == "nt", reason="XDG is not for Windows")
def test_xdg_variables_are_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOO_GYM_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    assert folders().config == tmp_path / "c" / "zoo-gym"


def test_asking_for_folders_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    folders()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    assert ensure_folder(tmp_path / "a" / "b").is_dir()
    assert ensure_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"


@pytest.mark.parametrize("below", ["file", "file/below"])
def test_a_file_in_the_way_is_a_storage_error(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with raises("paths.storage", f"cannot write '{tmp_path / below}': "):
        ensure_folder(tmp_path / below)


def test_a_folder_without_write_permission_is_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", refuse)
    with raises("paths.storage", "permission denied"):
        ensure_folder(tmp_path)


def test_the_home_s_variable_is_named_for_what_is_in_the_home_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    refusal = PermissionError(errno.EACCES, "Permission denied")
    hints = [storage_error(refusal, tmp_path / name).hint for name in ("home/data/runs", "out")]
    told = "choose a folder that you may write"
    assert hints == [f"{told}: ZOO_GYM_HOME=FOLDER", told]


def test_a_full_disk_is_told_as_such() -> None:
    error = storage_error(OSError(errno.ENOSPC, "No space left on device"), Path("/a"))
    assert error.message == "cannot write '/a': no space left on device"
    assert error.hint == "free some space on that disk"


def test_what_cannot_be_read_is_no_lack_of_space() -> None:
    large = storage_error(OSError(errno.EFBIG, "larger than 5 bytes"), Path("/a"), verb="read")
    assert (large.message, large.hint) == ("cannot read '/a': larger than 5 bytes", None)
    denied = storage_error(
        PermissionError(errno.EACCES, "Permission denied"), Path("/a"), verb="read"
    )
    assert denied.hint == "whoever owns it can let you read it"


def test_a_home_that_is_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").touch()
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    with raises("paths.no_folder", "ZOO_GYM_HOME: expected a folder or nothing, got the file"):
        folders()
