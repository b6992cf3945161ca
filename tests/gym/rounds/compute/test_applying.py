"""Base plus result is what it says: of this base, and unchanged since it was written."""

from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.contribution.conftest import SHAPES
from tests.gym.rounds.protocol.people import LOG
from zoo.gym.delta.reading.weights import open_weights, read_float32
from zoo.gym.files import write_beside
from zoo.gym.paths import folders
from zoo.gym.rounds.compute.applying import (
    applied_results,
    apply_result,
    refuse_changed,
    undo_result,
)
from zoo.gym.rounds.compute.publish import publish
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.opening import Opened, open_round
from zoo.gym.rounds.storage.base import FolderStorage

EMBEDDING = "model.embed_tokens.weight"
"""A tensor that the round does not change."""


@pytest.fixture
def published(storage: FolderStorage, base: Path, sources: Sources, manifest: Manifest) -> Opened:
    run_round(storage, base, sources, manifest)
    publish(storage, LOG)
    return open_round(storage)


@pytest.mark.slow
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


@pytest.mark.slow
def test_another_base_is_refused_by_its_folder(published: Opened, tmp_path: Path) -> None:
    other = disk.write_model(tmp_path / "tiny", disk.random_arrays(SHAPES, 5))
    with raises("rounds.other_base", f"^{other}: expected the base tiny of the round, got an"):
        apply_result(published, other)
    assert applied_results() == []


@pytest.mark.slow
def test_other_chat_template_gives_another_model(
    published: Opened, base: Path, tmp_path: Path
) -> None:
    other = disk.write_model(tmp_path / "other", disk.random_arrays(SHAPES, 0))
    assert apply_result(published, base).file == apply_result(published, other).file
    (other / "chat_template.jinja").write_text("{{ messages }}")
    found = apply_result(published, other).file
    assert (found / "chat_template.jinja").read_text() == "{{ messages }}"


@pytest.mark.slow
def test_damaged_model_is_refused_and_rebuilt(published: Opened, base: Path) -> None:
    applied = apply_result(published, base)
    weights = applied.file / "model.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-100] + bytes(100))
    with raises("rounds.model_changed"):
        refuse_changed(applied)
    again = apply_result(published, base)
    refuse_changed(again)
    assert (again.file, weights.read_bytes()) == (applied.file, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["model-00001-of-00001.safetensors", "model.safetensors.index.json"]
)
def test_a_file_that_was_added_to_a_model_is_found(
    name: str, published: Opened, base: Path
) -> None:
    applied = apply_result(published, base)
    (applied.file / ".DS_Store").touch()
    refuse_changed(applied)
    (applied.file / name).write_bytes(b"{}")
    with raises("rounds.model_changed"):
        refuse_changed(applied)
    assert not (apply_result(published, base).file / name).exists()


@pytest.mark.slow
def test_of_two_that_apply_at_a_time_both_are_in_the_list(
    published: Opened, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = disk.write_model(tmp_path / "other", disk.random_arrays(SHAPES, 0))
    second = Thread(target=apply_result, args=(published, other))

    def slow(path: Path, content: str, *, sync: bool = False) -> None:
        if path.name == "applied.json" and not second.ident:  # read, not written yet
            second.start()
            second.join(1.0)
        write_beside(path, content, sync=sync)

    monkeypatch.setattr("zoo.gym.rounds.compute.applying.write_beside", slow)
    apply_result(published, base)
    second.join()
    assert {one.base for one in applied_results()} == {base, other}


DAMAGED = [
    '{"applied":[{}]}',
    '{"applied":3}',
    '{"applied":{"a":1}}',
    '{"applied":["x"]}',
    '{"applied":[{"round":1,"base":"a","file":"b","digest":"c"}]}',
    '{"appl',
    "[]",
    "{}",
    "",
]


@pytest.mark.slow
@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_list_is_refused_and_not_written_over(
    content: str, published: Opened, base: Path
) -> None:
    apply_result(published, base)
    path = folders().data / "rounds" / "applied.json"
    path.write_text(content)
    for act in (undo_result, applied_results, lambda: apply_result(published, base)):
        with raises("rounds.applied_damaged", r"applied\.json: expected the list of applied"):
            act()
    assert path.read_text() == content
