"""A storage that fails while a round is verified says nothing of the round: no check has failed."""

import resource
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path

import pytest

from tests.gym.cli.conftest import Outcome
from tests.gym.rounds.compute.conftest import Sources, run_round, sources
from tests.gym.rounds.protocol.people import LOG
from tests.gym.rounds.server.cutting import Cut, relayed
from tests.gym.rounds.server.world import World
from zoo.gym.cli import main
from zoo.gym.errors import NotAvailableError, StorageError
from zoo.gym.rounds.compute.applying import applied_results, apply_result
from zoo.gym.rounds.compute.publish import publish
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage import http
from zoo.gym.rounds.storage.http import HttpStorage, keep_token

__all__ = ["sources"]

Verify = Callable[[str], Outcome]
NEVER, POINTS = 1 << 40, 24


@pytest.fixture
def published(world: World, base: Path, sources: Sources, manifest: Manifest) -> World:
    run_round(world.storage, base, sources, manifest)
    publish(world.storage, LOG)
    return world


@pytest.fixture
def stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, World], Outcome]:
    """Verifies a round at an address as somebody who has seen nothing of it."""
    monkeypatch.setattr(http, "WAITS_S", ())

    def verified(address: str, world: World) -> Outcome:
        home = tmp_path / "stranger"
        shutil.rmtree(home, ignore_errors=True)
        monkeypatch.setenv("ZOO_GYM_HOME", str(home))
        keep_token(address, world.server.tokens[Role.CONTRIBUTOR])
        code = main(("round", "verify", address, "--json"))
        return Outcome(code, *capsys.readouterr())

    return verified


@contextmanager
def dying(world: World, after: int) -> Generator[tuple[str, Cut]]:
    """Yields the address of a server that is gone for good after so many bytes."""
    _, _, port = world.server.url.rpartition(":")
    first = Cut(after=after)
    with relayed(int(port), chain([first], repeat(Cut(after=0))), NEVER) as relay:
        yield world.storage.address.replace(f":{port}/", f":{relay.port}/"), first


@pytest.mark.slow
def test_a_server_that_dies_at_any_byte_is_an_error_of_its_own_and_no_failed_check(
    published: World, stranger: Callable[[str, World], Outcome]
) -> None:
    with dying(published, NEVER) as (address, whole):
        assert stranger(address, published).code == 0
    began = 0
    for point in range(1, POINTS):
        with dying(published, whole.carried * point // POINTS) as (address, _):
            found = stranger(address, published)
        assert found.code == 1, found
        assert "FAILED" not in found.stderr
        assert "the connection broke" in found.stderr
        if "checks" in found.json:
            began += 1
            assert found.json["passed"] is False
            assert "not checked all else: " in found.stderr
    assert began > POINTS // 2  # the round was open, and its checks had begun


@pytest.mark.slow
def test_a_server_that_is_away_is_not_available(
    published: World, stranger: Callable[[str, World], Outcome]
) -> None:
    with dying(published, NEVER) as (address, _):
        pass
    found = stranger(address, published)
    assert (found.code, "cannot be reached" in found.stderr) == (4, True)


@pytest.mark.slow
def test_a_check_that_failed_before_the_server_died_counts(
    published: World, stranger: Callable[[str, World], Outcome]
) -> None:
    for path in (published.folder / "chunks").rglob("?" * 64):
        if b'"zoo-gym round report 1"' in path.read_bytes():
            path.unlink()
    with dying(published, NEVER) as (address, whole):
        stranger(address, published)
    with dying(published, whole.carried * 9 // 10) as (address, _):
        found = stranger(address, published)
    assert (found.code, found.json["passed"]) == (2, False)
    assert "FAILED      published files" in found.stderr
    assert "not checked all else: " in found.stderr


@pytest.mark.slow
def test_a_full_disk_here_is_an_error_of_its_own(
    published: World, stranger: Callable[[str, World], Outcome]
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        found = stranger(published.storage.address, published)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (found.code, "FAILED" in found.stderr) == (1, False)
    assert "published.safetensors" in found.stderr


@pytest.mark.slow
def test_a_result_is_not_applied_when_its_round_could_not_be_verified(
    published: World, base: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(http, "WAITS_S", ())
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "stranger"))
    with dying(published, NEVER) as (address, _):
        token = published.server.tokens[Role.CONTRIBUTOR]
        opened = open_round(HttpStorage(address, token))
    with pytest.raises((StorageError, NotAvailableError), match="cannot be reached"):
        apply_result(opened, base)
    assert applied_results() == []
