"""What the form says of settings: those that match what is typed, and what they lead to."""

from typing import Any

import pytest

from tests.gym.tui.fakes import PLANNED
from zoo.gym.tui.start.settings import LINE, matching_settings, plan_words


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("quantization_m", "quantization_method (bnb | mlx): "),
        ("lora_rank=8 pissa", "pissa_init (true | false): "),
        ("PISSA-INIT", "pissa_init (true | false): "),
        ("use_dora=true", "use_dora (true | false): "),
        ("model=zen", "model_name_or_path (text): "),
        ("QLoRA", "finetuning_type ("),
    ],
)
def test_a_part_of_a_name_lists_the_settings(text: str, first: str) -> None:
    assert matching_settings(text).startswith(first)


@pytest.mark.parametrize("text", ["", "q", "lora_rank=8 ", "nothing_like_it", "nothing=1"])
def test_what_is_no_part_of_a_name_lists_none(text: str) -> None:
    assert matching_settings(text) == ""


def test_many_settings_are_a_line_each_and_the_rest_by_name() -> None:
    lines = matching_settings("lora").splitlines()
    assert [line.partition(" ")[0] for line in lines[:2]] == ["lora_rank", "lora_alpha"]
    assert "more: " in lines[3]
    assert max(map(len, lines)) <= LINE


def test_a_plan_that_is_not_known_is_left_out() -> None:
    config: dict[str, Any] = {**PLANNED["config"], "max_steps": None, "learning_rate": None}
    assert plan_words({"config": config, "memory": None, "free_bytes": None}) == ""
