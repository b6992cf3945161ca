"""`show_progress`: one line in a terminal, a display in a notebook, and IPython only there."""

import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from zoo.gym.jobs.events import Event, EventLog
from zoo.gym.published.live_progress import ShowProgress

EVENTS: list[Event] = [
    {"kind": "plan"},
    {"kind": "step", "step": 1, "steps": 2, "loss": 0.5},
    {"kind": "eval", "step": 1, "loss": 0.25},
    {"kind": "warn", "message": "few \x1b rows"},
    {"kind": "step", "step": 2, "steps": 2, "loss": 0.4},
    {"kind": "end", "state": "done"},
]


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def shown(events: list[Event]) -> None:
    show = ShowProgress()
    for event in events:
        show(event)


def test_a_terminal_has_one_line_that_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    shown(EVENTS)
    printed = [line.rpartition("\x1b[K")[2] for line in terminal.getvalue().split("\n")]
    warning, last = printed[0], printed[1]
    assert "few \\x1b rows" in warning
    assert last.startswith("step 2/2  loss 0.4")
    assert last.endswith("held-out 0.25")
    assert printed[2:] == [""]


def test_elsewhere_the_last_step_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    shown(EVENTS)
    assert [line[:8] for line in capsys.readouterr().err.splitlines()] == ["warning:", "step 2/2"]


@pytest.fixture
def displays(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What a notebook's displays have shown, each in order."""
    found: list[list[str]] = []

    def display(content: Any, **_: object) -> Any:
        texts = [content["text/plain"]]
        found.append(texts)

        def update(new: Any, **_: object) -> None:
            texts.append(new["text/plain"])

        return SimpleNamespace(update=update)

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return found


def test_a_notebook_has_a_display_for_each_run(displays: list[list[str]]) -> None:
    shown(EVENTS + EVENTS)
    assert len(displays) == 2
    assert displays[1][0] == "step 1/2  loss 0.5"
    assert displays[1][-1] == "step 2/2  loss 0.4  held-out 0.25"


def test_ipython_is_not_imported() -> None:
    code = "import sys; from zoo.gym import show_progress as s; s({'kind': 'end'}); "
    code += "assert 'IPython' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_log_calls_with_each_event_that_it_has_written(tmp_path: Path) -> None:
    log, seen = EventLog(tmp_path / "events.jsonl"), list[Event]()
    log.on_event = seen.append
    event = log.emit("step", step=1)
    assert seen == [event]
    assert log.path.read_text().count("\n") == 1


def test_a_test_model_and_the_answers_at_the_end_are_notes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers: Event = {"kind": "answers", "message": "0 of 10 learned prompts"}
    shown([{"kind": "plan", "model": "zen-pico"}, EVENTS[1], answers, EVENTS[-1]])
    notes = capsys.readouterr().err.splitlines()
    assert notes[0].startswith("zen-pico is a test model")
    assert notes[1] == "0 of 10 learned prompts"
