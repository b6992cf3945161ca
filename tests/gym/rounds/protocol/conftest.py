"""Keys and a small round."""

import pytest

from tests.gym.rounds.protocol.people import LOG, MAKER, terms
from zoo.gym.rounds.protocol.manifest import manifest_body
from zoo.gym.rounds.protocol.objects import MANIFEST
from zoo.gym.signing import Signed, sign


@pytest.fixture
def opening() -> Signed:
    """The manifest of a round for three, in which LOG writes and GATE measures."""
    assert LOG != MAKER
    return sign(MAKER, MANIFEST, manifest_body(terms()))
