"""Three people with a fine-tune each, and a round of theirs."""

from pathlib import Path

import pytest

from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, LOG
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.contributing import prepare, reveal, send_commitment, send_reveal
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import close_phase, create_round, take
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.signing import OwnKey

Sources = dict[OwnKey, Path]


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    people = enumerate((ALICE, BOB, CAROL), 1)
    return {who: fine_tune(tmp_path / f"tuned{seed}", seed) for seed, who in people}


def run_round(storage: Storage, base: Path, sources: Sources, manifest: Manifest) -> None:
    """Brings a round to the computing of its result."""
    create_round(storage, manifest, LOG)
    for who, source in sources.items():
        own, entry = prepare(open_round(storage), source, base, who)
        send_commitment(own, entry, storage)
        take(storage, LOG)
    close_phase(storage, LOG)
    for who in sources:
        own, entry = reveal(open_round(storage), who)
        send_reveal(own, entry, storage)
    close_phase(storage, LOG)
