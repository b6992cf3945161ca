"""Real files of other projects: formats found without a word of configuration."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.data.encode import encode_records
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.rows import EncodeOptions, as_chat
from zoo.gym.data.tokenizer import load_tokenizer
from zoo.models import resolve

Shared = Callable[[str], Path]


@pytest.mark.parametrize(
    ("name", "rows", "found"),
    [
        ("sft/instruction-data.json", 1100, "alpaca"),
        ("sft/identity.json", 91, "alpaca"),
        ("sft/oasst_en_100_tree.jsonl", 100, "OASST tree"),
        ("sft/seed_tasks.jsonl", 175, "self-instruct"),
        ("text/tinystories_0-499.json", 500, "text"),
    ],
)
def test_every_row_is_used(shared: Shared, name: str, rows: int, found: str) -> None:
    path = shared(f"data/{name}")
    data = read_dataset([path])
    assert (len(data.records), data.problems) == (rows, ())
    assert data.formats == {str(path): found}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["instruction-data-with-preference.json", "v1_dpo_demo.jsonl"])
def test_preference_data_is_refused_as_what_it_is(shared: Shared, name: str) -> None:
    with raises("data.no_usable_row", "preference data, with 'chosen"):
        read_dataset([shared(f"data/preference/{name}")])


def test_the_one_empty_row_of_98_is_reported_by_its_line(shared: Shared) -> None:
    path = shared("data/sft/mlx_prompt_completion.jsonl")
    data = read_dataset([path])
    assert len(data.records) == 97
    assert [problem.where for problem in data.problems] == [f"{path}:49"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["instruction-data.json", "oasst_en_100_tree.jsonl", "mlx_prompt_completion.jsonl"]
)
def test_zen_pico_reads_every_row_back_as_it_was_written(shared: Shared, name: str) -> None:
    records = read_dataset([shared(f"data/sft/{name}")]).records
    tokenizer = load_tokenizer(resolve("zen-pico").folder)
    result = encode_records(records, tokenizer, EncodeOptions(20_000))
    assert (len(result.examples), result.problems, result.truncated) == (len(records), (), 0)
    for record, example in zip(records, result.examples, strict=True):
        answer = as_chat(record)[-1].content.strip()
        assert answer in tokenizer.decode(example.ids[example.mask].tolist())


@pytest.mark.slow
def test_the_last_instruction_is_found_on_its_line(shared: Shared) -> None:
    path = shared("data/sft/instruction-data.json")
    line = int(read_dataset([path]).records[-1].source.rpartition(":")[2])
    opening, instruction = path.read_text(encoding="utf-8").splitlines()[line - 1 : line + 1]
    assert opening.strip() == "{"
    assert read_dataset([path]).records[-1].prompt.split("\n")[0] in instruction


def test_every_tree_ends_on_an_assistant_turn(shared: Shared) -> None:
    records = read_dataset([shared("data/sft/oasst_en_100_tree.jsonl")]).records
    assert all(record.messages[-1].role == "assistant" for record in records)


def test_shakespeare_comes_back_from_its_paragraphs(shared: Shared) -> None:
    path = shared("data/text/tinyshakespeare.txt")
    text = "\n\n".join(record.text for record in read_dataset([path]).records)
    assert text == path.read_text(encoding="utf-8").strip("\n")
