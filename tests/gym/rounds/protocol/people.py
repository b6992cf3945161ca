"""People with fixed keys, and what they sign in a small round."""

from hashlib import sha256
from typing import Any

from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, parse_manifest
from zoo.gym.rounds.protocol.objects import nonce_commitment
from zoo.gym.signing import OwnKey, PublicKey, Signed, sign
from zoo.gym.signing.keys import key_file, public_of, to_pem


def person(name: str) -> OwnKey:
    """Returns a key that depends on a name only."""
    private = sha256(name.encode()).digest()
    return OwnKey(private, PublicKey(public_of(private)))


def use(who: OwnKey) -> None:
    """Makes a key that of this home, as if its user had made it."""
    path = key_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(0o600)
    path.write_bytes(to_pem(who.private))


MAKER, LOG, GATE = person("maker"), person("log"), person("gate")
ALICE, BOB, CAROL, DAVE = (person(name) for name in ("alice", "bob", "carol", "dave"))


def digest_of(name: str) -> str:
    """Returns 64 hexadecimal digits that depend on a name only."""
    return sha256(name.encode()).hexdigest()


FIELDS: dict[str, Any] = {
    "format": "zoo-gym round 1",
    "name": "a small round",
    "kind": "delta",
    "base": {"identity": digest_of("base"), "model": "zen-pico", "revision": ""},
    "tensors": [{"name": "a", "shape": [4, 8]}, {"name": "b", "shape": [2, 2]}],
    "form": "signs",
    "caps": {"file_bytes": 10_000, "rank": 64, "value": 1.0},
    "method": "mean",
    "f": 0,
    "quorum": 2,
    "most": 3,
    "deadlines": {
        "commit": "2026-12-01T00:00:00Z",
        "reveal": "2026-12-02T00:00:00Z",
        "extension_s": 60,
    },
    "evaluation": None,
    "refit": None,
    "pool": 1000,
    "newcomers": None,
    "previous": None,
    "privacy": None,
    "lessons": None,
    "keys": [
        {"role": "log", "key": str(LOG.public), "expires": "2027-01-01T00:00:00Z"},
        {"role": "gate", "key": str(GATE.public), "expires": "2027-01-01T00:00:00Z"},
    ],
}


EVALUATION: dict[str, Any] = {
    "digest": digest_of("held-out rows"),
    "bytes": 1000,
    "margin": 0.0,
    "quality_threshold": 0.8,
    "validator": None,
    "refusals": None,
    "triggers": None,
}


NEWCOMERS: dict[str, Any] = {
    "rounds": 3,
    "share": 0.2,
    "nonce": nonce_commitment(digest_of("nonce of the lot")),
    "standings": digest_of("standings"),
}


def terms(**changes: Any) -> Manifest:
    """Returns the manifest of a small round."""
    return parse_manifest({**FIELDS, **changes})


def commit(who: OwnKey, round_id: str, name: str) -> Signed:
    """Returns a commitment to the file that a name stands for."""
    found = objects.commitment(digest_of(name), digest_of(f"nonce {name}"), who.public)
    return sign(who, objects.COMMIT, objects.body_of(round_id, commitment=found))


def reveal(who: OwnKey, round_id: str, name: str, **changes: object) -> Signed:
    """Returns what reveals that file."""
    fields = {
        "digest": digest_of(name),
        "bytes": 100,
        "chunks": digest_of(f"chunks {name}"),
        "nonce": digest_of(f"nonce {name}"),
        "examples": 10,
    }
    return sign(who, objects.REVEAL, objects.body_of(round_id, **{**fields, **changes}))


def close(round_id: str, phase: str, *, missed: bool = False, who: OwnKey = LOG) -> Signed:
    """Returns what closes a phase."""
    return sign(who, objects.CLOSE, objects.body_of(round_id, phase=phase, missed=missed))
