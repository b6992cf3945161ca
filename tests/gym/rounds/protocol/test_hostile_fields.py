"""A log with any JSON in any field of any entry is refused in words, or valid; it never crashes."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.gym.rounds.protocol.people import (
    ALICE,
    BOB,
    EVALUATION,
    FIELDS,
    GATE,
    LOG,
    NEWCOMERS,
    close,
    commit,
    digest_of,
    reveal,
)
from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import round_id
from zoo.gym.rounds.protocol.objects import MANIFEST, body_of, encode
from zoo.gym.rounds.protocol.state import state_of
from zoo.gym.signing import OwnKey, Signed, sign

VALUES: tuple[object, ...] = ([], {}, [[]], [{}], None, True, -1, 1e308, 10**400, "", "x", "\x00")
LOSS = {"rows": 10, "mean": -0.1, "deviation": 0.01}


def entries() -> Iterator[tuple[OwnKey, str, dict[str, Any]]]:
    """Yields the entries of a round with records of each kind of a round of weights."""
    terms = {
        **FIELDS,
        "evaluation": EVALUATION,
        "newcomers": NEWCOMERS,
        "refit": digest_of("refit"),
    }
    opening = sign(LOG, MANIFEST, terms)
    name = round_id(opening)

    def of(entry: Signed, who: OwnKey) -> tuple[OwnKey, str, dict[str, Any]]:
        return who, entry.context, dict(entry.body)

    yield of(opening, LOG)
    for who, file in ((ALICE, "a"), (BOB, "b")):
        yield of(commit(who, name, file), who)
    yield of(close(name, "commit"), LOG)
    yield LOG, objects.LOT, body_of(name, nonce=digest_of("nonce of the lot"))
    for who, file in ((ALICE, "a"), (BOB, "b")):
        yield of(reveal(who, name, file), who)
    yield of(close(name, "reveal"), LOG)
    yield LOG, objects.REFUSAL, body_of(name, key=str(BOB.public), reason="late")
    alice, result = str(ALICE.public), digest_of("result")
    shown = {"sha256": EVALUATION["digest"], "suffix": ".jsonl", "digest": result, "bytes": 1000}
    gates: dict[str, dict[str, Any]] = {
        "shown": {"purpose": "evaluation", "chunks": result, **shown},
        "gate": {"contributor": alice, "digest": digest_of("a"), "loss": LOSS, "reason": None},
        "refit": {"losses": [1.0] * 8},
        "result": {"digest": result, "base": LOSS}
        | dict.fromkeys(("previous", "refusals", "triggers")),
        "value": {"contributor": alice, "result": result, "value": 0.1},
    }
    for kind, values in gates.items():
        yield GATE, objects.RECORD, body_of(name, kind=kind, values=values)
    yield LOG, objects.VOID, body_of(name, reason="too few")


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yields the path of each value in a body."""
    if path:
        yield path
    inner = dict(enumerate(value)) if isinstance(value, list) else value
    for key, one in inner.items() if isinstance(inner, dict) else ():
        yield from places(one, (*path, key))


def changed(body: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(body))
    at: Any = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return found


ROUND = list(entries())


def test_the_unchanged_log_is_valid() -> None:
    assert state_of([encode(sign(*one)) for one in ROUND]).reason == "too few"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(ROUND)))
def test_any_value_in_any_field_is_refused_in_words_or_valid(number: int) -> None:
    before = [encode(sign(*one)) for one in ROUND[:number]]
    who, context, body = ROUND[number]
    for path in places(body):
        for value in VALUES:
            log = [*before]
            try:
                log.append(encode(sign(who, context, changed(body, path, value))))
            except (InputError, ValueError):
                continue  # nobody can sign it
            with suppress(InputError):
                state_of(log)
