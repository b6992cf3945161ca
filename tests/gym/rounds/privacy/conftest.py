"""Terms of private rounds about the layers of a tiny base."""

from pathlib import Path
from typing import Any

import pytest

from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.contribution.conftest import LAYERS, SHAPES
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, terms
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.rounds.privacy.sealing import keep_round_key, new_key
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.privacy import Privacy, count_values, privacy_for, sealed_bytes
from zoo.gym.rounds.storage.base import FolderStorage

SEED = "5a" * 32
RANK = 2
VALUES = count_values({name: SHAPES[name] for name in LAYERS}, RANK)


def privacy(key: str = "x25519:" + "09" * 32, **changes: Any) -> Privacy:
    """Returns the terms of the largest epsilon, at which the noise of small rounds is smallest."""
    given: dict[str, Any] = {"epsilon": 10.0, "delta": 1e-2, "clip": 4.0, "seed": SEED, "key": key}
    return privacy_for(**(given | changes))


def private_terms(base: Path, promised: Privacy, **changes: Any) -> Manifest:
    """Returns the manifest of a private round."""
    found = {"identity": identity(open_weights(base), LAYERS), "model": "tiny", "revision": ""}
    tensors = [{"name": name, "shape": list(SHAPES[name])} for name in LAYERS]
    caps = {"file_bytes": sealed_bytes(VALUES), "rank": RANK, "value": promised.clip}
    fields = {"base": found, "tensors": tensors, "caps": caps, "form": "lowrank"}
    return terms(**{**fields, "privacy": promised.model_dump(mode="json"), **changes})


@pytest.fixture
def private_manifest(base: Path, storage: object) -> Manifest:
    """A private round whose key is on this machine; `storage` has set its data folder."""
    return private_terms(base, privacy(keep_round_key(new_key())))


@pytest.fixture
def private_sources(tmp_path: Path) -> Sources:
    people = enumerate((ALICE, BOB, CAROL), 1)
    return {who: fine_tune(tmp_path / f"tuned{seed}", seed) for seed, who in people}


@pytest.fixture
def private_round(
    storage: FolderStorage, base: Path, private_sources: Sources, private_manifest: Manifest
) -> FolderStorage:
    """A private round of three contributors that waits for its result."""
    run_round(storage, base, private_sources, private_manifest)
    return storage
