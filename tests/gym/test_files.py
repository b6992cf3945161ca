"""Folders that appear whole or not at all."""

from pathlib import Path

from zoo.gym.files import new_folder


def test_what_a_kill_left_of_a_result_goes_with_the_next_writing(tmp_path: Path) -> None:
    (tmp_path / ".re[s].0123abcd.tmp").mkdir()
    (tmp_path / ".other.0123abcd.tmp").mkdir()
    with new_folder(tmp_path / "re[s]", replace=True) as folder:
        (folder / "weights").write_text("new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.0123abcd.tmp", "re[s]"]
