"""Tensors are read before their turn, not too many of them, and nobody waits for nothing."""

import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from zoo.gym.delta.reading import prefetch as ahead
from zoo.gym.delta.reading.prefetch import Pace, reading_ahead
from zoo.gym.delta.reading.weights import Weights, open_weights


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    save_file({name: np.zeros(9, np.float32) for name in "abc"}, tmp_path / "m.safetensors")
    return open_weights(tmp_path / "m.safetensors")


def test_every_name_comes_once_and_one_that_is_nowhere_too(weights: Weights) -> None:
    assert list(reading_ahead("abcd", weights, weights)) == list("abcd")


def test_a_tensor_larger_than_what_may_be_ahead_is_read(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "AHEAD_BYTES", 1)
    assert list(reading_ahead("abc", weights)) == list("abc")


def test_a_name_waits_until_its_tensor_is_read(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read, came = threading.Event(), threading.Event()
    monkeypatch.setattr(ahead, "_read", lambda *_: int(may_read.wait(10)))
    names = reading_ahead("a", weights)

    def take() -> None:
        if next(names) == "a":
            came.set()

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    assert not came.wait(0.05)
    may_read.set()
    taker.join(10)
    assert came.is_set()


def test_no_tensor_is_begun_while_too_much_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "AHEAD_BYTES", 100)
    pace, went_on = Pace(), threading.Event()
    pace.read(100)

    def begin() -> None:
        if pace.begin():
            went_on.set()

    threading.Thread(target=begin, daemon=True).start()
    assert not went_on.wait(0.05)
    pace.use(1)
    assert went_on.wait(10)


def test_no_reader_is_left_when_the_work_ends_early(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "AHEAD_BYTES", 1)
    threads = threading.active_count()
    names = reading_ahead("abc", weights)
    assert next(names) == "a"
    assert threading.active_count() == threads + 1
    names.close()
    assert threading.active_count() == threads


def test_a_file_that_is_gone_stops_nobody(weights: Weights) -> None:
    weights.files[0].unlink()
    assert list(reading_ahead("abc", weights)) == list("abc")
