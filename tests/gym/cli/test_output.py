"""Which stream words go to, and how figures are written."""

import os
import subprocess
import sys
from io import StringIO

import pytest

from zoo.gym.cli.boundary import show_warning
from zoo.gym.cli.ending import measured
from zoo.gym.cli.output import Output
from zoo.gym.cli.progress import Progress, note_lines
from zoo.gym.errors import GymWarning
from zoo.gym.humanize import duration, figure, human_bytes
from zoo.gym.jobs.lines import step_line


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_an_answer_leaves_stdout_to_json(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=True)
    out.answer("three runs")
    out.result({"runs": 3})
    assert capsys.readouterr() == ('{"runs": 3}\n', "three runs\n")


def test_without_json_only_answers_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output()
    out.say("looking")
    out.answer("three runs")
    out.result({"runs": 3})
    assert capsys.readouterr() == ("three runs\n", "looking\n")


def test_a_progress_line_rewrites_itself_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    out = Output()
    out.progress("step 1")
    out.progress("step 2")
    out.say("done")
    assert stream.getvalue() == "\r\x1b[Kstep 1\r\x1b[Kstep 2\ndone\n"


@pytest.mark.parametrize("term", ["dumb", None])
def test_a_dumb_terminal_gets_kept_lines_only(
    monkeypatch: pytest.MonkeyPatch, term: str | None
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", term) if term else monkeypatch.delenv("TERM", raising=False)
    out = Output()
    out.progress("step 1", keep=True)
    out.progress("step 2")
    assert stream.getvalue() == "step 1\n"


@pytest.mark.parametrize("name", ["NO_COLOR", "nothing"])
def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, "1")
    assert Output().colour is (name != "NO_COLOR")


def test_a_pipe_gets_about_twenty_of_a_thousand_steps(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(Output())
    for step in range(1, 1001):
        progress({"kind": "step", "step": step, "steps": 1000, "loss": 0.5})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21  # the first, and every fiftieth
    assert (lines[0], lines[-1]) == ("step 1/1000  loss 0.5", "step 1000/1000  loss 0.5")


def test_a_loss_that_is_no_number_is_reported_as_such() -> None:
    assert step_line({"kind": "step", "step": 1, "loss": None}) == "step 1/?  loss not a number"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_960, "1.0 MB"),
        (9e15, "9000.0 TB"),
    ],
)
def test_sizes_are_for_people(count: int, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.044, "0.04 s"),
        (0.001, "0.01 s"),
        (0, "0 s"),
        (3.2, "3 s"),
        (89, "89 s"),
        (360, "6 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_times_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_figures_have_four_digits() -> None:
    assert [figure(1.23456), figure(3), figure("a")] == ["1.235", "3", "a"]


def test_a_run_that_waits_for_a_device_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"kind": "state", "state": "queued", "message": "waiting for cpu", "hint": "stop it"}
    progress = Progress(Output())
    progress({"kind": "state", "state": "queued"})
    progress(told)
    assert capsys.readouterr().err == "waiting for cpu\nhint: stop it\n"


def test_a_run_that_waited_says_when_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(Output())
    progress({"kind": "state", "state": "queued", "message": "waiting for cpu"})
    for _ in range(2):
        progress({"kind": "state", "state": "running"})
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["waiting for cpu", "the device is free: the run is now running"]


def test_the_memory_of_python_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    memory = {"weights": 2 * 10**9, "adapter": 0, "reserve": 8 * 10**8, "total": 28 * 10**8}
    Progress(Output())({"kind": "plan", "steps": 3, "memory": memory})
    line = "  memory 2.80 GB: weights 2, Python and libraries 0.8"
    assert line in capsys.readouterr().err.splitlines()


def test_what_takes_time_before_the_first_step_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(Output())
    for event in ({"state": "queued"}, {"state": "running"}, {"state": "paused"}):
        progress({"kind": "state", **event})
    progress({"kind": "state", "state": "running"})
    progress({"kind": "plan", "steps": 3, "rows": 0, "model": "zen-pico"})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "loading the libraries and reading the data"
    assert (lines[1][:4], lines[-2]) == ("0 ro", "loading zen-pico")


def test_losses_without_held_out_rows_were_not_measured() -> None:
    assert dict(measured({"base_loss": None, "evaluation_rows": 0})) == {
        "held-out loss before training": "not measured",
        "held-out rows": "0",
    }
    found = dict(measured({"best_loss": None, "evaluation_rows": 2}))
    assert found["best held-out loss"] == "not a number"


def test_the_figures_of_a_result_have_names_and_units() -> None:
    figures: dict[str, object] = {"tokens": 76800, "best_accuracy": 0.75, "training_s": 200.0}
    figures |= {"evaluation_rows": 3, "peak_host_bytes": 812_000_000, "peak_device_bytes": 0}
    assert dict(measured(figures)) == {
        "tokens": "76,800",
        "best held-out accuracy": "0.75",
        "time of training": "3 min",
        "held-out rows": "3",
        "peak memory": "812.0 MB",
    }


def test_an_accuracy_without_margins_says_that_they_are_all_0() -> None:
    figures = {"base_accuracy": 0.0, "best_accuracy": 0.0, "evaluation_rows": 3}
    tied = dict(measured({"base_tied": True, **figures}))
    said = "held-out accuracy before training"
    assert tied[said] == "0, as the margins are all 0 before training"
    assert dict(measured(figures)) == tied | {said: "0"}


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"accuracy": 0.0, "margin": 0.0}, "accuracy 0  margin 0  (the margins are all 0)"),
        ({"accuracy": 0.0, "margin": -0.5}, "accuracy 0  margin -0.5"),
        ({"accuracy": 0.0}, "accuracy 0"),
    ],
)
def test_an_evaluation_without_margins_says_so(
    capsys: pytest.CaptureFixture[str], metrics: dict[str, float], said: str
) -> None:
    Progress(Output())({"kind": "eval", "step": 0, "metrics": metrics})
    assert capsys.readouterr().err == f"held-out rows before training: {said}\n"


def test_a_warning_of_ours_is_said_once() -> None:
    stream = StringIO()
    for text in ("one", "two", "one"):
        show_warning(text, GymWarning, "a.py", 1, stream)
    assert stream.getvalue() == "warning: one\nwarning: two\n"


def test_metrics_follow_the_loss(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(Output())
    progress({"kind": "eval", "step": 0, "loss": 0.5, "metrics": {"accuracy": 0.25, "odd": "x"}})
    progress({"kind": "step", "step": 1, "steps": 2, "loss": 2.0, "metrics": {"margin": 0.125}})
    assert capsys.readouterr().err.splitlines() == [
        "held-out loss before training: 0.5  accuracy 0.25",
        "step 1/2  loss 2  margin 0.125  held-out 0.5  accuracy 0.25 before training",
    ]


def emitted(progress: Progress, *events: tuple[str, int]) -> None:
    for kind, step in events:
        progress({"kind": kind, "step": step, "steps": 4, "loss": step / 8})


EVALUATED = (("eval", 0), ("step", 1), ("eval", 1), ("step", 2), ("step", 3), ("step", 4))


def test_the_newest_evaluation_follows_with_its_step(capsys: pytest.CaptureFixture[str]) -> None:
    emitted(Progress(Output()), *EVALUATED, ("eval", 4))
    assert capsys.readouterr().err.splitlines() == [
        "held-out loss before training: 0",
        "step 1/4  loss 0.125  held-out 0 before training",
        "step 2/4  loss 0.25  held-out 0.125 at step 1",
        "step 3/4  loss 0.375  held-out 0.125 at step 1",
        "step 4/4  loss 0.5  held-out 0.5 at step 4",
    ]


def test_a_terminal_shows_an_evaluation_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    emitted(Progress(Output()), ("step", 3), ("eval", 3))
    assert stream.getvalue().endswith("step 3/4  loss 0.375  held-out 0.375 at step 3")


def test_the_evaluation_of_a_discarded_step_is_not_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emitted(Progress(Output()), ("step", 3), ("eval", 3), ("step", 2))
    assert capsys.readouterr().err.splitlines()[-1] == "step 2/4  loss 0.25"


def test_a_log_has_a_line_for_each_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    emitted(Progress(Output(), as_log=True), *EVALUATED[:3])
    assert capsys.readouterr().out.splitlines() == [
        "held-out loss before training: 0",
        "step 1/4  loss 0.125  held-out 0 before training",
        "held-out loss at step 1: 0.125",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["train", "--help"], ["models"], ["delta"]]
)
def test_a_reader_that_has_left_ends_a_command_without_a_word(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "zoo.gym", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_start_of_a_run_counts_the_rows_that_are_left_out() -> None:
    plan = {"kind": "plan", "rows": 1, "held_out_rows": 6, "truncated_rows": 0, "cutoff_len": 9}
    first, *_ = note_lines(plan | {"left_out_rows": 4})
    assert first == "1 row to learn, 6 held out, 4 left out; 0 cut at 9 tokens"
    assert "left out" not in next(iter(note_lines(plan)))
