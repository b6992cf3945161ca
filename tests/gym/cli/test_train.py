"""`zoo-gym train` up to the worker, which a fake stands for: only its events are written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gym.cli.conftest import DONE
from zoo.gym.jobs import Run, run_folders

Call = Callable[..., Any]


@pytest.mark.slow
def test_a_run_that_is_done_reports_where_its_model_is(
    call: Call, worker: Call, base: Path, rows: Path
) -> None:
    worker(**DONE)
    found = call("train", str(rows), "--model", str(base), "--json")
    [run] = run_folders()
    assert found.code == 0
    assert found.json == {
        "run": "r0001",
        "state": "done",
        "folder": str(run.folder),
        "model": "/m",
        "metrics": {"best_loss": 0.4},
    }


@pytest.mark.slow
def test_only_the_result_goes_to_stdout(call: Call, worker: Call, base: Path, rows: Path) -> None:
    worker(**DONE)
    found = call("train", str(rows), "--model", str(base))
    assert found.stdout == "run r0001 is done: /m\n"
    told = found.stderr.splitlines()
    assert "  learning_rate = 0.002: lora on 0.8 M parameters" in told
    assert "held-out loss before training: 0.9" in told
    assert "step 1/1  loss 0.5  1,200 tokens/s  held-out 0.4 at step 1" in told
    assert "warning: line 3 is left out" in told


ENDS = [
    ({"state": "failed", "exit_code": 2, "message": "my.jsonl: empty"}, 2, "my.jsonl: empty"),
    ({"state": "failed", "exit_code": 3, "message": "too big"}, 3, "too big"),
    (
        {"state": "interrupted", "exit_code": 5, "message": "stopped at step 1", "request": "stop"},
        5,
        "run 'r0001' was stopped at step 1",
    ),
    (
        {"state": "interrupted", "exit_code": 5, "message": "the worker is gone"},
        5,
        "run 'r0001' was interrupted: the worker is gone",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", ENDS, ids=lambda case: f"exit {case[1]}")
def test_the_exit_code_is_the_worker_s(
    call: Call, worker: Call, base: Path, rows: Path, case: tuple[Any, int, str]
) -> None:
    end, code, start = case
    worker(**end)
    found = call("train", str(rows), "--model", str(base), "--json")
    assert (found.code, found.json["state"]) == (
        code,
        "stopped" if "request" in end else end["state"],
    )
    assert found.json["error"]["exit_code"] == code
    assert found.json["error"]["message"].startswith(start)


@pytest.mark.slow
@pytest.mark.parametrize("state", ["failed", "interrupted"])
def test_the_code_of_the_error_is_the_worker_s(
    call: Call, worker: Call, base: Path, rows: Path, state: str
) -> None:
    worker(state=state, exit_code=2, message="my.jsonl: empty file", code="data.empty_file")
    found = call("train", str(rows), "--model", str(base), "--json")
    assert found.json["error"]["code"] == "data.empty_file"


@pytest.mark.slow
def test_two_runs_are_not_detached(call: Call, base: Path, rows: Path) -> None:
    rows.write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    words = ("--model", str(base), "--stage", "grpo", "--detach", "--json")
    found = call("train", str(rows), *words)
    assert (found.code, found.json["error"]["code"]) == (2, "cli.two_runs")
    assert run_folders() == []


@pytest.mark.slow
def test_a_detached_run_continues_in_the_background(
    call: Call, worker: Call, base: Path, rows: Path
) -> None:
    worker()
    found = call("train", str(rows), "--model", str(base), "--detach", "--json")
    assert (found.code, found.json["run"], found.json["model"]) == (0, "r0001", None)


@pytest.mark.slow
def test_the_stored_settings_hold_in_another_folder_and_on_another_day(
    call: Call, worker: Call, base: Path, rows: Path
) -> None:
    worker(**DONE)
    call("train", "my.jsonl", "--model", "./base", "--output_dir", "out", "seed=7")
    [run] = run_folders()
    stored = yaml.safe_load(run.config_file.read_text())
    assert stored["model_name_or_path"] == str(base)
    assert stored["dataset"] == [str(rows)]
    assert stored["output_dir"] == str(rows.parent / "out")
    assert (stored["seed"], len(stored["date"])) == (7, 10)


@pytest.mark.slow
def test_a_run_remembers_what_it_was_made_with(
    call: Call, worker: Call, base: Path, rows: Path
) -> None:
    worker(**DONE)
    found = call("train", "my.jsonl", "--model", str(base), "--template", "qwen3")
    env = json.loads(run_folders()[0].env_file.read_text())
    assert env["model"] == {"id": "base", "revision": None, "folder": str(base)}
    assert env["without_effect"][0]["key"] == "template"
    assert "without effect: template (flag)" in found.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "reported"),
    [
        (None, "zen-pico has a chat template that prints no date"),
        ("{{ strftime_now('%d %b %Y') }}{{ messages[-1].content }}", None),
        ("{{ messages[-1].content }}", "base has a chat template that prints no date"),
        ("", "base has no chat template"),
    ],
)
def test_a_date_that_the_template_does_not_print_is_reported(
    call: Call,
    worker: Call,
    base: Path,
    rows: Path,
    byte_tokenizer: Callable[..., Any],
    template: str | None,
    reported: str | None,
) -> None:
    worker(**DONE)
    model = "zen-pico" if template is None else str(base)
    if template is not None:
        byte_tokenizer(template or None).save_pretrained(base)
    found = call("train", str(rows), "--model", model, "date=2024-07-26")
    assert ("without effect: date (key=value)" in found.stderr) == (reported is not None)
    assert (reported or "") in found.stderr
    assert "without effect" not in call("train", str(rows), "--model", model).stderr


@pytest.mark.slow
def test_ctrl_c_before_a_run_exists_is_130(
    call: Call, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo.gym.cli.train.resolve_models", pressed)
    found = call("train", str(rows), "--model", "zen-pico", "--json")
    assert (found.code, found.json["error"]["message"]) == (130, "stopped by Ctrl-C")
    assert run_folders() == []


@pytest.mark.slow
def test_ctrl_c_while_a_run_starts_stops_it(
    call: Call, base: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(_: Run) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo.gym.cli.train.launch", pressed)
    found = call("train", str(rows), "--model", str(base))
    assert found.code == 5
    assert run_folders()[0].control.pending() == "stop"


@pytest.mark.slow
def test_a_model_that_is_not_here_leaves_no_run(call: Call, rows: Path) -> None:
    found = call("train", str(rows), "--model", "zen-nano", "--offline")
    assert found.code == 4
    assert "model 'Qwen/Qwen3-0.6B' is not on this machine" in found.stderr
    assert run_folders() == []


@pytest.mark.slow
def test_a_model_of_pickles_only_is_refused(call: Call, rows: Path, base: Path) -> None:
    (base / "model.safetensors").rename(base / "pytorch_model.bin")
    found = call("train", str(rows), "--model", str(base))
    assert found.code == 2
    assert "pytorch_model.bin" in found.stderr


BAD_DATA = [
    ("", "my.jsonl: empty file"),
    ('{"prompt": "a", "comp', "my.jsonl:1: truncated JSON"),
    ('{"messages": [{"role": "user", "content": "a"}]}', "my.jsonl:1: no assistant turn"),
    ("\x00\x01\x02", "my.jsonl: not text"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "start"), BAD_DATA)
def test_bad_data_is_reported_before_a_run_exists(
    call: Call, base: Path, rows: Path, text: str, start: str
) -> None:
    rows.write_text(text)
    found = call("train", "my.jsonl", "--model", str(base))
    assert found.code == 2
    assert f"\nzoo-gym: error: {start}" in found.stderr
    assert run_folders() == []


@pytest.mark.slow
def test_an_unwritable_home_is_reported(
    call: Call, rows: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rows.parent / "file").touch()
    monkeypatch.setenv("ZOO_GYM_HOME", str(rows.parent / "file" / "home"))
    found = call("train", str(rows), "--model", str(base))
    assert found.code == 1
    assert "\nzoo-gym: error: cannot write '" in found.stderr
