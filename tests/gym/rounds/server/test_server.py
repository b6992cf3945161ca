"""What a server of rounds takes, and what it refuses and leaves as it was."""

from hashlib import sha256
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.http_guard.toy import running
from tests.gym.rounds.protocol.people import ALICE, BOB, LOG
from tests.gym.rounds.server.world import World
from zoo.core import digest
from zoo.gym.files.lock import locked
from zoo.gym.rounds.log.reader import CHECKPOINT
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, manifest_body
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.run import CommunityLearningServer, server_config
from zoo.gym.rounds.session.opening import MANIFEST, open_round
from zoo.gym.rounds.session.writing import create_round, lock_file, take
from zoo.gym.rounds.storage import http
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.rounds.storage.http import HttpStorage, open_storage
from zoo.gym.signing import OwnKey, sign

CHUNK = chunk_name(digest(b"some bytes"))
LARGE = bytes((4 << 20) + 1)


def entry(round_: str, who: OwnKey) -> bytes:
    body = objects.body_of(round_, commitment=who.public.raw.hex())
    return objects.encode(sign(who, objects.COMMIT, body))


def inbox(content: bytes) -> str:
    return f"inbox/{sha256(content).hexdigest()}.json"


@pytest.mark.slow
def test_a_chunk_is_stored_once_and_its_size_is_known(world: World) -> None:
    assert world.ask("HEAD", CHUNK).status == 404
    assert world.ask("PUT", CHUNK, b"some bytes", role=Role.MAKER).status == 201
    assert world.ask("PUT", CHUNK, b"some bytes").status == 204
    found = world.ask("HEAD", CHUNK)
    assert (found.status, found.headers["content-length"], found.body) == (200, "10", b"")
    assert world.ask("GET", CHUNK).body == b"some bytes"


WHO = {
    "no token": ({"role": None}, 401, "token: expected one of this server"),
    "another token": ({"role": None, "Authorization": "Bearer x"}, 401, "got none or another"),
    "no bearer": ({"role": None, "Authorization": "Basic eDp5"}, 401, "got none or another"),
    "another host": ({"Host": "example.org"}, 421, "host: expected a name of this server"),
    "a host with its address": ({"Host": "127.0.0.1.example.org"}, 421, "host: expected"),
    "a page": ({"Origin": "http://127.0.0.1"}, 403, "origin: expected no page of a browser"),
    "a page without an address": ({"Origin": "null"}, 403, "origin: expected no page"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WHO)
def test_who_may_not_ask_reads_and_writes_nothing(case: str, world: World) -> None:
    options, status, said = WHO[case]
    before = world.files()
    for method, path, body in (("GET", MANIFEST, None), ("PUT", CHUNK, b"some bytes")):
        found = world.ask(method, path, body, **options)  # type: ignore[arg-type]
        assert (found.status, said in found.message) == (status, True)
    assert world.files() == before


REFUSED: dict[str, tuple[Role, str, bytes, int]] = {
    "a path upwards": (Role.MAKER, "../../x", b"x", 422),
    "an escaped path upwards": (Role.MAKER, "chunks/%2e%2e/%2e%2e/x", b"x", 422),
    "an escaped slash": (Role.MAKER, "/rounds/..%2f..%2fx/manifest.json", b"x", 422),
    "a hidden name": (Role.MAKER, ".x", b"x", 422),
    "another name": (Role.MAKER, "notes.txt", b"x", 422),
    "capitals": (Role.MAKER, CHUNK.upper(), b"some bytes", 422),
    "a null byte": (Role.MAKER, "chunks/00/%00", b"x", 422),
    "another digest": (Role.MAKER, CHUNK, b"other bytes", 422),
    "nothing": (Role.MAKER, CHUNK, b"", 422),
    "the list of names": (Role.MAKER, "names", b"x", 405),
    "a large chunk": (Role.CONTRIBUTOR, chunk_name(digest(LARGE)), LARGE, 413),
    "an entry without a signature": (Role.CONTRIBUTOR, inbox(b"{}"), b"{}", 422),
    "an entry under another name": (Role.CONTRIBUTOR, inbox(b"x"), b"{}", 422),
    "an entry of another round": (
        Role.CONTRIBUTOR,
        inbox(entry("0" * 64, ALICE)),
        entry("0" * 64, ALICE),
        422,
    ),
    "a contributor's head": (Role.CONTRIBUTOR, CHECKPOINT, b"x", 403),
    "a contributor's tile": (Role.CONTRIBUTOR, "log/tile/0/000.p/1", bytes(32), 403),
    "a contributor's manifest": (Role.CONTRIBUTOR, MANIFEST, b"{}", 403),
    "a manifest that is none": (Role.MAKER, "/rounds/new/manifest.json", b"{}", 422),
    "a head that is none": (Role.MAKER, CHECKPOINT, b"x", 422),
    "another tile under the head": (Role.MAKER, "log/tile/0/000.p/1", bytes(32), 409),
    "a tile of another length": (Role.MAKER, "log/tile/0/000.p/2", bytes(32), 422),
    "a round that is not here": (Role.CONTRIBUTOR, f"/rounds/x/{CHUNK}", b"some bytes", 404),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_what_may_not_be_stored_is_refused_and_nothing_changes(case: str, world: World) -> None:
    role, path, body, status = REFUSED[case]
    before = world.files()
    found = world.ask("PUT", path, body, role=role)
    assert (found.status, bool(found.message)) == (status, True)
    assert world.files() == before
    assert "/" not in found.message.replace(CHUNK, "").replace(path, "")  # no path of the server


@pytest.mark.slow
def test_a_second_manifest_and_another_base_are_refused(
    world: World, manifest: Manifest, tmp_path: Path
) -> None:
    other = manifest.model_copy(update={"pool": 5})
    with raises("rounds.round_exists"):
        create_round(world.storage, other, LOG)
    found = objects.encode(sign(LOG, objects.MANIFEST, manifest_body(other)))
    assert world.ask("PUT", MANIFEST, found, role=Role.MAKER).status == 409

    config = server_config({"folder": tmp_path / "another", "port": 0})
    with running(CommunityLearningServer("zen-pico", config)) as strict:
        place = open_storage(f"{strict.url}/rounds/summer")
        with raises("rounds.server_refused", "expected a round about zen-pico, got tiny"):
            create_round(place, manifest, LOG)


@pytest.mark.slow
def test_a_stale_head_is_refused(world: World) -> None:
    old = world.ask("GET", CHECKPOINT).body
    content = entry(world.round, ALICE)
    world.ask("PUT", inbox(content), content)
    take(world.storage, LOG)
    found = world.ask("PUT", CHECKPOINT, old, role=Role.MAKER)
    assert found.status == 409
    assert "expected one that continues the 2 entries here" in found.message
    assert len(open_round(world.storage).entries) == 2


@pytest.mark.slow
def test_of_two_who_write_the_log_at_once_one_is_refused_and_can_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = open_round(world.storage)
    for who in (ALICE, BOB):
        content = entry(world.round, who)
        assert world.ask("PUT", inbox(content), content).status == 201
    put = HttpStorage.replace

    def overtaken(self: HttpStorage, name: str, content: bytes) -> None:
        if name == CHECKPOINT:
            monkeypatch.setattr(HttpStorage, "replace", put)
            local = open_storage(str(world.folder))
            take(local, LOG)  # the maker's other program, on the folder itself
        put(self, name, content)

    monkeypatch.setattr(HttpStorage, "replace", overtaken)
    with raises("rounds.server_failed", r"another|continues"):
        create_and_take(world, ALICE)
    assert len(open_round(world.storage).entries) == len(one.entries) + 2
    take(world.storage, LOG)


def create_and_take(world: World, who: OwnKey) -> None:
    """Adds one entry, without what else is in the inbox."""
    from zoo.gym.rounds.session.writing import writer_of

    with writer_of(world.storage, LOG) as append:
        append.add([objects.decode(entry(world.round, who))])


@pytest.mark.slow
def test_a_log_that_another_program_writes_is_busy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.gym.rounds.server.served.WAIT_S", 0.01)
    monkeypatch.setattr(http, "WAITS_S", ())
    folder = str(world.folder.resolve())
    with locked(lock_file(world.round, folder)) as held:
        assert held
        assert world.ask("PUT", CHECKPOINT, b"x", role=Role.MAKER).status == 503


@pytest.mark.slow
def test_names_come_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.gym.rounds.server.served.MOST_NAMES", 2)
    monkeypatch.setattr("zoo.gym.rounds.server.app.MOST_NAMES", 2)
    contents = [bytes([number]) for number in range(5)]
    for content in contents:
        world.storage.write(chunk_name(digest(content)), content)
    assert world.storage.names("chunks") == sorted(chunk_name(digest(one)) for one in contents)


@pytest.mark.slow
def test_more_bytes_than_the_server_keeps_are_refused(
    tmp_path: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    config = server_config({"folder": tmp_path / "served", "port": 0, "most_bytes": 20_000})
    with running(CommunityLearningServer(None, config)) as server:
        place = open_storage(f"{server.url}/rounds/summer")
        create_round(place, manifest, LOG)
        content = bytes(20_000)
        for _ in range(2):
            with raises("rounds.server_failed", "expected at most 20000 bytes in all"):
                place.write(chunk_name(digest(content)), content)
        assert place.names("chunks") == []
        place.write(chunk_name(digest(b"x")), b"x")


SETTINGS: dict[str, tuple[dict[str, object], str]] = {
    "what no server may": ({"host": "0.0.0.0"}, "server: .*expected TLS for other machines"),
    "an unknown one": ({"prot": 1}, "prot: no such setting"),
    "a port": ({"port": 70_000}, "port: expected less than|port: expected at most"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_would_not_be_safe_are_refused(case: str, tmp_path: Path) -> None:
    fields, said = SETTINGS[case]
    with raises("rounds.server_setting", said):
        server_config({"folder": tmp_path, **fields})


def test_an_unknown_setting_is_named_before_a_missing_one() -> None:
    said = r"server.foldr: no such setting. Did you mean 'folder'\?"
    with raises("rounds.server_setting", said):
        CommunityLearningServer(None, {"foldr": "rounds"})
