"""Entries and manifests that no storage keeps: a server refuses each, and so does the log's writer.

Paths, hosts, origins, tokens, sizes and heads are in tests/gym/rounds/server/test_server.py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gym.rounds.protocol.people import ALICE, FIELDS, LOG, commit, reveal
from tests.gym.rounds.server.test_server import inbox
from tests.gym.rounds.server.world import World, world
from tests.gym.rounds.storage.conftest import address, server, shared_server
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.session.opening import MANIFEST
from zoo.gym.rounds.session.writing import create_round, take
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.signing import canonical, sign

__all__ = ["address", "server", "shared_server", "world"]

Fields = dict[str, Any]


def entry(round_: str) -> Fields:
    found: Fields = dict(commit(ALICE, round_, "a file").as_json())
    return found


def without_signature(round_: str) -> bytes:
    return canonical({**entry(round_), "signature": "00" * 64})


def of_small_order(round_: str) -> bytes:
    return canonical({**entry(round_), "key": "ed25519:01" + "00" * 31})


def with_blanks(round_: str) -> bytes:
    return json.dumps(entry(round_), indent=1).encode()


def with_another_field(round_: str) -> bytes:
    body = objects.body_of(round_, commitment="0" * 64, noise_scale=1)
    return objects.encode(sign(ALICE, objects.COMMIT, body))


def without_a_field(round_: str) -> bytes:
    return objects.encode(sign(ALICE, objects.COMMIT, objects.body_of(round_)))


def of_another_kind(round_: str) -> bytes:
    return objects.encode(sign(ALICE, "a delta", objects.body_of(round_)))


def a_reveal_without_commitment(round_: str) -> bytes:
    return objects.encode(reveal(ALICE, round_, "a file"))


def a_result_of_a_stranger(round_: str) -> bytes:
    body = objects.body_of(round_, digest="0" * 64, report="0" * 64)
    return objects.encode(sign(ALICE, objects.RESULT, body))


def not_json(round_: str) -> bytes:
    return b"\xff" + round_.encode()


ENTRIES: dict[str, tuple[Callable[[str], bytes], str]] = {
    "a bad signature": (without_signature, "expected"),
    "a key of small order": (of_small_order, "expected a key of its owner alone"),
    "JSON with blanks": (with_blanks, "expected canonical JSON"),
    "an unknown field": (with_another_field, "expected round, commitment, got 'noise_scale'"),
    "a missing field": (without_a_field, "commit.commitment: expected another value, got None"),
    "another kind": (of_another_kind, "expected an object of a round"),
    "a reveal before its time": (a_reveal_without_commitment, "expected in phase reveal"),
    "a stranger's result": (a_result_of_a_stranger, "expected a signature of a key of role log"),
    "no JSON": (not_json, "expected a signed object in JSON"),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_an_entry_that_may_not_follow_is_not_logged(
    case: str, storage: FolderStorage, manifest: Manifest
) -> None:
    make, said = ENTRIES[case]
    content = make(create_round(storage, manifest, LOG))
    storage.write(inbox(content), content)
    before = log_of(storage)
    taken = take(storage, LOG)
    ((name, why),) = taken.refused
    assert (name, list(taken.added)) == (inbox(content), [])
    assert said in why
    assert log_of(storage) == before


def log_of(storage: FolderStorage) -> dict[str, bytes | None]:
    return {name: storage.read(name) for name in storage.names("log")}


KEYS: list[Fields] = FIELDS["keys"]
MANIFESTS: dict[str, tuple[Fields, str]] = {
    "quorum 0": ({"quorum": 0}, "manifest.quorum: expected at least 1, got 0"),
    "an unknown field": ({"noise_scale": 1}, "manifest.noise_scale: expected no field of this"),
    "bulyan of 10 with f 3": (
        {"method": "bulyan", "f": 3, "quorum": 10, "most": 10},
        "expected at least 4 f + 3 = 15",
    ),
    "an expired key": (
        {"keys": [{**KEYS[0], "expires": "2026-12-01T00:00:00Z"}]},
        "expected to expire after",
    ),
    "a gate of small order": (
        {"keys": [KEYS[0], {**KEYS[1], "key": "ed25519:01" + "00" * 31}]},
        "got one of small order",
    ),
    "a name with a null character": ({"name": "a\x00"}, "text without control characters"),
    "a path as identity": (
        {"base": {**FIELDS["base"], "identity": "../x"}},
        "base.identity: expected 64 hexadecimal digits, got '../x'",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MANIFESTS)
def test_a_server_keeps_no_round_with_wrong_terms(case: str, world: World) -> None:
    changes, said = MANIFESTS[case]
    content = objects.encode(sign(LOG, objects.MANIFEST, {**FIELDS, **changes}))
    before = world.files()
    found = world.ask("PUT", f"/rounds/new/{MANIFEST}", content, role=Role.MAKER)
    assert (found.status, said in found.message) == (422, True), found.message
    assert world.files() == before
    assert not Path(world.folder.parent, "new").exists()
