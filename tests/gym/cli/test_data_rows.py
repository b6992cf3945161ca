"""`data show` and `data fix`: single rows, and a copy without the bad ones."""

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.gym.cli.conftest import Call

GOOD = '{"prompt": "spell a:", "completion": "b"}\n'
OTHER = '{"prompt": "c", "completion":   "d"}\n'
BAD = '{"x": 1}\n'
PAIR = '{"prompt": "a", "chosen": "b", "rejected": "c"}\n'


def rows_of(call: "Call", *words: str) -> Any:
    return call("data", "show", "a.jsonl", *words, "--json").json["rows"]


def test_a_row_is_shown_with_what_is_learned(call: "Call") -> None:
    Path("a.jsonl").write_text(GOOD + BAD)
    good, bad = rows_of(call)
    assert [piece["text"][0] for piece in good["pieces"] if piece["learned"]] == ["b"]
    assert (bad["row"], bad["source"]) == (2, "a.jsonl:2")
    assert bad["problem"].startswith("no known format")


def test_rows_are_counted_without_blank_lines(call: "Call") -> None:
    Path("a.jsonl").write_text(GOOD + "\n" + OTHER + GOOD)
    rows = rows_of(call, "--first", "2", "--count", "1")
    assert [(row["row"], row["source"]) for row in rows] == [(2, "a.jsonl:3")]


def test_only_rows_with_a_text_are_shown(call: "Call") -> None:
    Path("a.jsonl").write_text(GOOD + OTHER + GOOD)
    assert [row["row"] for row in rows_of(call, "--find", "SPELL")] == [1, 3]
    assert rows_of(call, "--find", "zebra") == []


def test_pairs_are_shown_with_both_answers(call: "Call") -> None:
    Path("a.jsonl").write_text(PAIR)
    (row,) = rows_of(call)
    assert row["kind"] == "pair"
    assert "c" in row["rejected"][-1]["text"]
    assert "the worse answer" in call("data", "show", "a.jsonl").stdout


def test_no_row_before_the_first_can_be_shown(call: "Call") -> None:
    Path("a.jsonl").write_text(GOOD)
    assert call("data", "show", "a.jsonl", "--first", "0").code == 2


def test_a_copy_has_the_good_lines_as_they_are_and_each_once(call: "Call") -> None:
    Path("a.jsonl").write_text(GOOD + BAD + OTHER + GOOD)
    answer = call("data", "fix", "a.jsonl", "--json").json
    assert Path("a.fixed.jsonl").read_text() == GOOD + OTHER
    assert Path("a.jsonl").read_text() == GOOD + BAD + OTHER + GOOD
    assert (answer["kept"], answer["bad"], answer["duplicates"]) == (2, 1, 1)
    assert answer["repeats"] == [{"where": "a.jsonl:4", "of": "a.jsonl:1"}]


def test_the_method_decides_which_rows_are_bad(call: "Call") -> None:
    Path("a.jsonl").write_text(GOOD + PAIR)
    call("data", "fix", "a.jsonl", "--stage", "dpo")
    assert Path("a.fixed.jsonl").read_text() == PAIR


def test_rows_of_any_method_are_kept_without_a_method(call: "Call") -> None:
    rated = '{"prompt": "a", "completion": "b", "label": true}\n'
    other = rated.replace("true", "false")
    Path("a.jsonl").write_text(GOOD + PAIR + BAD + rated + other + rated)
    call("data", "fix", "a.jsonl")
    assert Path("a.fixed.jsonl").read_text() == GOOD + PAIR + rated + other


@pytest.mark.parametrize("changed", [{"content": "b "}, {"weight": 0}])
def test_a_row_that_teaches_something_else_is_no_repeat(
    call: "Call", changed: dict[str, Any]
) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    lines = [json.dumps({"messages": each}) + "\n" for each in (turns, [*turns, *turns])]
    other = json.dumps({"messages": [*turns, turns[0], turns[1] | changed]}) + "\n"
    Path("a.jsonl").write_text(lines[0] + lines[1] + other + BAD)
    call("data", "fix", "a.jsonl")
    assert Path("a.fixed.jsonl").read_text() == lines[0] + lines[1] + other


def test_a_file_that_is_described_elsewhere_is_refused(call: "Call") -> None:
    Path("a.json").write_text(
        json.dumps([{"Ask": "1+1?", "Say": "2"}, {"Ask": "1+1?", "Say": "2"}])
    )
    columns = {"prompt": "Ask", "response": "Say"}
    entry = {"file_name": "a.json", "formatting": "alpaca", "columns": columns}
    Path("dataset_info.json").write_text(json.dumps({"a": entry}))
    answer = call("data", "fix", "a.json")
    assert answer.code == 2
    assert "dataset_info.json" in answer.stderr
    columns_given = call("data", "fix", "a.json", "--columns", "prompt:Ask,response:Say", "--json")
    assert columns_given.json["kept"] == 1


def test_a_copy_has_the_ending_of_what_it_holds(call: "Call") -> None:
    Path("a.json").write_text(json.dumps([json.loads(GOOD), json.loads(BAD)]))
    answer = call("data", "fix", "a.json", "--out", "b.json")
    assert answer.code == 2
    assert "expected the ending .jsonl" in answer.stderr


def test_a_page_is_shown_as_the_method_that_uses_most_of_it(call: "Call") -> None:
    Path("a.jsonl").write_text(GOOD + PAIR + PAIR.replace('"a"', '"d"'))
    assert not any(row["problem"] for row in rows_of(call))


def test_nothing_is_overwritten(call: "Call") -> None:
    Path("a.jsonl").write_text(GOOD + BAD)
    Path("b.jsonl").write_text("mine")
    assert call("data", "fix", "a.jsonl", "--out", "b.jsonl").code == 2
    assert call("data", "fix", "a.jsonl", "--out", "a.jsonl").code == 2
    assert Path("b.jsonl").read_text() == "mine"


def test_a_file_without_faults_is_not_copied(call: "Call") -> None:
    Path("a.jsonl").write_text(GOOD)
    assert call("data", "fix", "a.jsonl", "--json").json["file"] is None
    assert not Path("a.fixed.jsonl").exists()


def test_a_list_becomes_lines_and_a_cell_of_several_lines_stays_whole(call: "Call") -> None:
    Path("a.json").write_text(json.dumps([json.loads(GOOD), json.loads(BAD), json.loads(OTHER)]))
    call("data", "fix", "a.json")
    copied = Path("a.fixed.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in copied] == [json.loads(GOOD), json.loads(OTHER)]
    Path("a.csv").write_text('prompt,completion\na,"b\nc"\na,"b\nc"\nd,e')
    call("data", "fix", "a.csv")
    assert Path("a.fixed.csv").read_text() == 'prompt,completion\na,"b\nc"\nd,e\n'


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl.gz"])
def test_a_file_without_rows_to_leave_out_is_refused(call: "Call", name: str) -> None:
    Path(name).write_bytes(gzip.compress(GOOD.encode()) if name.endswith("gz") else b"a text\n")
    answer = call("data", "fix", name)
    assert answer.code == 2
    assert "expected rows of json, jsonl, csv or tsv" in answer.stderr


def test_pairs_in_columns_of_other_names_are_kept(call: "Call") -> None:
    Path("a.csv").write_text("Ask,Good,Bad\n1+1?,2,3\n1+1?,2,3\n2+2?,4,5\n")
    columns = "prompt:Ask,chosen:Good,rejected:Bad"
    answer = call("data", "fix", "a.csv", "--columns", columns, "--json").json
    assert (answer["kept"], answer["bad"], answer["duplicates"]) == (2, 0, 1)
