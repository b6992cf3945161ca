"""What stands beside a base, and what a conversation and a comparison are; no server."""

from pathlib import Path

import pytest

from tests.gym.tui import fakes
from tests.gym.tui.test_chat import BASE, LIBRARIES, RUN, VARIANTS, done, tuned_run
from zoo.gym.jobs import list_runs
from zoo.gym.tui.chat.answers import figures
from zoo.gym.tui.chat.server import Answer
from zoo.gym.tui.chat.side import read_settings
from zoo.gym.tui.chat.sources import (
    Source,
    file_source,
    lesson_sources,
    named_variants,
    run_sources,
    variant_sources,
)
from zoo.gym.tui.chat.turns import Talk, Turn


def test_what_stands_beside_a_base_is_of_that_base() -> None:
    tuned_run("smollm2")
    run = tuned_run()
    unfinished = fakes.trained(3)
    unfinished.result.mkdir()
    assert [source.name for source in run_sources(list_runs(), {}, "zen-pico")] == [run.id]
    assert variant_sources(VARIANTS, "zen-pico") == [Source("variant", "ann")]
    assert lesson_sources(LIBRARIES) == [Source("lessons", "balls", "2 in the prompt")]


def test_models_are_asked_by_the_names_that_serve_gives_them() -> None:
    sources = [BASE, RUN, Source("lessons", "balls")]
    assert [source.model("m") for source in sources] == ["m", "m:r0001", "m+balls"]


def test_a_run_that_a_variant_hides_is_named_to_the_server() -> None:
    file = Source("file", "x", path="/x.safetensors")
    assert named_variants([BASE, RUN, file]) == {"x": "/x.safetensors"}
    assert named_variants([RUN, Source("variant", "r0001")]) == {"r0001": "r0001"}


def test_a_dropped_file_is_a_source_only_if_it_is_tuned(tmp_path: Path) -> None:
    (tmp_path / "My Delta.safetensors").touch()
    (tmp_path / "rows.jsonl").touch()
    source = file_source(str(tmp_path / "My Delta.safetensors"))
    assert source is not None
    assert (source.name, source.what) == ("my-delta", "delta")
    assert file_source(str(tmp_path / "rows.jsonl")) is None
    assert file_source("x" * 5000) is None


def test_a_conversation_has_its_turns_and_a_comparison_has_not() -> None:
    talk = Talk([Turn("one", {BASE: done("1")}), Turn("two", {BASE: Answer()})])
    assert [each["content"] for each in talk.messages(BASE, with_history=True)] == [
        "one",
        "1",
        "two",
    ]
    assert talk.messages(BASE, with_history=False) == [{"role": "user", "content": "two"}]


def test_an_answer_that_was_stopped_says_nothing_about_an_effect() -> None:
    stopped = Answer("x", finish="stopped")
    talk = Talk([Turn("a", {BASE: done("x"), RUN: stopped})])
    assert talk.effects((BASE, RUN)) == []
    talk.turns[0].answers[RUN] = done("x")
    assert talk.effects((BASE, RUN)) == [
        "run r0001 equals zen-pico on 1 of 1 prompt: this adapter has no effect on it"
    ]


def test_a_copy_keeps_hidden_names_hidden() -> None:
    turn = Turn("a", {RUN: done("x"), BASE: done("y")}, blind=(RUN, BASE))
    talk = Talk([turn])
    assert talk.text((BASE, RUN)) == "> a\n[A]\nx\n[B]\ny\n"
    turn.voted = True
    assert "[run r0001]\nx" in talk.text((BASE, RUN))


@pytest.mark.parametrize(
    ("name", "value"), [("seed", "-1"), ("temperature", "2.5"), ("max_tokens", "x")]
)
def test_a_setting_out_of_its_range_is_refused_by_name(name: str, value: str) -> None:
    texts = {"seed": "0", "temperature": "0.7", "max_tokens": "9"}
    assert read_settings(texts) == {"seed": 0, "temperature": 0.7, "max_tokens": 9}
    with pytest.raises(ValueError, match=f"{name}: expected .* got '{value}'"):
        read_settings(texts | {name: value})


def test_an_answer_has_its_speed_once_there_are_tokens_enough() -> None:
    answer = Answer("x", tokens=9, first_s=0.5, last_s=2.5, finish="stop")
    assert figures(answer, "") == "4 tok/s, first 0.50 s"  # 8 tokens in 2 s
    answer.tokens = 2
    assert figures(answer, "") == "first 0.50 s"
    answer.finish = "length"
    assert figures(answer, "") == "cut at 2 tokens, first 0.50 s"
    assert figures(Answer(), "loading m ...") == "loading m ..."
