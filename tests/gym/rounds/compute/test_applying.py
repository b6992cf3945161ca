"""Base plus result is what it says: of this base, and unchanged since it was written."""

from pathlib import Path

import numpy as np
import pytest

from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.contribution.conftest import SHAPES
from tests.gym.rounds.protocol.people import LOG
from zoo.gym.delta.reading.weights import open_weights, read_float32
from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.applying import apply_result, refuse_changed
from zoo.gym.rounds.compute.publish import publish
from zoo.gym.rounds.life.opening import Opened, open_round
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.storage.folder import FolderStorage

EMBEDDING = "model.embed_tokens.weight"
"""A tensor that the round does not change."""


@pytest.fixture
def published(storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest) -> Opened:
    run_round(storage, base, sources, manifest)
    publish(storage, LOG)
    return open_round(storage)


def test_a_base_with_another_embedding_gets_a_model_of_its_own(
    published: Opened, base: Path, tmp_path: Path
) -> None:
    arrays = disk.random_arrays(SHAPES, 0)
    embedding = arrays[EMBEDDING] + 1
    other = disk.write_model(tmp_path / "other", {**arrays, EMBEDDING: embedding})
    first, second = apply_result(published, base), apply_result(published, other)
    assert first.file != second.file
    found = read_float32(open_weights(second.file), EMBEDDING)
    assert np.array_equal(found, read_float32(open_weights(other), EMBEDDING))


def test_a_base_with_another_chat_template_gets_a_model_of_its_own(
    published: Opened, base: Path, tmp_path: Path
) -> None:
    other = disk.write_model(tmp_path / "other", disk.random_arrays(SHAPES, 0))
    assert apply_result(published, base).file == apply_result(published, other).file
    (other / "chat_template.jinja").write_text("{{ messages }}")
    found = apply_result(published, other).file
    assert (found / "chat_template.jinja").read_text() == "{{ messages }}"


def test_a_damaged_model_is_refused_for_training_and_written_again(
    published: Opened, base: Path
) -> None:
    applied = apply_result(published, base)
    weights = applied.file / "model.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-100] + bytes(100))
    with pytest.raises(InputError, match="as it was written, got other files"):
        refuse_changed(applied)
    again = apply_result(published, base)
    refuse_changed(again)
    assert (again.file, weights.read_bytes()) == (applied.file, before)
