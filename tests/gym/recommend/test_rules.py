"""Each rule of the table is applied where its condition holds, and not where it does not."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.errors import NotAvailableError
from zoo.gym.recommend.advise import advise
from zoo.gym.recommend.memory import Fit, fitted
from zoo.gym.recommend.method import choose
from zoo.gym.recommend.rows import read_file
from zoo.gym.recommend.rules import RULES, Case, rules_of

TURNS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
THOUGHT = [TURNS[0], {"role": "assistant", "content": "<think>a greeting</think>hello"}]
TOOL = {"type": "function", "function": {"name": "now", "description": "", "parameters": {}}}
ANSWER = {"prompt": "1+1", "answer": "2"}
TESTS = {"prompt": "write f", "tests": ["assert f() == 1"]}

METHODS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "pairs": [("preference", {"prompt": "a", "chosen": "b", "rejected": "c"})],
    "ratings": [("preference", {"prompt": "a", "completion": "b", "label": True})],
    "scored_answers": [("reasoning", ANSWER), ("reasoning", TESTS)],
    "thoughts": [("reasoning", {"messages": THOUGHT})],
    "calls": [("tools", {"messages": TURNS, "tools": [TOOL]})],
    "lessons_scored": [("lessons", ANSWER), ("lessons", TESTS)],
    "lessons_majority": [("lessons", {"prompt": "1+1"})],
    "answers": [
        ("style", {"messages": TURNS}),
        ("style", {"prompt": "a", "completion": "b"}),
        ("facts", {"messages": TURNS}),
    ],
    "texts": [("facts", {"text": "abc"}), ("style", {"text": "abc"})],
}
"""Rows by the rule that must choose their method."""

ROW_OF_ANOTHER_KIND = {"prompt": "a", "chosen": "b", "rejected": "c"}

APPLIES: dict[str, tuple[Case, Case]] = {
    "long_rows": (
        Case("style", {"chat": 1}, "sft", 300, longest_tokens=3000, context_tokens=4096),
        Case("style", {"chat": 1}, "sft", 300, longest_tokens=2048, context_tokens=4096),
    ),
    "past_context": (
        Case("style", {"chat": 1}, "sft", 300, longest_tokens=600, context_tokens=512),
        Case("style", {"chat": 1}, "sft", 300, longest_tokens=512, context_tokens=512),
    ),
    "few_rows": (Case("style", method="sft", rows=199), Case("style", method="sft", rows=200)),
    "duplicates": (Case("style", duplicates=1), Case("style", duplicates=0)),
}
"""A case to which a rule applies, and one just beside it."""

LADDER = ["one_row_at_once", "checkpointing", "shorter_rows", "four_bits", "streamed"]


def write_rows(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_every_rule_has_a_test() -> None:
    tested = {*METHODS, *APPLIES, *LADDER, "smaller_model"}
    assert tested == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    ("name", "want", "row"), [(name, *case) for name, cases in METHODS.items() for case in cases]
)
def test_rows_get_the_method_of_their_rule(
    tmp_path: Path, name: str, want: str, row: dict[str, Any]
) -> None:
    file = read_file(write_rows(tmp_path / "rows.jsonl", row))
    assert choose([file], want, None).rule.name == name


@pytest.mark.parametrize("want", ["style", "facts", "reasoning", "tools", "lessons"])
def test_rows_of_another_kind_are_refused(tmp_path: Path, want: str) -> None:
    file = read_file(write_rows(tmp_path / "rows.jsonl", ROW_OF_ANOTHER_KIND))
    with raises("recommend.wrong_rows", f"--want {want}: expected .*, got pairs") as caught:
        choose([file], want, None)
    assert caught.value.code == "recommend.wrong_rows"


def test_chats_are_no_preferences(tmp_path: Path) -> None:
    file = read_file(write_rows(tmp_path / "rows.jsonl", {"messages": TURNS}))
    with raises("recommend.wrong_rows", r"expected pairs .* got chats"):
        choose([file], "preference", None)


@pytest.mark.parametrize("name", APPLIES)
def test_a_rule_applies_to_its_case_alone(name: str) -> None:
    rule = next(rule for rule in RULES if rule.name == name)
    inside, outside = APPLIES[name]
    assert (rule.applies(inside), rule.applies(outside)) == (True, False)


def test_long_rows_are_kept_up_to_the_context() -> None:
    rule = next(rule for rule in RULES if rule.name == "long_rows")
    inside = APPLIES["long_rows"][0]
    # 3,000 rounded up to a multiple of 256 is 3,072
    assert rule.settings(inside) == {"cutoff_len": 3072}
    assert rule.settings(replace(inside, context_tokens=2500)) == {"cutoff_len": 2500}


CASE = Case("style", {"chat": 1}, "sft", 300, longest_tokens=2000, device="cpu")


def need(settings: Mapping[str, object], free_bytes: int) -> Fit:
    """A run of 100 bytes, of which each setting saves 10."""
    needs = 100 - 10 * len(settings)
    return Fit(needs, free_bytes, "cpu", "formula", fits=needs <= free_bytes)


@pytest.mark.parametrize(("free_bytes", "names"), [(100, []), (90, LADDER[:1]), (70, LADDER[:3])])
def test_as_few_rules_as_needed_make_a_run_fit(free_bytes: int, names: list[str]) -> None:
    fit = fitted(CASE, lambda settings: need(settings, free_bytes))
    assert [rule.name for rule in fit.rules] == names
    assert fit.fits


def test_four_bits_come_before_a_base_in_its_files() -> None:
    def estimate(settings: Mapping[str, object]) -> Fit:
        return Fit(1, 1, "cpu", "formula", fits="quantization_bit" in settings)

    assert [rule.name for rule in fitted(CASE, estimate).rules] == LADDER[:4]


def test_a_base_in_its_files_replaces_one_in_four_bits() -> None:
    def estimate(settings: Mapping[str, object]) -> Fit:
        return Fit(1, 1, "cpu", "formula", fits="stream_layers" in settings)

    fit = fitted(CASE, estimate)
    assert [rule.name for rule in fit.rules] == [*LADDER[:3], "streamed"]
    assert "quantization_bit" not in fit.settings


def test_a_setting_that_the_engine_refuses_is_skipped() -> None:
    def estimate(settings: Mapping[str, object]) -> Fit:
        if "quantization_bit" in settings:
            raise NotAvailableError("no bitsandbytes", code="engine.missing_package")
        return Fit(1, 1, "cpu", "formula", fits="stream_layers" in settings)

    assert fitted(CASE, estimate).rules[-1].name == "streamed"


def test_streaming_is_for_a_cpu() -> None:
    fit = fitted(replace(CASE, device="cuda"), lambda settings: need(settings, 0))
    assert [rule.name for rule in fit.rules] == LADDER[:4]


def test_short_rows_are_not_cut() -> None:
    fit = fitted(replace(CASE, longest_tokens=1024), lambda settings: need(settings, 0))
    assert "shorter_rows" not in [rule.name for rule in fit.rules]


def test_a_smaller_model_is_the_last_way(place: Path) -> None:
    rows = write_rows(place / "rows.jsonl", {"messages": TURNS})
    # the shape of zen-eco needs more than 3 GB in any way, that of zen-nano does not
    advice = advise([rows], "zen-eco", free_bytes=3_000_000_000)
    assert advice.model == "zen-nano"
    assert any("below zen-eco" in note for note in advice.notes)
    assert rules_of("memory")[-1].name == "smaller_model"


def test_what_fits_nowhere_is_refused(place: Path) -> None:
    rows = write_rows(place / "rows.jsonl", {"messages": TURNS})
    with raises("recommend.does_not_fit", "sft of zen-nano does not fit"):
        advise([rows], "zen-nano", free_bytes=1000)
