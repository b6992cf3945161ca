"""Export from the app: the command, what it would write, and that it runs."""

import shlex
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.gym.tui.conftest import Drive, shows
from zoo.gym.errors import NotAvailableError
from zoo.gym.export.run import FORMATS
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs import export
from zoo.gym.tui.runs.export import TARGETS, ExportScreen


def test_every_format_is_offered() -> None:
    offered = {shlex.split(target.options)[1] for target in TARGETS}
    assert offered == set(FORMATS)


@pytest.mark.slow
def test_what_would_be_written_is_shown_before_the_command_runs(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ran = list[list[str]](), list[str]()

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, Any]:
        asked.append(words)
        if "lmstudio" in words:
            raise NotAvailableError("llama.cpp: not here", hint="pip install it")
        return {"path": "r0001-q8_0.gguf", "bytes": 1_646_080}

    monkeypatch.setattr(export, "ask_command", answer)
    monkeypatch.setattr(GymApp, "action_command", lambda _, words: ran.append(words))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.push_screen(ExportScreen("my run"))
        await shows(pilot, "zoo-gym export 'my run' --format ollama", "about 1.6 MB")
        assert asked[-1][-1] == "--dry-run"
        assert ran == []
        await pilot.press("down")
        await shows(pilot, "llama.cpp: not here", "pip install it")
        await pilot.press("down", "enter")
        words = ["export", "my run", "--format", "gguf", "--quantization", "q8_0", "--offline"]
        assert shlex.split(ran[0]) == words

    drive(visit, size=(120, 36))
