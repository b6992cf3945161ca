"""A sheet of rules that zen-pico, tuned to obey sheets, learns: in the prompt, and as weights."""

import random
from pathlib import Path

import pytest

from bench import sheets
from bench.sheet_world import PLACES, REWARD, RULES, SHEET, SHUFFLED, conversation, sheet


def test_a_shuffled_sheet_breaks_every_rule() -> None:
    assert all(right != wrong for right, wrong in zip(SHEET, SHUFFLED, strict=True))
    assert len(sheet(SHEET).text.encode()) <= 300
    rng = random.Random(0)
    result = [turn["content"] for _ in range(300) for turn in conversation(rng)[:1]]
    rules = [rule.format(letter) for rule, letter in zip(RULES, SHEET, strict=True)]
    assert not any(all(rule in text for rule in rules) for text in result)


def test_the_reward_is_the_share_of_the_rules() -> None:
    found: dict[str, object] = {}
    exec(REWARD, found)
    score = found["score"]
    assert callable(score)
    assert [score("", text, "qnvm") for text in ("qnvm", "qnvx", "xnxx", "qn")] == [1, 2 / 3, 0, 0]
    assert PLACES == (0, 2, 3)


@pytest.mark.nightly
def test_a_sheet_helps_as_prompt_and_weights_unless_shuffled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    cases = list(sheets.run())
    assert [case.name for case in cases if not case.keeps_its_bar()] == []
    assert sum(bool(case.bar) for case in cases) == 8
