"""The search with runs that only write events: a loss that their settings decide."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.codes import raises
from zoo.gym.cli import main
from zoo.gym.cli.train import load
from zoo.gym.files.lock import locked
from zoo.gym.jobs import Run, check_name, create_run, open_run, read_status, run_folders
from zoo.gym.jobs.identity import read_identity
from zoo.gym.tune import search as searching
from zoo.gym.tune import study
from zoo.gym.tune.search import Budget, Outcome, check_ends, check_reached, search
from zoo.gym.tune.space import Range, Value
from zoo.gym.tune.study import Plan, Trials, name_for, require_optuna, study_folder, write_recipe

RANGES = (Range("learning_rate", "float", 0.0, 1.0), Range("lora_rank", "choice", choices=(4, 8)))
FIXED = {"dataset": ["a.jsonl"], "model_name_or_path": "zen-pico"}
PLAN = Plan(RANGES, FIXED, "digest", "loss", "lower")


def loss_of(settings: Mapping[str, Any]) -> float:
    """The best learning rate is 0.25 and the best rank is 8; without them it is 0.5."""
    if settings.get("learning_rate") is None:
        return 0.5
    return float(abs(settings["learning_rate"] - 0.25) + (settings["lora_rank"] == 4))


def ends(run: Run, loss: float | None = None, **end: object) -> None:
    """Writes the events of a run of 4 steps."""
    stated = yaml.safe_load(run.config_file.read_text())
    final = loss_of(stated) if loss is None else loss
    run.events.emit("state", state="running")
    run.events.emit("plan", steps=4, decides="loss")
    for step in (2, 4):
        run.events.emit("eval", step=step, loss=final + 4 - step, best=True)
    metrics = {"steps": 4, "best_loss": final}
    run.events.emit("end", **{"state": "done", "exit_code": 0, "metrics": metrics} | end)


@pytest.fixture(autouse=True)
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Runs end as soon as they start; returns those that were started."""
    started: list[Run] = []

    def at_once(run: Run) -> int:
        started.append(run)
        ends(run)
        return 1

    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "my home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(searching, "launch", at_once)
    return started


def start(settings: Mapping[str, Value], _: str, /) -> Run:
    return create_run(yaml.safe_dump({**FIXED, **settings}), {})


def tried(
    count: int,
    *,
    plan: Plan = PLAN,
    start: Callable[..., Run] = start,
    deadline: float | None = None,
    name: str = "s",
) -> tuple[Trials, list[Outcome]]:
    seen: list[Outcome] = []
    trials = Trials(name, plan)
    search(trials, start, Budget(count, deadline), seen.append)
    return trials, seen


def test_the_budget_is_the_number_of_trials_beside_the_start(launch: list[Run]) -> None:
    trials, seen = tried(3)
    assert [outcome.number for outcome in seen] == [None, 0, 1, 2]
    assert len(trials.ended()) == 3
    assert len(launch) == 4


def test_each_trial_tries_other_values() -> None:
    trials, _ = tried(3)
    assert len({trial.params["learning_rate"] for trial in trials.ended()}) == 3


@pytest.mark.slow
def test_a_search_finds_what_is_better(launch: list[Run]) -> None:
    trials, _ = tried(25)
    best = trials.best()
    assert best is not None
    assert best.params["lora_rank"] == 8
    assert abs(best.params["learning_rate"] - 0.25) < 0.1


def test_values_are_drawn_as_the_ranges_say() -> None:
    import optuna

    study = optuna.create_study()
    ranges = (
        Range("learning_rate", "float", 1e-6, 1.0, log=True),
        Range("lora_rank", "int", 1, 1000, log=True),
        Range("weight_decay", "float", 0.0, 1.0),
    )
    drawn = [[each.suggest(trial) for each in ranges] for trial in (study.ask() for _ in range(9))]
    assert all(isinstance(rank, int) for _, rank, _ in drawn)
    logs = {key: each.log for key, each in study.trials[0].distributions.items()}  # type: ignore[attr-defined]
    assert logs == {"learning_rate": True, "lora_rank": True, "weight_decay": False}


def test_the_same_call_continues(launch: list[Run]) -> None:
    whole, _ = tried(8, name="whole")
    tried(5, name="parts")
    parts, seen = tried(8, name="parts")
    assert [outcome.number for outcome in seen] == [5, 6, 7]
    assert [t.params for t in parts.ended()] == [t.params for t in whole.ended()]
    assert [t.state for t in parts.ended()] == [t.state for t in whole.ended()]


def test_a_higher_figure_is_better_where_the_method_says_so() -> None:
    higher = Plan(RANGES, FIXED, "digest", "loss", "higher")
    trials, _ = tried(4, plan=higher)
    values = [trial.value for trial in trials.ended() if trial.value is not None]
    best = trials.best()
    assert best is not None
    assert best.value == max(values)


@pytest.mark.slow
def test_a_trial_that_is_worse_than_the_median_is_pruned(launch: list[Run]) -> None:
    _, seen = tried(20)
    pruned = [outcome for outcome in seen if outcome.state == "pruned"]
    done = [outcome.score for outcome in seen if outcome.state == "done"]
    assert pruned
    assert min(score for score in done if score is not None) < min(
        outcome.score for outcome in pruned if outcome.score is not None
    )


@pytest.mark.slow
def test_a_pruned_run_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on: it ends only when it is asked to."""
    slow: list[Run] = []

    def launch(run: Run) -> int:
        stated = yaml.safe_load(run.config_file.read_text())
        if stated.get("learning_rate", 0) <= 0.9 or len(run_folders()) < 8:
            ends(run, loss=0.1)
            return 1
        slow.append(run)
        run.events.emit("state", state="running")
        run.events.emit("plan", steps=4, decides="loss")
        run.events.emit("eval", step=2, loss=99.0, best=True)
        return 1

    def quiet(_: Run) -> None:
        """Asks no process."""

    def request(self: Any, word: str) -> None:
        assert word == "stop"
        slow[-1].events.emit("end", state="interrupted", exit_code=5, request="stop")

    monkeypatch.setattr(searching, "launch", launch)
    monkeypatch.setattr("zoo.gym.jobs.control.Control.request", request)
    monkeypatch.setattr(sys.modules["zoo.gym.jobs.follow"], "check_answers", quiet)
    _, seen = tried(30)
    assert slow
    assert {outcome.run for outcome in seen if outcome.state == "pruned"} >= {
        run.id for run in slow
    }


def test_a_failed_trial_is_left_out_and_three_end_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def launch(run: Run) -> int:
        stated = yaml.safe_load(run.config_file.read_text())
        failed = {"state": "failed", "exit_code": 1, "message": "diverged", "metrics": None}
        ends(run, **(failed if "lora_rank" in stated else {}))  # type: ignore[arg-type]
        return 1

    monkeypatch.setattr(searching, "launch", launch)
    with raises("tune.failed", "3 trials failed in a row"):
        tried(9)
    assert Trials("s", PLAN).best() is None


def test_a_first_run_that_is_killed_twice_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(run: Run) -> int:
        ends(run, state="interrupted", exit_code=5, metrics=None)
        return 1

    monkeypatch.setattr(searching, "launch", killed)
    monkeypatch.setattr(searching, "resume", killed)
    with raises("tune.failed", "the searched settings, ended as interrupted"):
        tried(1)


def test_without_held_out_rows_there_is_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(run: Run) -> int:
        ends(run, metrics={"steps": 4, "best_loss": None})
        return 1

    monkeypatch.setattr(searching, "launch", launch)
    with raises("tune.no_rows"):
        tried(1)


def test_a_setting_that_did_not_reach_its_run_is_an_error() -> None:
    def forgetful(settings: Mapping[str, Value], _: str, /) -> Run:
        return create_run(yaml.safe_dump({**FIXED, "lora_rank": 4, "learning_rate": 0.5}), {})

    with raises("tune.not_reached", "expected learning_rate"):
        tried(1, start=forgetful)


@pytest.mark.parametrize("value", [5e-05, 1.2345e-10, 4, True, "adamw"])
def test_a_setting_that_is_there_is_recognised_however_it_is_written(value: Value) -> None:
    run = create_run(yaml.safe_dump({"key": value}), {})
    check_reached(run, {"key": value})


def test_when_the_time_is_over_no_trial_begins(launch: list[Run]) -> None:
    tried(1)
    trials, seen = tried(9, deadline=time.monotonic())
    assert (seen, len(trials.ended()), len(launch)) == ([], 1, 2)


def test_a_trial_that_the_time_stops_is_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tried(1)

    def endless(run: Run) -> int:
        run.events.emit("state", state="running")
        return 1

    def request(self: Any, word: str) -> None:
        run_folders()[0].events.emit("end", state="interrupted", exit_code=5, request=word)

    def quiet(_: Run) -> None:
        """Asks no process."""

    with monkeypatch.context() as patch:
        patch.setattr(searching, "launch", endless)
        patch.setattr("zoo.gym.jobs.control.Control.request", request)
        patch.setattr(sys.modules["zoo.gym.jobs.follow"], "check_answers", quiet)
        trials, seen = tried(2, deadline=time.monotonic() + 0.3)
    assert (seen, len(trials.ended())) == ([], 1)
    monkeypatch.setattr(searching, "resume", ends)
    _, seen = tried(2)
    assert [(outcome.number, outcome.state) for outcome in seen] == [(1, "done")]
    assert len(run_folders()) == 3


@pytest.mark.parametrize(
    "other",
    [
        Plan(RANGES[:1], FIXED, "digest", "loss", "lower"),
        Plan(RANGES, FIXED | {"seed": 3}, "digest", "loss", "lower"),
        Plan(RANGES, FIXED, "other", "loss", "lower"),
    ],
    ids=["ranges", "settings", "data"],
)
def test_a_study_is_continued_by_the_same_search_alone(other: Plan) -> None:
    Trials("s", PLAN)
    with raises("tune.other_study", "study 's' exists with other"):
        Trials("s", other)


def test_the_recipe_has_all_that_was_given(tmp_path: Path) -> None:
    trials = Trials("s", PLAN)
    path = write_recipe(trials, {"learning_rate": 5e-05, "lora_rank": 8}, 0.25, "r0004")
    loaded = load((str(path),), (), {})
    assert loaded.config.learning_rate == 5e-05
    assert loaded.config.lora_rank == 8
    assert loaded.config.dataset == ("a.jsonl",)
    assert "r0004: held-out loss 0.25" in path.read_text()


@pytest.mark.parametrize("name", ["../up", "", "a/b", ".hidden", "2024", "_a", "x" * 59])
def test_a_name_that_is_no_folder_or_no_run_is_refused(name: str) -> None:
    with raises("tune.bad_name"):
        study_folder(name)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("/a/my rows.v2.jsonl", "my-rows"),
        ("2024-sums.jsonl", "sums"),
        ("x" * 99, "x" * 58),
        ("2024.csv", "study"),
    ],
)
def test_the_usual_name_is_that_of_the_data(data: str, name: str) -> None:
    assert name_for([data]) == name
    check_name(create_run("", {}), f"{name}-start")


def missing(_: str) -> None:
    """Finds no package."""


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "find_spec", missing)
    with raises("tune.missing_package") as caught:
        require_optuna()
    assert "tune" in str(caught.value.hint) or "optuna" in str(caught.value.hint)


def ends_of(*ranges: Range, more: tuple[str, ...] = ()) -> None:
    words = ("model=zen-pico", "dataset=a.jsonl", *more)
    check_ends(ranges, lambda ends: load((*words, *ends), (), {}))


def test_both_ends_are_checked_before_the_first_trial() -> None:
    ends_of(Range("learning_rate", "float", 1e-4, 1.0))
    with raises("config.invalid", r"learning_rate=2.0: expected at most 1, got 2"):
        ends_of(Range("learning_rate", "float", 1e-4, 2.0))
    with raises("config.invalid", "optim=magic: expected"):
        ends_of(Range("optim", "choice", choices=("adamw", "magic")))


def test_a_setting_without_effect_beside_the_others_is_refused() -> None:
    with raises("config.invalid", "lora_rank"):
        ends_of(Range("lora_rank", "int", 2, 8), more=("finetuning_type=full",))


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    lines = (f'{{"prompt": "{i}", "completion": "b{i}"}}\n' for i in range(30))
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    monkeypatch.setattr(sys, "stdin", StringIO(""))
    return "rows.jsonl"


def test_the_command_prints_the_best_and_its_recipe(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [rows, "model=zen-pico", "learning_rate=0.001..1", "lora_rank=4,8"]
    assert main(["tune", *words, "--trials", "4", "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out.splitlines()[-1])
    assert (answer["trials"], answer["study"], answer["decides"]) == (4, "rows", "loss")
    assert answer["score"] == pytest.approx(loss_of(answer["best"]))
    assert "learning_rate: 0.001 to 1, on a logarithmic scale" in err
    recipe = yaml.safe_load(Path(answer["recipe"]).read_text())
    (printed,) = (line for line in err.splitlines() if line.startswith("  zoo-gym train "))
    assert shlex.split(printed)[2] == answer["recipe"]
    assert recipe["dataset"] == [str(tmp_path / "rows.jsonl")]
    assert recipe.items() >= answer["best"].items()


def test_a_trial_that_is_better_than_the_start_is_the_best(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", rows, "--model", "zen-pico", "learning_rate=0.2..0.3", "lora_rank=8"]
    assert main([*words, "--trials", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    scores = [(read_status(run).metrics or {})["best_loss"] for run in run_folders()]
    assert answer["score"] == min(scores) < answer["start"] == 0.5
    assert yaml.safe_load(Path(answer["recipe"]).read_text()).items() >= answer["best"].items()


def test_a_start_that_is_the_best_is_written_with_all_its_settings(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.yaml").write_text("learning_rate: 0.25\nlora_rank: 8\n")
    words = ["tune", rows, "mine.yaml", "--model", "zen-pico", "learning_rate=0.5..1"]
    assert main([*words, "--trials", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (answer["best"], answer["score"]) == ({}, 0)
    recipe = yaml.safe_load(Path(answer["recipe"]).read_text())
    assert (recipe["learning_rate"], recipe["lora_rank"]) == (0.25, 8)


def test_last_is_the_run_of_the_user_and_not_a_trial(rows: str) -> None:
    command = ["tune", rows, "--model", "zen-pico", "lora_rank=4,8", "--trials", "1"]
    assert main(command) == 0
    assert [run.name for run in run_folders()] == ["rows-0000", "rows-start"]
    assert open_run("last").id == "r0002"  # there is no other
    own = create_run(yaml.safe_dump(FIXED), {})
    assert main([*command[:-1], "2"]) == 0
    assert run_folders()[0].name == "rows-0001"
    assert open_run("last").id == own.id


def test_the_model_of_the_option_is_trained(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", rows, "--model", "zen-pico", "lora_rank=4,8", "--trials", "1", "--json"]
    assert main(words) == 0
    stated = [yaml.safe_load(run.config_file.read_text()) for run in run_folders()]
    assert [each["model_name_or_path"] for each in stated] == ["zen-pico"] * 2
    recipe = json.loads(capsys.readouterr().out.splitlines()[-1])["recipe"]
    assert yaml.safe_load(Path(recipe).read_text())["model_name_or_path"] == "zen-pico"


def test_a_study_is_searched_by_one_process_at_a_time(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", rows, "model=zen-pico", "lora_rank=4,8", "--trials", "1"]
    study_folder("rows").mkdir(parents=True)
    with locked(study_folder("rows") / ".lock"):
        assert main(words) == 1
    assert "study 'rows' is being searched by another process" in capsys.readouterr().err
    assert not run_folders()
    assert main(words) == 0


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("--trials", "0"), "--trials: expected at least 1, got 0"),
        (("--minutes", "-1"), "--minutes: expected more than 0"),
    ],
)
def test_a_budget_of_nothing_is_refused(
    words: tuple[str, ...], refused: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "lora_rank=4,8", "model=zen-pico", *words]) == 2
    assert refused in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_search_goes_on_in_the_middle_of_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With real runs: the command and its worker are killed while the first trial trains."""
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows = (f'{{"prompt": "{i}", "completion": "b{i}"}}\n' for i in range(30))
    (tmp_path / "rows.jsonl").write_text("".join(rows))
    words = ["rows.jsonl", "model=zen-pico", "learning_rate=0.001..0.01", "max_steps=6"]
    command = ["tune", *words, "--trials", "1", "--json"]
    process = subprocess.Popen([sys.executable, "-m", "zoo.gym", *command])
    while (run := next((r for r in run_folders() if r.id == "r0002"), None)) is None or not (
        status := read_status(run)
    ).step:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    if status.live:
        worker = read_identity(run.identity_file)
        assert worker is not None
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)
    monkeypatch.setattr(sys, "stdin", StringIO(""))
    assert main(command) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(run_folders()) == 2
    assert answer["trials"] == 1
    assert read_status(run).state == "done"
    assert main(["train", answer["recipe"], "--json"]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert again["metrics"]["best_loss"] == answer["score"]
