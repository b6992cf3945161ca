"""Units of many rows equal those of few; unusable rows are reported and replaced."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from zoo.gym.data import EncodeOptions, Record, Tokenizer, Unit, load_tokenizer, read_dataset
from zoo.gym.data import lazy as module
from zoo.gym.data.encode import encode_records
from zoo.gym.data.equality import related_rows
from zoo.gym.data.lazy import LazyUnits, encode_dataset
from zoo.gym.data.reading import dataset as reading
from zoo.gym.data.records import Problem
from zoo.gym.data.split import split_records
from zoo.models import pico_folder

OPTIONS = EncodeOptions(48)
Read = Callable[..., Sequence[Record]]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(pico_folder())


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Reads rows of a prompt and a completion; more than three are stored in a file."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(module, "SAMPLED_ROWS", 3)
    monkeypatch.setattr(module, "LONGEST_ROWS", 1)

    def read(*rows: tuple[str, str], in_memory: int = 3) -> Sequence[Record]:
        monkeypatch.setattr(reading, "IN_MEMORY_ROWS", in_memory)
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps({"prompt": p, "completion": c}) + "\n" for p, c in rows))
        return read_dataset([path]).records

    return read


def content(units: Sequence[Unit]) -> list[tuple[str, list[int], list[bool]]]:
    return [(u.rows[0].source, u.rows[0].ids.tolist(), u.rows[0].mask.tolist()) for u in units]


ROWS = [(f"{number}+{number}", "x" * (number % 7 + 1)) for number in range(12)]


def test_units_encoded_on_access_equal_those_encoded_in_advance(
    read: Read, tokenizer: Tokenizer
) -> None:
    lazy = encode_dataset(read(*ROWS), tokenizer, OPTIONS)
    eager = encode_records(read(*ROWS, in_memory=99), tokenizer, OPTIONS)
    assert isinstance(lazy.units, LazyUnits)
    assert content(lazy.units) == content(eager.units)
    assert content(lazy.units[2:5]) == content(eager.units[2:5])
    assert content([lazy.units[-1]]) == content([eager.units[-1]])


def test_few_rows_of_a_file_are_encoded_in_advance(read: Read, tokenizer: Tokenizer) -> None:
    held_out = split_records(read(*ROWS), 3, 0).apply(read(*ROWS))[1]
    encoded = encode_dataset(held_out, tokenizer, OPTIONS)
    assert (isinstance(encoded.units, tuple), encoded.sampled) == (True, 0)


def test_counts_of_many_rows_are_estimated_from_the_sample(
    read: Read, tokenizer: Tokenizer
) -> None:
    # of 12 rows, numbers 0, 4 and 8 are sampled: one of them is too long
    rows = [("a", "b" * 99 if number == 4 else "b") for number in range(12)]
    found = encode_dataset(read(*rows), tokenizer, OPTIONS)
    assert (found.sampled, found.truncated) == (3, 4)
    assert found.tokens == 4 * sum(unit.tokens for unit in found.seen[:3])


def test_the_longest_row_is_seen_although_it_is_not_sampled(
    read: Read, tokenizer: Tokenizer
) -> None:
    rows = [("a", "b" * (20 if number == 5 else 1)) for number in range(12)]
    found = encode_dataset(read(*rows), tokenizer, OPTIONS)
    longest = max(unit.longest for unit in found.units)
    assert max(unit.longest for unit in found.seen) == longest
    assert longest > found.seen[0].longest


def test_an_unusable_row_is_reported_once_and_the_next_one_taken(
    read: Read, tokenizer: Tokenizer
) -> None:
    rows = [("a" * (99 if number in {5, 6} else 1), "b") for number in range(12)]
    units = encode_dataset(read(*rows), tokenizer, OPTIONS).units
    assert isinstance(units, LazyUnits)
    reported: list[Problem] = []
    units.report = reported.append
    assert units[5].rows[0].source == units[5].rows[0].source == units[7].rows[0].source
    assert [problem.where.rpartition(":")[2] for problem in reported] == ["6", "7"]
    assert reported[0].reason == "nothing to learn within cutoff_len 48"


def test_units_are_kept_for_a_while_and_then_encoded_again(
    read: Read, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CACHED_UNITS", 2)
    units = encode_dataset(read(*ROWS), tokenizer, OPTIONS).units
    first = units[0]
    assert units[0] is first
    assert [len(units[place].rows) for place in (1, 2)] == [1, 1]
    again = units[0]
    assert again is not first
    assert content([again]) == content([first])


def test_the_split_of_stored_rows_is_that_of_rows_in_memory(read: Read) -> None:
    rows = [*ROWS, *ROWS[:3], ("other", "x")]
    stored, kept = read(*rows), read(*rows, in_memory=99)
    for seed in range(20):
        split = split_records(stored, 0.3, seed)
        assert split == split_records(kept, 0.3, seed)
        assert [list(part) for part in split.apply(stored)] == [
            list(part) for part in split.apply(kept)
        ]


def test_groups_are_numbered_by_their_first_row(read: Read) -> None:
    related = related_rows(read(("a", "b"), ("c", "d"), ("a", "b "), ("e", "f")))
    assert related.group.tolist() == [0, 1, 0, 2]
    assert (related.groups, related.duplicates) == (3, 1)


def test_groups_of_more_rows_than_a_chunk_are_the_same(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = read(*(3 * ROWS))
    whole = related_rows(rows)
    monkeypatch.setattr("zoo.gym.data.equality._CHUNK_ROWS", 5)
    parts = related_rows(rows)
    assert np.array_equal(parts.group, whole.group)
    assert (parts.groups, parts.duplicates) == (12, 24)
