"""A stranger's hundred lines of plain Python give the bytes that we publish."""

from pathlib import Path

import pytest

from tests.gym.rounds.compute.conftest import run_round
from tests.gym.rounds.compute.test_measured import LOSSES, record
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.plain_round import redo, tensors
from tests.gym.rounds.protocol.people import LOG, digest_of, person
from zoo.gym.rounds.compute.publish import publish
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.storage.base import FolderStorage


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mean", "byzantine_robust"])
def test_plain_python_gives_the_same_bytes(
    method: str, storage: FolderStorage, base: Path, manifest: Manifest, tmp_path: Path
) -> None:
    people = {
        person(f"contributor {number}"): fine_tune(tmp_path / str(number), number, 0.01 * number)
        for number in range(1, 8)
    }
    terms = {"method": method, "f": None if method != "mean" else 0, "quorum": 7, "most": 7}
    refit = digest_of("public") if method == "mean" else None
    run_round(storage, base, people, manifest.model_copy(update={**terms, "refit": refit}))
    if refit:
        record(storage, "refit", losses=LOSSES)
    published = publish(storage, LOG)
    weights, parts = redo(storage.folder)

    assert published.report.weights == weights
    assert len(set(weights)) > 1 or method == "mean"
    assert parts == tensors(published.delta.path.read_bytes())
