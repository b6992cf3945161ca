"""`zoo-gym runs` over folders of which a file is damaged."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from zoo.gym.jobs import Run, create_run
from zoo.gym.jobs.identity import write_identity
from zoo.gym.processes import Identity

Call = Callable[..., Any]

DEEP = "[" * 100_000


@pytest.mark.slow
@pytest.mark.parametrize("content", [DEEP, "model: !!int ''", "a: b: c", "\ud800", "\0", None])
def test_a_run_with_damaged_settings_is_shown_as_far_as_it_goes(
    call: Call, done: Run, content: str | None
) -> None:
    done.config_file.unlink()
    if content is not None:
        done.config_file.write_text(content, errors="surrogatepass")
    found = call("runs", "show", "last", "--json")
    assert (found.code, found.json["state"]) == (2, "done")
    assert "config.yaml: " in found.stderr


@pytest.mark.parametrize(
    "words", [["show"], ["tail"], ["stop"], ["resume", "--detach"], ["pause", "--park"]]
)
@pytest.mark.parametrize("name", ["events.jsonl", "config.yaml", "env.json", "worker.json"])
@pytest.mark.parametrize("how", ["folder", "pipe", "deep"])
def test_no_damaged_file_ends_a_command_in_a_traceback(
    call: Call, monkeypatch: pytest.MonkeyPatch, words: list[str], name: str, how: str
) -> None:
    run = create_run("model_name_or_path: zen-pico\ndataset: [a.jsonl]\n", {})
    run.events.emit("end", state="interrupted", exit_code=5)
    write_identity(run.identity_file, Identity(2**22 + 1, 1.0))
    path = run.folder / name
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.write_text(DEEP)
    monkeypatch.setattr("zoo.gym.jobs.actions.launch", lambda *_, **__: None)
    found = call("runs", *words, "last")
    assert found.code in {0, 1, 2, 4}
    assert "Traceback" not in found.stderr + found.stdout
