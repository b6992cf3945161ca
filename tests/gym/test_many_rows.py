"""Rows that do not fit in memory train and are inspected like those that do."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from zoo.gym import TrainConfig, run_training
from zoo.gym.data import EncodeOptions, inspect_dataset, lazy
from zoo.gym.data.encode import Encoded, encode_all
from zoo.gym.data.reading import dataset
from zoo.gym.data.records import Record
from zoo.gym.data.report import report
from zoo.gym.data.rows import Encoder
from zoo.models import pico_folder


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    path = tmp_path / "rows.jsonl"
    chats = [{"prompt": f"What is {n}+1?", "completion": f"{n + 1}." * (n % 5)} for n in range(60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in chats))
    return path


def few_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "IN_MEMORY_ROWS", 10)
    monkeypatch.setattr(lazy, "SAMPLED_ROWS", 20)
    monkeypatch.setattr("zoo.gym.data.inspection.SAMPLED_ROWS", 20)


def trained(rows: Path, steps: int = 7) -> tuple[str, list[str]]:
    settings = TrainConfig(
        model_name_or_path="zen-pico",
        dataset=(str(rows),),
        max_steps=steps,  # 7 are all 55 rows, 8 at a time
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        warmup_steps=1,
        val_size=5,
        eval_steps=3,
    )
    result = run_training(settings)
    weights = (result.model / "adapter_model.safetensors").read_bytes()
    events = map(json.loads, (result.folder / "events.jsonl").read_text().splitlines())
    told = [str(event["message"]) for event in events if event["kind"] == "warn"]
    return hashlib.sha256(weights).hexdigest(), told


@pytest.mark.slow
def test_stored_rows_give_the_same_weights_as_rows_in_memory(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory, _ = trained(rows)
    few_in_memory(monkeypatch)
    stored, told = trained(rows)
    assert stored == in_memory
    words = "60 rows are encoded when they are used: their lengths are estimated from 20 of them"
    assert words in told


@pytest.mark.slow
def test_a_row_that_cannot_be_used_is_reported_when_its_turn_comes(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_in_memory(monkeypatch)
    lines = rows.read_text().splitlines()
    long = {"prompt": "x" * 3000, "completion": "y"}
    lines[1:3] = [json.dumps(long), json.dumps(long | {"prompt": "z" * 3000})]  # 2 is held out
    rows.write_text("\n".join(lines))
    _, told = trained(rows)
    reason = "nothing to learn within cutoff_len 512"
    reported = [text for text in told if text.startswith(f"{rows}:")]
    assert reported == [f"{rows}:3: {reason}"]


@pytest.mark.slow
def test_only_the_rows_of_the_steps_taken_are_encoded(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_in_memory(monkeypatch)
    monkeypatch.setattr(lazy, "LONGEST_ROWS", 2)
    encoded: list[str] = []

    def counted(encoder: Encoder, records: Sequence[Record]) -> Encoded:
        encoded.extend(record.source for record in records)
        return encode_all(encoder, records)

    monkeypatch.setattr("zoo.gym.data.lazy.encode_all", counted)
    trained(rows, steps=2)
    # two steps of 8 rows, 5 held out, 2 long ones; empty answers are passed over
    assert len(set(encoded)) < 30


def test_many_rows_are_inspected_by_a_sample(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = inspect_dataset([rows], pico_folder(), EncodeOptions(512))
    few_in_memory(monkeypatch)
    found = inspect_dataset([rows], pico_folder(), EncodeOptions(512))
    assert (found.rows, found.kinds, found.empty_answers) == (60, {"completion": 60}, 12)
    assert (found.sampled, whole.sampled) == (20, 0)
    assert found.tokens.total == pytest.approx(whole.tokens.total, rel=0.2)
    assert "20 rows: the figures below are estimated from them" in report(found)
