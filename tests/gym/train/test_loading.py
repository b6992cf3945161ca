"""What is told while a model is loaded."""

import warnings
from typing import Any

import pytest

from zoo.gym.errors import GymWarning
from zoo.gym.train.loading import warnings_as_events


class Kept:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def emit(self, kind: Any, /, **fields: object) -> None:
        self.told.append((kind, fields["message"]))


def test_our_warnings_stay_with_the_run_though_an_error_ends_the_loading() -> None:
    kept = Kept()

    def load() -> None:
        warnings.warn("half is unused", GymWarning, stacklevel=1)
        raise OSError("unreadable")

    with pytest.raises(OSError, match="unreadable"), warnings_as_events(kept.emit):
        load()
    assert kept.told == [("warn", "half is unused")]


def test_the_warnings_of_libraries_go_where_they_always_go() -> None:
    kept = Kept()
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        with warnings_as_events(kept.emit):
            warnings.warn("old", UserWarning, stacklevel=1)
    assert kept.told == []
    assert [str(other.message) for other in others] == ["old"]
