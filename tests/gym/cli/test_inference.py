"""`zoo-gym inference`: a line to each row, whatever happens meanwhile."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gym.delta.lora import write_random_adapter
from zoo.gym import create_delta
from zoo.gym.chat.answer_lines import digest_of
from zoo.gym.variants import store
from zoo.models import pico_folder, resolve

Call = Callable[..., Any]

PROMPTS = ["reverse: cat", "Say hi", "abc"]


def write_rows(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def ask(call: Call, tmp_path: Path) -> Call:
    """Answers a file of prompts with zen-pico."""
    write_rows(tmp_path / "my.jsonl", *({"prompt": text} for text in PROMPTS))

    def run(*options: str) -> Any:
        words = () if "--max_new_tokens" in options else ("--max_new_tokens", "8")
        return call("inference", "my.jsonl", "--model", "zen-pico", *words, *options)

    return run


def test_answers_are_those_of_chat(ask: Call, call: Call) -> None:
    found = ask("--json")
    assert found.code == 0, found.stderr
    chat = call("chat", "--model", "zen-pico", "--max_new_tokens", "8", stdin="\n".join(PROMPTS))
    lines = lines_of(Path("my.answers.jsonl"))
    assert [line["answer"] for line in lines] == chat.stdout.splitlines()
    assert [line["row"] for line in lines] == [1, 2, 3]
    keys = ("prompt_tokens", "completion_tokens")
    totals = {key: sum(line[key] for line in lines) for key in keys}
    cut = sum(line["finish"] == "length" for line in lines)
    figures = {"rows": 3, "errors": 0, "cut": cut, **totals}
    assert found.json == {"file": "my.answers.jsonl", **figures}


def test_a_stored_variant_is_a_model(call: Call, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "my.jsonl", {"prompt": "abc"})
    adapter = write_random_adapter(tmp_path / "lora")
    delta = create_delta(adapter, base=pico_folder(), out=tmp_path / "ann.safetensors").file
    store.put(delta, resolve("zen-pico", offline=True), "ann")
    answers = []
    for number, model in enumerate((["--model", "zen-pico:ann"], ["--delta", str(delta)])):
        out = tmp_path / f"{number}.jsonl"
        found = call("inference", str(rows), *model, "--out", str(out), "--max_new_tokens", "8")
        assert found.code == 0, found.stderr
        answers.append(lines_of(out)[0]["answer"])
    assert answers[0] == answers[1] != ""
    assert call("chat", "--model", "zen-pico:eve", stdin="abc").code == 4


def test_rows_without_an_answer_are_counted(ask: Call, tmp_path: Path) -> None:
    rows = [{"prompt": "a", "answer": 5}, {"prompt": ""}, {"prompt": "y" * 600}]
    write_rows(tmp_path / "my.jsonl", *rows)
    found = ask()
    assert (found.code, "2 rows could not be answered" in found.stderr) == (0, True)
    lines = lines_of(tmp_path / "my.answers.jsonl")
    assert ["error" in line for line in lines] == [False, True, True]
    assert lines[0]["reference"] == 5


def test_a_complete_file_is_not_answered_again(ask: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ask("--json").json
    monkeypatch.setattr("zoo.gym.chat.open_chat", None)  # no model is loaded
    assert ask("--json").json == first


CHANGES: dict[str, tuple[list[str], str]] = {
    "max_new_tokens": (["--max_new_tokens", "9"], "expected 8, got 9"),
    "temperature": (["--temperature", "1"], "expected null, got 1.0"),
    "top_p": (["--top_p", ".5"], "expected null, got 0.5"),
    "seed": (["--seed", "1"], "expected 0, got 1"),
    "system": (["--system", "Be brief."], 'expected "", got "Be brief."'),
    "template": (["--template", "chatml"], "expected null, got"),
}


def test_another_setting_is_refused(ask: Call) -> None:
    ask("--out", "a.jsonl")
    for key, (options, said) in CHANGES.items():
        found = ask("--out", "a.jsonl", *options)
        assert found.code == 2
        assert f"another {key}: {said}" in found.stderr


def test_another_file_of_the_same_name_is_refused(ask: Call, tmp_path: Path) -> None:
    ask("--out", "a.jsonl")
    write_rows(tmp_path / "my.jsonl", {"prompt": "another"})
    assert "lines were made with another file" in ask("--out", "a.jsonl").stderr


def test_the_files_of_a_model_identify_it(base: Path) -> None:
    before = digest_of(base)
    (base / "README.md").write_text("about it")
    assert digest_of(base) == before
    (base / "generation_config.json").write_text("{}")
    assert digest_of(base) != before


REFUSED = [
    (["my.jsonl"], 2, "inference: expected --model, --run, --adapter_name_or_path or --delta"),
    (["--model", "zen-pico"], 2, "FILE: expected a file of prompts to answer, got none"),
    (["absent.jsonl", "--model", "zen-pico"], 4, "absent.jsonl: no such file: expected a file of"),
    (["my.jsonl", "--model", "zen-pico", "--top_p", "0"], 2, "--top_p: expected more than 0"),
    (
        ["my.jsonl", "--model", "zen-pico", "--top_p", ".5", "--temperature", "0"],
        2,
        "--top_p: has no effect with --temperature 0",
    ),
    (["my.jsonl", "--model", "zen-pico", "--top_p", ".5"], 2, "has no effect: the model's own"),
    (["text.jsonl", "--model", "zen-pico"], 2, "text.jsonl: no row can be answered: row 1: expec"),
    (["my.jsonl", "--model", "zen-pico", "--out", "my.jsonl"], 2, "expected a new file, or one"),
]


@pytest.mark.parametrize(("words", "code", "said"), REFUSED)
def test_what_has_no_answer_is_refused(
    words: list[str], code: int, said: str, call: Call, tmp_path: Path
) -> None:
    write_rows(tmp_path / "my.jsonl", {"prompt": "a"})
    write_rows(tmp_path / "text.jsonl", {"text": "a"})
    found = call("inference", *words)
    assert (found.code, said in found.stderr) == (code, True), found.stderr
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")
def test_after_a_kill_the_same_command_goes_on(tmp_path: Path) -> None:
    rows = [{"prompt": f"reverse: {n:x}"} for n in range(200)]
    write_rows(tmp_path / "my.jsonl", *rows)
    env = os.environ | {"ZOO_GYM_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    words = ["inference", "my.jsonl", "--model", "zen-pico", "--temperature", "1", "--out"]
    command = [sys.executable, "-m", "zoo.gym", *words]
    part = tmp_path / "killed.jsonl.part"
    with subprocess.Popen([*command, "killed.jsonl"], cwd=tmp_path, env=env) as process:
        while process.poll() is None and not (part.exists() and part.stat().st_size > 2000):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    begun = part.read_bytes()
    part.write_bytes(begun[:-5])  # as a kill in the middle of a line
    for name in ("killed.jsonl", "whole.jsonl"):
        subprocess.run([*command, name], cwd=tmp_path, env=env, check=True)
    assert 0 < begun.count(b"\n") < len(rows)
    assert (tmp_path / "killed.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert len(lines_of(tmp_path / "killed.jsonl")) == len(rows)
