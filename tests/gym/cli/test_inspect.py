"""The exit codes of `zoo-gym data inspect`."""

from pathlib import Path

import pytest

from tests.gym.cli.conftest import Call

GOOD = '{"prompt": "a", "completion": "b"}\n'
BAD = '{"x": 1}\n'
EMPTY = '{"prompt": "a", "completion": " "}\n'
LONG = '{"prompt": "%s", "completion": "b"}\n' % ("a" * 99)


@pytest.mark.parametrize(
    ("rows", "words", "code"),
    [
        (GOOD, ["--strict"], 0),
        (GOOD + BAD, [], 0),
        (GOOD + BAD, ["--strict"], 1),
        (BAD, [], 2),
        (EMPTY, [], 2),
        (LONG, ["--cutoff_len", "16"], 2),
        (LONG + GOOD, ["--cutoff_len", "16"], 0),
    ],
)
def test_the_exit_code_says_whether_the_data_can_be_trained_on(
    call: Call, rows: str, words: list[str], code: int
) -> None:
    Path("a.jsonl").write_text(rows)
    assert call("data", "inspect", "a.jsonl", *words).code == code


def test_a_refusal_comes_with_the_figures(call: Call) -> None:
    Path("a.jsonl").write_text(LONG)
    found = call("data", "inspect", "a.jsonl", "--cutoff_len", "16", "--json")
    assert found.json["rows"] == 1
    assert found.json["refusal"] == "no row has anything to learn within cutoff_len 16"
    assert found.json["error"] is not None


def test_a_folder_is_inspected_file_by_file(call: Call) -> None:
    Path("data").mkdir()
    Path("data/b.jsonl").write_text(GOOD)
    Path("data/a.csv").write_text("prompt,completion\nc,d\n")
    found = call("data", "inspect", "data", "--json")
    assert found.json["files"] == {
        "data/a.csv": "prompt/completion",
        "data/b.jsonl": "prompt/completion",
    }
    assert found.json["rows"] == 2
