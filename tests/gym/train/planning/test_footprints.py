"""Measured peaks of memory: under which circumstances one is found again."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.gym.train.planning.needs import LORA
from zoo.gym.config import TrainConfig
from zoo.gym.train.planning.footprints import (
    circumstances,
    footprint_key,
    known_peak,
    remember_peak,
)


def test_a_measured_peak_is_found_by_the_same_need_alone(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "footprints.json"
    key = footprint_key(LORA, {"device": "cpu"})
    assert known_peak(file, key) is None
    remember_peak(file, key, 123)
    remember_peak(file, footprint_key(replace(LORA, tokens=7), {"device": "cpu"}), 456)
    remember_peak(file, footprint_key(LORA, {"device": "cuda"}), 789)
    assert known_peak(file, key) == 123


@pytest.mark.parametrize("changed", ["device", "threads", "torch", "model", "revision", "dtype"])
def test_a_peak_holds_for_its_circumstances_alone(changed: str) -> None:
    from zoo.models import resolve

    config = TrainConfig(model_name_or_path="zen-pico", dataset=("a",))
    told = circumstances(config, resolve("zen-pico", offline=True), "cpu", 1, 9)
    assert footprint_key(LORA, told) != footprint_key(LORA, told | {changed: "another"})


def test_a_damaged_table_of_peaks_knows_nothing_and_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "footprints.json"
    file.write_text("[not json")
    assert known_peak(file, "a") is None
    remember_peak(file, "a", 5)
    assert known_peak(file, "a") == 5
