"""A stranger's hundred lines of plain Python find what `round aggregate` published."""

import random

import pytest

from tests.gym.rounds.lessons.conftest import Start
from tests.gym.rounds.lessons.plain_lessons import redo
from tests.gym.rounds.lessons.world import GIL, GUS, GUY
from tests.gym.rounds.protocol.people import ALICE, BOB, LOG
from zoo.gym.experience.library.file import read_library
from zoo.gym.rounds.lessons.result import publish_lessons
from zoo.gym.rounds.session.writing import leave, take

TOPICS = ("units", "signs", "brackets", "rounding", "dates", "names", "tables", "currencies")


@pytest.mark.slow
@pytest.mark.parametrize("clear", [False, True])
def test_plain_python_keeps_and_pays_the_same(clear: bool, start: Start) -> None:
    rng = random.Random(9)  # GUS alone finds harm: in a lesson of others, and in one of its own
    world = start(clear=clear, pool=997)
    texts = [f"Look at the {topic} first, then at number {n}." for n, topic in enumerate(TOPICS)]
    for who, some in ((ALICE, texts[:3]), (BOB, texts[3:6]), (GUS, texts[6:])):
        world.contribute(who, *some)
    world.reveal()
    for key in (GUS, GIL, GUY):
        for text in texts:
            leave(world.storage, world.record(key, text, rng.uniform(-0.3, 0.5)))
    take(world.storage, LOG)
    found = publish_lessons(world.storage, LOG)
    assert found.file
    library = read_library(found.file)[0]
    kept, points = redo(world.storage.folder)
    ours = {
        item.text: (item.author, item.evidence["effect"], item.evidence["low"])
        for item in library.items
    }
    assert 0 < len(ours) < len(texts)
    assert (ours, found.fields["rewards"]["points"]) == (kept, points)
