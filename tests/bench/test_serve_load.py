"""The load on a server process, at a small size: nothing is mixed up, and nothing is lost."""

import asyncio
import os
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from bench import serve_load

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(os.name != "posix", reason="/proc and SIGKILL"),
]


def test_nothing_is_mixed_up_or_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", "")  # set by the program; undone behind the test
    monkeypatch.setattr(serve_load, "VARIANTS", 2)

    async def run() -> tuple[set[str], list[str], dict[str, str], int]:
        world = await serve_load.world_of(tmp_path)
        try:
            await serve_load.load(world, clients=20, requests=100, kills=1, jobs=1)
            ended, usual = await serve_load.demanding(world.server, 3)
            return set(world.outcomes), await serve_load.lost(world), ended, len(usual)
        finally:
            await world.server.kill()

    outcomes, lost, ended, usual = asyncio.run(run())
    assert outcomes <= {"right", "left", "connection", "upload", *serve_load.PASSING}
    assert "right" in outcomes
    assert lost == []
    assert {name: status[:3] for name, status in ended.items()} == {
        "10 MB": "400",
        "17 MB": "413",
        "10,000 stops": "400",
        "endless schema": "200",
        "endless text": "200",
        "past the context": "400",
    }
    assert usual >= 3  # others are answered before those that ask too much
