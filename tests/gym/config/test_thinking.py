"""LLaMA-Factory's `enable_thinking` is a value of `think`, on or off."""

import pytest

from tests.codes import raises
from zoo.gym.config.load import load_config

BASE = ["model=m", "dataset=a.jsonl"]


@pytest.mark.parametrize(("value", "think"), [("true", "template"), ("false", "drop")])
def test_thinking_is_learned_or_dropped(value: str, think: str) -> None:
    item = load_config([], [*BASE, f"enable_thinking={value}"], {})
    flag = load_config([], BASE, {"enable_thinking": value})
    assert (item.config.think, flag.config.think, item.ignored) == (think, think, ())


@pytest.mark.parametrize("value", ["maybe", "null", "[]"])
def test_what_is_neither_on_nor_off_is_refused_with_our_values(value: str) -> None:
    with raises("config.invalid", "think template, keep or drop"):
        load_config([], [*BASE, f"enable_thinking={value}"], {})


def test_both_spellings_of_one_level_are_refused() -> None:
    with raises("config.invalid", "already given as 'think=keep'"):
        load_config([], [*BASE, "think=keep", "enable_thinking=false"], {})
