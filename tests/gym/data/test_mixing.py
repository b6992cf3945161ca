"""Several files are mixed by their shares, the same way each time."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.config.train import TrainConfig
from zoo.gym.data.mixing import Mix, Strategy, mixed_order
from zoo.gym.data.reading import dataset
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.train.rows import prepare_rows
from zoo.gym.train.run_folder.pinned import dataset_files
from zoo.models import pico_folder


def files(folder: Path, *counts: int) -> list[Path]:
    paths = [folder / f"{name}.jsonl" for name in "abc"[: len(counts)]]
    for path, count in zip(paths, counts, strict=True):
        rows = ({"prompt": f"{path.stem}{n}", "completion": "x"} for n in range(count))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths


def config(paths: list[Path], **values: Any) -> TrainConfig:
    names = tuple(map(str, paths))
    return TrainConfig(model_name_or_path="zen-pico", dataset=names, date="2026-01-01", **values)


@pytest.mark.parametrize(
    ("strategy", "prompts"),
    [
        ("interleave_under", ["a0", "b0", "a1", "b1"]),
        ("interleave_over", ["a0", "b0", "a1", "b1", "a2", "b0", "a3"]),
        ("concat", ["a0", "a1", "a2", "a3", "b0", "b1"]),
    ],
)
def test_rows_are_taken_in_turn_until_a_file_is_used_up(
    tmp_path: Path, strategy: Strategy, prompts: list[str]
) -> None:
    data = read_dataset(files(tmp_path, 4, 2), mix=Mix(strategy))
    assert [record.prompt for record in data.records] == prompts


@pytest.mark.slow
def test_the_shares_decide_how_much_of_each_file_is_taken(tmp_path: Path) -> None:
    data = read_dataset(files(tmp_path, 900, 900), mix=Mix("interleave_under", (0.9, 0.1), 1))
    of_a = sum(record.prompt.startswith("a") for record in data.records)
    # of about 1,000 draws; three standard deviations are 0.03
    assert of_a / len(data.records) == pytest.approx(0.9, abs=0.03)
    assert data.notes[0].startswith(f"{tmp_path / 'a.jsonl'}: 900 of 900 rows are mixed in, 9")


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.sampled_from(["interleave_under", "interleave_over"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_a_mix_has_each_row_in_order_and_ends_when_it_says(
    rows: list[int], strategy: Strategy, shared: bool, seed: int
) -> None:
    shares = tuple(1 / len(rows) for _ in rows) if shared else None
    places = mixed_order(rows, Mix(strategy, shares, seed)).tolist()
    assert places == mixed_order(rows, Mix(strategy, shares, seed)).tolist()
    used_up, start = 0, 0
    for count in rows:
        mine = [place - start for place in places if start <= place < start + count]
        assert mine == [number % count for number in range(len(mine))]
        used_up += len(mine) >= count
        start += count
    assert used_up == (1 if strategy == "interleave_under" else len(rows))


def test_stored_rows_are_mixed_like_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    paths, mix = files(tmp_path, 30, 20), Mix("interleave_over", (0.3, 0.7), 5)
    kept = list(read_dataset(paths, mix=mix).records)
    monkeypatch.setattr(dataset, "IN_MEMORY_ROWS", 3)
    assert list(read_dataset(paths, mix=mix).records) == kept


def test_repeated_rows_stay_on_one_side_of_the_split(tmp_path: Path) -> None:
    settings = config(files(tmp_path, 12, 2), mix_strategy="interleave_over", val_size=0.3)
    rows = prepare_rows(settings, pico_folder())
    learned, kept = (
        {unit.rows[0].source for unit in units} for units in (rows.train, rows.held_out)
    )
    assert len(rows.train) + len(rows.held_out) == 23  # 12 of a and 11 of b, in turn
    assert kept
    assert not learned & kept


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"interleave_probs": "0.5,0.5"}, "has no effect with mix_strategy concat"),
        ({"mix_strategy": "interleave_under", "interleave_probs": "0.5,0.6"}, "that add up to 1"),
        ({"mix_strategy": "interleave_under", "interleave_probs": "1,0"}, "of at least 0.001"),
        ({"mix_strategy": "interleave_under", "interleave_probs": "a,b"}, "expected numbers"),
        ({"mix_strategy": "interleave"}, "mix_strategy"),
    ],
)
def test_settings_that_cannot_take_effect_are_refused(
    tmp_path: Path, values: dict[str, str], reason: str
) -> None:
    with raises("config.invalid", reason):
        config(files(tmp_path, 2, 2), **values)


@pytest.mark.parametrize(
    ("counts", "shares", "reason"),
    [
        ((2,), None, "mix_strategy: expected several files in dataset, got 1"),
        ((2, 2), "0.2,0.3,0.5", "interleave_probs: expected 2 shares, one for each file, got 3"),
    ],
)
def test_a_mix_of_other_files_is_refused_before_the_run(
    tmp_path: Path, counts: tuple[int, ...], shares: str | None, reason: str
) -> None:
    settings = config(
        files(tmp_path, *counts), mix_strategy="interleave_over", interleave_probs=shares
    )
    with raises("data.bad_mix", reason):
        dataset_files(settings)


def test_texts_are_not_mixed(tmp_path: Path) -> None:
    paths = files(tmp_path, 1, 1)
    paths[0].write_text('{"text": "a"}')
    with raises("data.mixed_texts") as caught:
        read_dataset(paths, mix=Mix("interleave_under"))
    assert caught.value.code == "data.mixed_texts"


def test_held_out_files_are_not_mixed(tmp_path: Path) -> None:
    found = read_dataset(files(tmp_path, 4, 2, 3), mix=Mix("interleave_over"), held_out=1)
    texts = [record.prompt for record in found.records]
    assert texts == ["a0", "b0", "a1", "b1", "a2", "b0", "a3", "c0", "c1", "c2"]
    assert found.held_out == 3
    assert not any("c.jsonl" in note for note in found.notes)
