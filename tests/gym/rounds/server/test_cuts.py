"""Uploads that are cut at any byte go on where they were: no whole chunk is sent twice."""

import os
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.gym.rounds.server.cutting import relayed
from tests.gym.rounds.server.world import World
from zoo.gym.errors import GymError
from zoo.gym.rounds.server.gate import Role
from zoo.gym.rounds.server.served import Served
from zoo.gym.rounds.storage import chunks, http
from zoo.gym.rounds.storage.chunks import fetch, store
from zoo.gym.rounds.storage.http import HttpStorage

PIECE = 1 << 16


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
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(os.urandom(40 * PIECE + 5))
    draw = random.Random(16)
    cuts = (draw.choice([draw.randrange(1, 3 * PIECE), draw.randrange(1, 900)]) for _ in range(50))
    _, _, port = world.server.url.rpartition(":")
    with relayed(int(port), cuts) as relay:
        place = world.storage.address.replace(f":{port}/", f":{relay.port}/")
        token = world.server.tokens[Role.CONTRIBUTOR]
        while relay.cuts < 50:
            with suppress(GymError):  # a new client each time, as after a crash
                stored = store(source, HttpStorage(place, token))
                fetch(stored, HttpStorage(place, token), copy)
        stored = store(source, HttpStorage(place, token))
    fetch(stored, world.storage, copy)
    assert copy.read_bytes() == source.read_bytes()
    assert (relay.cuts, max(arrived.values()), len(arrived)) == (50, 1, 42), arrived
