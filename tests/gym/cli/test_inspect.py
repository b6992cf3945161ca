"""The exit codes of `zoo-gym data inspect`."""

from pathlib import Path
from typing import cast

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


PAIR = '{"prompt": "a", "chosen": "b", "rejected": "c"}\n'
QUESTION = '{"question": "2+3?", "answer": 5}\n'


@pytest.mark.parametrize(
    ("rows", "kinds", "stages"),
    [
        (GOOD + PAIR, {"completion": 1}, ["sft"]),
        (PAIR, {"pair": 1}, ["dpo", "tdpo", "rm", "orpo", "cpo", "simpo"]),
        (QUESTION, {"prompt": 1}, ["grpo"]),
    ],
)
def test_the_methods_that_learn_from_the_rows_are_found(
    call: Call, rows: str, kinds: dict[str, int], stages: list[str]
) -> None:
    Path("a.jsonl").write_text(rows)
    found = call("data", "inspect", "a.jsonl", "--json")
    assert (found.code, found.json["kinds"]) == (0, kinds)
    assert set(stages) <= set(cast("list[str]", found.json["stages"]))


def test_a_given_method_decides_which_rows_are_read(call: Call) -> None:
    Path("a.jsonl").write_text(GOOD + PAIR)
    found = call("data", "inspect", "a.jsonl", "--json", "--stage", "dpo")
    problems = cast("list[object]", found.json["problems"])
    assert (found.json["kinds"], len(problems)) == ({"pair": 1}, 1)
    assert call("data", "inspect", "a.jsonl", "--stage", "dppo").code == 2


def test_a_misspelt_answer_does_not_make_a_prompt(call: Call) -> None:
    Path("a.jsonl").write_text('{"prompt": "a", "completoin": "b"}\n')
    found = call("data", "inspect", "a.jsonl")
    assert found.code == 2
    assert "expected 'completion', got 'completoin'" in found.stderr


def test_a_prompt_without_room_for_an_answer_is_counted(call: Call) -> None:
    Path("a.jsonl").write_text(QUESTION + QUESTION.replace("2+3", "9" * 90))
    found = call("data", "inspect", "a.jsonl", "--json", "--cutoff_len", "80")
    assert (found.json["rows"], found.json["unlearned"]) == (2, 1)


def test_pairs_without_a_prompt_are_refused_for_that_and_not_for_being_pairs(call: Call) -> None:
    Path("a.jsonl").write_text('{"ask": "a", "chosen": "b", "rejected": "c"}\n')
    found = call("data", "inspect", "a.jsonl")
    assert found.code == 2
    assert "a.jsonl:1: no prompt: expected 'prompt', 'question', 'messages'" in found.stderr


def test_columns_of_a_table_are_named_on_the_command_line(call: Call) -> None:
    Path("a.csv").write_text("Anfrage;Reaktion\n2+3?;5\n")
    found = call("data", "inspect", "a.csv", "--columns", "prompt:Anfrage,response:Reaktion")
    assert (found.code, "[[5" in found.stdout) == (0, True)
    wrong = call("data", "inspect", "a.csv", "--columns", "prompt:Anfrage,response:Antwort")
    assert (wrong.code, "no column 'Antwort'" in wrong.stderr) == (2, True)


def test_the_speaker_to_learn_is_named_on_the_command_line(call: Call) -> None:
    Path("chat.txt").write_text("1/2/24, 9:00 - Bob: 2+3?\n1/2/24, 9:01 - Anna: 5\n")
    found = call("data", "inspect", "chat.txt", "--me", "Anna")
    assert (found.code, "[[5" in found.stdout) == (0, True)
    unnamed = call("data", "inspect", "chat.txt")
    assert (unnamed.code, "'Bob' (1 message)" in unnamed.stderr) == (2, True)


@pytest.mark.parametrize(("word", "hint"), [("stage=grpo", "--stage grpo"), ("max_steps=3", None)])
def test_a_setting_is_no_file_and_one_of_its_own_is_named(
    call: Call, word: str, hint: str | None
) -> None:
    Path("a.jsonl").write_text(GOOD)
    found = call("data", "inspect", "a.jsonl", word)
    assert (found.code, f"hint: {hint}" in found.stderr) == (2, hint is not None)


def test_the_other_files_of_an_export_are_passed_over_beside_its_conversations(call: Call) -> None:
    folder = Path("export")
    folder.mkdir()
    (folder / "rows.jsonl").write_text(GOOD)
    (folder / "user.json").write_text('{"id": "u"}')
    assert call("data", "inspect", "export").code == 2
    (folder / "conversations.json").write_text(f"[{GOOD.strip()}]")
    assert call("data", "inspect", "export").code == 0
