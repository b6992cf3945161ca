"""The same command in every process of a launcher: one of them starts a run, the others join it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.reference import relative_error
from tests.backends.test_launched import SECOND
from tests.codes import raises
from tests.gym.jobs.real_runs import Place
from tests.gym.jobs.test_processes import numbers, two_of, weights
from zoo.gym.cli import train
from zoo.gym.cli.boundary import run
from zoo.gym.config import TrainConfig
from zoo.gym.errors import InputError
from zoo.gym.jobs.crew import launched
from zoo.gym.jobs.crew.launched import first_of_launched, join_launched, other_process
from zoo.gym.jobs.run import Run
from zoo.gym.train.parallel.crew import connected


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECOND.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("second")
def test_only_commands_that_train_are_divided() -> None:
    assert other_process(["runs", "resume", "last"]) is not None
    assert other_process(["runs", "list"]) is None


@pytest.mark.usefixtures("second")
def test_the_second_process_creates_no_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched, "join_launched", lambda *_: 7)
    assert run(["train", "rows.jsonl"]) == 7
    assert not (home / "data" / "runs").exists()


@pytest.mark.usefixtures("second")
def test_a_process_without_the_run_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("zoo.backends.launched.announced", lambda _: "/nowhere/r0001")
    assert run(["train", "rows.jsonl"]) == 4
    assert "process 2 of 2: '/nowhere/r0001': expected the run folder" in capsys.readouterr().err


@pytest.mark.usefixtures("second")
def test_the_launcher_decides_the_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("{}")
    items = ("rows.jsonl", "model_name_or_path=zen-pico")
    loaded = train.load(items, (), {})
    assert (loaded.config.num_processes, loaded.origins["num_processes"]) == (2, "launcher")
    with raises("cli.other_processes", "expected 2, the processes of the launcher, got 4"):
        train.load((*items, "num_processes=4"), (), {})


@pytest.mark.usefixtures("second")
def test_a_script_is_not_run_by_every_process() -> None:
    from zoo.gym.published.api import run_training

    config = TrainConfig(model_name_or_path="zen-pico", dataset="rows.jsonl")
    with raises("published.launched"):
        run_training(config)


@pytest.mark.usefixtures("second")
def test_a_run_has_the_processes_that_it_began_with(run: Run) -> None:
    place = other_process(["train"])
    assert place is not None
    with raises("jobs.wrong_rank"):
        first_of_launched(run, place)
    crew = first_of_launched(run, type(place)(0, 2))
    for size in (1, 3):
        refusal = pytest.raises(InputError, match=f"the run has, {size}, got the 2 of the launcher")
        with refusal, connected(None, crew, size):  # type: ignore[arg-type]
            pass


@pytest.mark.usefixtures("second")
def test_a_command_that_starts_no_run_waits_for_none() -> None:
    place = other_process(["train"])
    assert place is not None
    assert join_launched(["train", "rows.jsonl", "--print-config"], place) == 0


@pytest.mark.nightly
def test_torchrun_trains_the_run_that_the_setting_does(tmp_path: Path) -> None:
    setting, launcher = (Place(tmp_path / name, stage="sft") for name in ("setting", "launcher"))
    setting.call(*two_of("sft"))
    words = [word for word in two_of("sft") if word != "num_processes=2"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    argv = [*torchrun, "--nproc-per-node", "2", "-m", "zoo.gym", *words]
    subprocess.run(argv, cwd=launcher.folder, env=launcher.env, check=True)
    assert numbers(launcher) == numbers(setting)
    assert relative_error(weights(launcher), weights(setting)) == 0
