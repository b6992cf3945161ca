"""Uploads that are cut at any byte go on where they were: no whole chunk is sent twice."""

import os
import random
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests.gym.rounds.server.cutting import Cut, relayed
from tests.gym.rounds.server.world import World
from zoo.gym.errors import GymError
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.served import Served
from zoo.gym.rounds.storage import chunks, http
from zoo.gym.rounds.storage.chunks import fetch, store
from zoo.gym.rounds.storage.http import HttpStorage

PIECE, CUTS = 1 << 16, 50


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_cuts_send_no_whole_chunk_twice(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: Counter[str] = Counter()
    write = Served.write

    def counted(self: Served, role: Role, name: str, file: str, content: bytes) -> bool:
        arrived[file] += 1
        return write(self, role, name, file, content)

    monkeypatch.setattr(Served, "write", counted)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", PIECE)
    monkeypatch.setattr(http, "WAITS_S", (0.1, 0.1))
    draw = random.Random(16)
    plan = (
        Cut(draw.randrange(1, draw.choice([900, 3 * PIECE])), answers=number % 2 == 0)
        for number in count()
    )
    _, _, port = world.server.url.rpartition(":")
    with relayed(int(port), plan, CUTS) as relay:
        place = world.storage.address.replace(f":{port}/", f":{relay.port}/")
        token = world.server.tokens[Role.MAKER]
        sent = 0
        while relay.cuts < CUTS:
            sent += 1
            (tmp_path / "source").write_bytes(os.urandom(5 * PIECE + sent))
            stored = None
            while stored is None:
                with suppress(GymError):  # a new client each time, as after a crash
                    stored = store(tmp_path / "source", HttpStorage(place, token))
            fetch(stored, world.storage, tmp_path / "copy")
            assert (tmp_path / "copy").read_bytes() == (tmp_path / "source").read_bytes()
    assert (relay.cuts, max(arrived.values()), len(arrived)) == (CUTS, 1, 7 * sent)
