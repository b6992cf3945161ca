"""The base of a fine-tune: as the user says, by its record, or the folder that was used before."""

import shutil
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.delta.reading.remembered import remember_base
from zoo.gym.errors import NotAvailableError
from zoo.gym.tuned.base import resolve_base
from zoo.gym.tuned.source import source_at
from zoo.models import pico_folder


def test_the_users_word_counts_before_the_record(base: Path) -> None:
    assert resolve_base(str(base), "zen-pico", "--base").folder == base
    assert resolve_base(None, "zen-pico", "--base").folder == pico_folder()


@pytest.mark.parametrize("recorded", [None, " "])
def test_without_a_record_the_option_is_named(recorded: str | None) -> None:
    with raises("tuned.no_base_named", "--base: expected a model's name or folder, got nothing"):
        resolve_base(None, recorded, "--base")


def test_a_missing_base_is_named_with_the_option(adapter: Path) -> None:
    with raises("tuned.no_base", "base model 'absent' was not found") as caught:
        resolve_base(None, "absent", "--base")
    assert str(caught.value.hint).endswith("give its folder: --base FOLDER")


def test_a_base_that_was_used_before_is_found_by_its_weights(
    dense: Path, base: Path, whole: Path, tmp_path: Path
) -> None:
    delta = source_at(dense)
    with pytest.raises(NotAvailableError):
        resolve_base(None, delta.base, "--base", delta.check)
    copy = shutil.copytree(base, tmp_path / "mine")
    for folder in (copy, whole):
        remember_base(folder)
    assert resolve_base(None, delta.base, "--base", delta.check).folder == copy
