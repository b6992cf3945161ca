"""Nothing that steers a terminal gets out, whatever data, logs and names hold."""

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.cli.boundary import print_error
from zoo.gym.errors import InputError
from zoo.gym.jobs import create_run
from zoo.gym.terminal import json_line, visible

EVIL = "a\x1b]0;owned\x07\x9b31m\x7f\u202eb\u2066\ud800\rc"
SHOWN = "a\\x1b]0;owned\\x07\\x9b31m\\x7f\\u202eb\\u2066\\ud800\\x0dc"
DIRECTIONS = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
CHARACTERS = st.text(st.characters(exclude_categories=()) | st.sampled_from(EVIL))
Call = Callable[..., Any]


def steers(text: str) -> bool:
    """Whether text holds a control character other than tab and line end, or half a pair."""
    kinds = {unicodedata.category(c) for c in text if c not in "\n\t"}
    return bool({"Cc", "Cs"} & kinds or DIRECTIONS & set(text))


@pytest.mark.slow
@given(CHARACTERS)
def test_no_text_steers_the_terminal(text: str) -> None:
    assert not steers(visible(text))


@pytest.mark.slow
@given(st.dictionaries(CHARACTERS, CHARACTERS))
def test_json_steers_no_terminal_and_reads_back(value: dict[str, str]) -> None:
    line = json_line(value)
    assert not steers(line)
    assert json.loads(line) == value


def test_what_would_steer_is_shown() -> None:
    assert visible(EVIL) == SHOWN
    assert visible("two\r\nlines\tand ä 😀") == "two\nlines\tand ä 😀"


@pytest.mark.parametrize("words", [["list"], ["show", "last"], ["tail", "last"]])
@pytest.mark.parametrize("how", [[], ["--json"]], ids=["words", "json"])
def test_a_run_steers_no_terminal(call: Call, words: list[str], how: list[str]) -> None:
    run = create_run(f"model_name_or_path: {json.dumps(EVIL)}\ndataset: [a]\n", {})
    run.events.emit("warn", message=EVIL)
    run.events.emit("end", state="failed", exit_code=1, message=EVIL, model=EVIL, hint=EVIL)
    found = call("runs", *words, *how)
    assert found.code == 0
    assert "owned" in found.stdout
    assert not steers(found.stdout + found.stderr)


@pytest.mark.parametrize("how", [[], ["--json"]], ids=["words", "json"])
def test_an_example_and_a_file_name_steer_no_terminal(call: Call, how: list[str]) -> None:
    odd = "my\x1b[31m\u202e.jsonl"
    row = {"prompt": EVIL.replace("\ud800", ""), "completion": "x\x1b[31m"}
    Path(odd).write_text(json.dumps(row) + "\n{\n", encoding="utf-8")
    found = call("data", "inspect", odd, *how)
    assert found.code == 0
    assert "x1b" in found.stdout or "u001b" in found.stdout
    assert not steers(found.stdout + found.stderr)
    assert not steers(call("data", "inspect", odd + "x").stderr)


def test_an_error_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(InputError(EVIL, hint=EVIL), as_json=True)
    out, err = capsys.readouterr()
    assert not steers(out + err)
    assert SHOWN in err
