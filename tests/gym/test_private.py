"""What lies in our folders is its owner's alone, whatever the umask; outputs are as any file."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gym.tui.fakes import rows_file
from zoo.gym import TrainConfig, run_training
from zoo.gym.cli.boundary import report_bugs
from zoo.gym.files import new_file, new_folder, write_beside
from zoo.gym.jobs import follow, launch, list_runs, open_run
from zoo.gym.jobs.run import create_run
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.train.planning.footprints import remember_peak

posix = pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
pytestmark = posix


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that is not made yet, under the usual umask, which lets others read."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "jobs"))
    before = os.umask(0o022)
    yield tmp_path / "home"
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """Everything in a folder, itself included, that somebody else may read, write or enter."""
    found = [folder, *folder.rglob("*")]
    assert len(found) > 5
    loose = [path for path in found if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    return [str(path.relative_to(folder)) for path in loose]


@pytest.mark.slow
def test_a_whole_run_leaves_nothing_that_others_can_read(home: Path, tmp_path: Path) -> None:
    config = TrainConfig(
        model_name_or_path="zen-pico",
        dataset=(str(rows_file(tmp_path)),),
        output_dir=str(tmp_path / "mine"),
        max_steps=2,
    )
    result = run_training(config)
    list_runs()
    open_run(result.run).control.request("pause")
    remember_peak(folders().cache / "footprints.json", "a", 1)
    report_bugs(ValueError, ValueError("a"), None)
    assert open_to_others(home) == []
    own = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "mine").iterdir()}
    assert own["adapter_config.json"] == 0o644
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o755


@pytest.mark.slow
def test_a_worker_leaves_nothing_that_others_can_read(home: Path) -> None:
    run = create_run("model_name_or_path: zen-pico\ndataset: [a]\n", {})
    launch(run, entry="entries:three")
    follow(run)
    assert run.worker_log.exists()
    assert open_to_others(home) == []


def test_folders_of_ours_that_were_left_open_are_closed(home: Path) -> None:
    folders().runs.mkdir(parents=True)
    home.chmod(0o755)
    ensure_folder(folders().runs)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (home, folders().data, folders().runs)]
    assert modes == [0o755, 0o700, 0o700]  # the home was there before us


def test_outputs_in_a_folder_of_ours_are_private_however_deep(home: Path) -> None:
    with new_folder(folders().data / "out") as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "a").write_text("a")
    with new_file(folders().data / "b") as file:
        file.write_text("b")
    write_beside(folders().data / "c", "c")
    assert open_to_others(home) == []
