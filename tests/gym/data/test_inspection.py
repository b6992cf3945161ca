"""What a user is told of data before training."""

import json
from collections.abc import Callable, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.data.inspection import Inspection, count_tokens, inspect_dataset
from zoo.gym.data.records import LEARNED, Kind
from zoo.gym.data.report import report
from zoo.gym.data.rows import EncodeOptions

Inspect = Callable[..., Inspection]


@pytest.fixture
def inspect(tmp_path: Path, byte_tokenizer: Callable[..., Any]) -> Inspect:
    def run(
        *rows: Any, template: bool = True, kinds: Set[Kind] = LEARNED, **options: Any
    ) -> Inspection:
        tokenizer = byte_tokenizer() if template else byte_tokenizer(None)
        tokenizer.save_pretrained(tmp_path / "model")
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        return inspect_dataset(
            [path], tmp_path / "model", EncodeOptions(**{"cutoff_len": 60, **options}), kinds
        )

    return run


def pair(prompt: str, completion: str) -> dict[str, str]:
    return {"prompt": prompt, "completion": completion}


def test_rows_turns_and_problems_are_counted(inspect: Inspect) -> None:
    found = inspect(pair("a", "b"), pair("", ""), {"text": "c"})
    assert (found.rows, found.kinds) == (2, {"completion": 1, "text": 1})
    assert found.roles == {"user": 1, "assistant": 1}
    assert [problem.where.rpartition(":")[2] for problem in found.problems] == ["2"]


def test_shares_show_the_effect_of_the_cutoff(inspect: Inspect) -> None:
    # 43 tokens of template around each row: one fits, one loses its end, two lose their answer
    long = "x" * 100
    found = inspect(pair("a", "b"), pair("a", long), pair(long, "b"), pair(long, "c"))
    assert (found.truncated, found.truncated_share) == (3, 0.75)
    assert (found.unlearned, found.unlearned_share) == (2, 0.5)


def test_duplicates_and_empty_answers_are_counted(inspect: Inspect) -> None:
    found = inspect(pair("a", "b"), pair("a", "b"), pair("a", "c"), pair("a", " "), pair("a ", "b"))
    assert (found.duplicates, found.empty_answers) == (2, 1)
    assert any("2 duplicate rows" in note for note in found.warnings)


def test_a_duplicate_is_named_with_the_row_that_it_repeats(inspect: Inspect) -> None:
    found = inspect(pair("a", "b"), pair("c", "d"), pair("a", " b "))
    lines = [(each.where.rpartition(":")[2], each.of.rpartition(":")[2]) for each in found.repeats]
    assert lines == [("3", "1")]


def test_reasoning_and_its_policy_are_reported(inspect: Inspect) -> None:
    found = inspect(pair("a", "<think>\nHm\n</think>\n\nb"), pair("a", "b"), think="drop")
    assert (found.think, found.with_reasoning) == ("drop", 1)
    assert "drop, 1 rows with reasoning" in report(found)


def test_rows_with_tools_are_counted_and_their_calls_shown(
    tmp_path: Path, byte_tokenizer: Callable[..., Any]
) -> None:
    template = (
        "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    byte_tokenizer(template).save_pretrained(tmp_path)
    ask, say = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    call = {"role": "assistant", "function_call": {"name": "f", "arguments": '{"x": 1}'}}
    tools = [{"name": "f"}]
    rows: list[Any] = [{"messages": [ask, call]}, {"messages": [ask, say], "tools": tools}]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, {"messages": [ask, say]}])), "utf-8")
    found = inspect_dataset([path], tmp_path, EncodeOptions(100))
    assert (found.rows, found.with_tools, found.empty_answers) == (3, 2, 0)
    text = report(found)
    assert "           tools  2 rows with tools or tool calls\n" in text
    assert '[[{"name": "f", "arguments": {"x": 1}}<|im_end|>]]' in text


def test_the_example_marks_what_is_learned(inspect: Inspect) -> None:
    found = inspect(pair("Hi", "Yo"))
    assert report(found).endswith("<|im_start|>assistant\n[[Yo<|im_end|>]]\n")
    assert "\x1b[1mYo<|im_end|>\x1b[0m" in report(found, colour=True)


def test_the_example_of_a_pair_shows_both_answers(inspect: Inspect) -> None:
    found = inspect({"prompt": "Hi", "chosen": "Yo", "rejected": "No"}, kinds={"pair"})
    assert [piece.text for piece in found.rejected if piece.learned] == ["No<|im_end|>"]
    better, worse = report(found).split("the worse answer:\n")
    assert "rows.jsonl:1, the better answer (" in better
    assert better.rstrip().endswith("<|im_start|>assistant\n[[Yo<|im_end|>]]")
    assert worse.rstrip().endswith("<|im_start|>assistant\n[[No<|im_end|>]]")
    assert inspect(pair("Hi", "Yo")).rejected == ()


def test_a_pair_with_a_worse_answer_that_the_template_refuses_is_a_problem(
    tmp_path: Path, byte_tokenizer: Callable[..., Any]
) -> None:
    template = (
        "{% for m in messages %}{% if 'No' in m.content %}{{ raise_exception('rude') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    byte_tokenizer(template).save_pretrained(tmp_path)
    path = tmp_path / "rows.jsonl"
    rows = [{"prompt": "Hi", "chosen": "Yo", "rejected": worse} for worse in ("No", "Hm")]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    found = inspect_dataset([path], tmp_path, EncodeOptions(60), {"pair"})
    assert (found.rows, [str(problem) for problem in found.problems]) == (
        1,
        [f"{path}:1: the model's chat template refuses the chat: rude (line 1 of the template)"],
    )
    path.write_text(json.dumps(rows[0]), "utf-8")
    with raises("data.no_usable_row", "refuses the chat: rude") as caught:
        inspect_dataset([path], tmp_path, EncodeOptions(60), {"pair"})
    assert caught.value.code == "data.no_usable_row"


@pytest.mark.parametrize(("key", "good"), [("label", True), ("kto_tag", True), ("forget", False)])
def test_ratings_are_counted_and_that_of_the_example_is_said(
    inspect: Inspect, key: str, good: bool
) -> None:
    rows: list[Any] = [pair("a", text) | {key: good} for text in "bcd"]
    found = inspect(*rows, bad := pair("a", "e") | {key: not good}, kinds={"rated"})
    assert found.ratings == {"good": 3, "bad": 1}
    assert "  ratings  good (or to retain) 3, bad (or to forget) 1\n" in report(found)
    assert "rows.jsonl:1, rated good (" in report(found)
    assert ", rated bad (" in report(inspect(bad, kinds={"rated"}))
    unrated = inspect(pair("a", "b"))
    assert (unrated.ratings, unrated.example_good) == ({}, None)
    assert "  ratings  " not in report(unrated)


def test_json_holds_the_figures_that_the_text_shows(inspect: Inspect) -> None:
    found = inspect(pair("Hi", "Yo"), pair("Hi", "Yo"), {"text": "c"})
    figures = json.loads(json.dumps(asdict(found)))
    assert figures["tokens"]["longest"] == found.tokens.longest
    assert f"longest {figures['tokens']['longest']}" in report(found)
    assert (figures["rows"], figures["duplicates"]) == (3, 1)
    assert {"date": "2024-07-26", "think": "template"}.items() <= figures.items()


def test_rows_that_the_template_refuses_are_problems(inspect: Inspect) -> None:
    found = inspect(pair("a", "b"), pair("a", "b" * 50), {"text": "c"}, template=False)
    assert (found.rows, found.problems) == (3, ())
    with raises("data.no_chat_template") as caught:
        inspect(
            {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
            template=False,
        )
    assert caught.value.code == "data.no_chat_template"


def test_oddities_are_said_in_sentences(inspect: Inspect) -> None:
    rows = [pair("a", "b")] * 2 + [pair("<image>?", " "), pair("a", "<|im_end|>")]
    found = inspect(*rows)
    assert found.warnings == (
        "1 of 4 rows with an empty answer: the model learns to say nothing there",
        "1 of 4 rows with images, audio or video that the model does not see",
        "1 of 4 rows with text like '<|im_end|>': read as plain text",
        "1 duplicate row: duplicates stay on one side of the split",
    )
    assert f"warning: {found.warnings[0]}" in report(found).splitlines()
    assert "can forge a turn" in inspect(*rows, split_special_tokens=False).warnings[2]


def test_data_without_oddities_has_no_warnings(inspect: Inspect) -> None:
    assert inspect(pair("a", "b"), pair("a", "c")).warnings == ()


def test_data_that_training_refuses_has_the_reason(inspect: Inspect) -> None:
    assert inspect(pair("a", " "), pair("b", "")).warnings[0].startswith("every answer is empty")


@given(st.lists(st.integers(1, 5000), min_size=1))
def test_the_histogram_holds_every_row_once(lengths: list[int]) -> None:
    counts = count_tokens(lengths)
    for bar in counts.histogram:
        assert bar.rows == sum(bar.least <= length <= bar.most for length in lengths)
    assert sum(bar.rows for bar in counts.histogram) == len(lengths)
    assert counts.longest == max(lengths)


def test_percentiles_are_the_nearest_rank() -> None:
    counts = count_tokens(range(1, 101))
    assert (counts.p50, counts.p95, counts.total) == (50, 95, 5050)


def test_many_problems_are_cut_short_in_the_text_only(inspect: Inspect) -> None:
    found = inspect(pair("a", "b"), *[pair("", "")] * 12)
    assert len(found.problems) == 12
    assert "and 2 more problems" in report(found)


def test_a_long_example_is_cut(inspect: Inspect) -> None:
    found = inspect(pair("a", "b" * 5000), cutoff_len=6000)
    assert "more characters)" in report(found)
    assert len(report(found)) < 3500


def test_what_the_cut_loses_is_counted_and_not_shown_as_learned(inspect: Inspect) -> None:
    turns = [("user", "Go"), ("assistant", "So")] * 20
    chat = {"messages": [{"role": role, "content": text} for role, text in turns]}
    cut, whole = inspect(chat, cutoff_len=100), inspect(chat, cutoff_len=4096)

    def answers(found: Inspection) -> int:
        return sum(piece.text.count("So") for piece in found.example if piece.learned)

    assert (answers(cut), answers(whole)) == (4, 20)
    # two letters and the end of each turn
    assert f"1 of 1 rows truncated at cutoff_len 100: {16 * 3} learned tokens are lost" in " ".join(
        cut.warnings
    )
    assert not any("lost" in warning for warning in whole.warnings)
