"""A file of lines that a kill may interrupt: nothing is lost, mixed or written twice."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.errors import GymError
from zoo.gym.files.resumable import resumable

SETTINGS = {"model": "a", "seed": 0}


def write(path: Path, *lines: str, settings: dict[str, object] | None = None) -> None:
    with resumable(path, settings or dict(SETTINGS), {}) as file:
        for line in lines:
            file.append(line)


def interrupt(path: Path, *lines: str) -> None:
    """Writes lines, and fails as a killed process leaves them."""
    with suppress(KeyboardInterrupt), resumable(path, SETTINGS, {"date": "d"}) as file:
        for line in lines:
            file.append(line)
        raise KeyboardInterrupt


def test_the_file_has_its_name_when_all_lines_are_there(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    interrupt(path, '{"row": 1}')
    assert not path.exists()
    write(path, '{"row": 2}')
    assert path.read_text() == '{"row": 1}\n{"row": 2}\n'
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"a.jsonl", "a.jsonl.settings.json"}


@pytest.mark.parametrize("torn", ['{"row": 2', '{"row"', "\0\0\0\n", '{"row": 2}\n'[:-1], "3\n"])
def test_a_line_that_a_crash_has_cut_is_written_anew(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "a.jsonl"
    interrupt(path, '{"row": 1}')
    with (tmp_path / "a.jsonl.part").open("a") as file:
        file.write(torn)
    with resumable(path, SETTINGS, {}) as file:
        assert list(file.lines()) == [{"row": 1}]
        file.append('{"row": 2}')
    assert path.read_text() == '{"row": 1}\n{"row": 2}\n'


def test_lines_of_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    interrupt(path, '{"row": 1}')
    with raises("files.other_settings", "made with another seed: expected 0, got 1"):
        write(path, settings={**SETTINGS, "seed": 1})
    assert (tmp_path / "a.jsonl.part").read_text() == '{"row": 1}\n'


def test_settings_without_lines_may_change(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    interrupt(path)
    write(path, '{"row": 1}', settings={**SETTINGS, "seed": 1})
    assert path.read_text() == '{"row": 1}\n'


def test_a_file_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("")
    with raises("files.no_settings"):
        write(path, '{"row": 1}')
    assert path.read_text() == ""


def test_a_complete_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, '{"row": 1}')
    with resumable(path, SETTINGS, {}) as file:
        assert (file.is_complete, list(file.lines())) == (True, [{"row": 1}])


def test_the_notes_are_those_of_the_start(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    interrupt(path, '{"row": 1}')
    with resumable(path, SETTINGS, {"date": "later"}) as file:
        assert file.notes == {"date": "d"}


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with (
        resumable(path, SETTINGS, {}),
        pytest.raises(GymError, match="no other process that writes it"),
    ):
        write(path)
