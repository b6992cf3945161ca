"""`zoo-gym recommend`: what it prints runs as it is printed."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.recommend.test_rules import ANSWER, METHODS, TURNS, write_rows
from zoo.gym.cli import main
from zoo.gym.config.train import TrainConfig
from zoo.gym.recommend.advise import advise
from zoo.gym.recommend.memory import Fit
from zoo.gym.recommend.rows import MOST_ROWS, read_file

TRAINED = ("pairs", "ratings", "scored_answers", "thoughts", "answers", "texts")
ROWS = [(name, *METHODS[name][0]) for name in TRAINED]


def recommended(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["recommend", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("name", "want", "row"), ROWS)
@pytest.mark.usefixtures("near_worker")
def test_a_printed_command_trains(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    want: str,
    row: dict[str, Any],
) -> None:
    file = write_rows(place / "my rows.jsonl", row, row, row)
    advice = recommended(capsys, file.name, "--want", want, "--model", "zen-pico")
    assert advice["rule"] == name
    program, *words = shlex.split(advice["command"])
    short = ["max_completion_length=8"] if advice["method"] == "grpo" else []
    assert (program, main([*words, "max_steps=1", *short])) == ("zoo-gym", 0)


def test_a_printed_command_of_lessons_is_accepted(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rows(place / "sums.jsonl", *({"prompt": f"{i}+{i}"} for i in range(20)))
    advice = recommended(capsys, file.name, "--want", "lessons", "--model", "zen-pico")
    words = shlex.split(advice["command"])
    assert words[1:3] == ["experience", "train"]
    assert main(["experience", "estimate", *words[3:]]) == 0


def test_a_model_whose_template_has_no_tools_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rows(place / "rows.jsonl", METHODS["calls"][0][1])
    assert main(["recommend", file.name, "--model", "zen-pico"]) == 2
    assert "the chat template leaves out the tools" in capsys.readouterr().err


def test_settings_of_rules_are_in_the_command(place: Path) -> None:
    turns = [TURNS[0], {"role": "assistant", "content": "<think>a greeting</think>hello"}]
    file = write_rows(place / "rows.jsonl", {"messages": turns})
    advice = advise([file], "zen-pico", "reasoning")
    assert [(each.key, each.value) for each in advice.settings] == [("think", "keep")]
    assert advice.command[-1] == "think=keep"


def test_values_are_printed_as_they_are_typed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rows(place / "rows.jsonl", {"messages": TURNS})
    assert main(["recommend", file.name, "--model", "zen-pico"]) == 0
    assert "gradient_checkpointing=false: " in capsys.readouterr().out


def test_a_base_in_its_files_is_no_way_on_a_gpu(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gpu:
        name = "cuda"

    tried: list[set[str]] = []

    def too_large(config: TrainConfig, *_: object) -> Fit:
        tried.append(config.model_fields_set)
        return Fit(2, 1, "cuda", "formula", fits=False)

    monkeypatch.setattr("zoo.gym.recommend.advise.open_engine", Gpu)
    monkeypatch.setattr("zoo.gym.recommend.advise.fit_of_run", too_large)
    file = write_rows(place / "rows.jsonl", {"messages": TURNS})
    with raises("recommend.does_not_fit"):
        advise([file], "zen-pico")
    assert tried
    assert not any("stream_layers" in keys for keys in tried)


def test_the_recipe_of_the_model_is_taken(place: Path) -> None:
    file = write_rows(place / "rows.jsonl", {"messages": TURNS})
    assert advise([file]).command == ("zoo-gym", "train", "zen-nano-lora.yaml", str(file))
    assert advise([file], "zen-eco").recipe == "zen-eco-lora.yaml"


def test_a_model_of_the_machine_is_estimated_from_the_run(place: Path) -> None:
    file = write_rows(place / "rows.jsonl", {"messages": TURNS})
    advice = advise([file], "zen-pico")
    assert advice.memory is not None
    assert advice.memory.source == "formula"
    assert "learning_rate" in {choice.key for choice in advice.choices}


def test_memory_decides_the_settings(place: Path) -> None:
    file = write_rows(place / "rows.jsonl", *({"messages": TURNS},) * 40)
    needs = advise([file], "zen-pico").memory
    assert needs is not None
    assert needs.needs_bytes is not None
    advice = advise([file], "zen-pico", free_bytes=needs.needs_bytes - 1)
    assert "per_device_train_batch_size=1" in advice.command


def test_mixed_rows_and_files_are_named(place: Path) -> None:
    pair = {"prompt": "a", "chosen": "b", "rejected": "c"}
    mixed = write_rows(place / "mixed.jsonl", pair, pair, {"messages": TURNS})
    texts = write_rows(place / "texts.jsonl", {"text": "abc"})
    advice = advise([mixed, texts], "zen-pico")
    assert advice.want == "preference"
    assert "2 of 3 rows can be used: dpo leaves out the others" in advice.notes
    assert any(note.startswith(f"{texts} is left out") for note in advice.notes)
    assert str(texts) not in advice.command


def test_rows_that_nothing_reads_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rows(place / "rows.jsonl", {"foo": 1})
    assert main(["recommend", file.name]) == 2
    assert "rows.jsonl:1: no known format" in capsys.readouterr().err


def test_without_files_it_says_what_an_aim_needs(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [rule["method"] for rule in recommended(capsys, "--want", "preference")["methods"]] == [
        "dpo",
        "kto",
    ]


def test_an_answer_makes_a_row_usable_in_two_ways(place: Path) -> None:
    file = read_file(write_rows(place / "rows.jsonl", ANSWER))
    assert dict(file.uses) == {"completion": 1, "answer": 1}


def test_only_the_first_rows_are_looked_at(place: Path) -> None:
    file = read_file(write_rows(place / "rows.jsonl", *([{"text": "a"}] * (MOST_ROWS + 1))))
    assert (file.rows, file.more) == (MOST_ROWS, True)
