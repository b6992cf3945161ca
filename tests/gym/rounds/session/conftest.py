"""A round that has begun."""

import pytest

from tests.gym.rounds.protocol.people import LOG
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.writing import create_round
from zoo.gym.rounds.storage.base import FolderStorage


@pytest.fixture
def started(storage: FolderStorage, manifest: Manifest) -> FolderStorage:
    create_round(storage, manifest, LOG)
    return storage
