"""The tables of this folder and of the server's requests name far more than forty wrong inputs."""

from tests.gym.rounds.refused.test_contributions import SOURCES
from tests.gym.rounds.refused.test_requests import ENTRIES, MANIFESTS
from tests.gym.rounds.refused.test_terms import NAMES, TERMS
from tests.gym.rounds.server.test_server import REFUSED, WHO


def test_there_are_more_than_forty_wrong_inputs() -> None:
    counts = [len(TERMS), len(NAMES), len(SOURCES), len(ENTRIES), len(MANIFESTS)]
    assert sum(counts) >= 50
    assert sum(counts) + len(WHO) + len(REFUSED) >= 80
