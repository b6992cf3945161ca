"""What a manifest accepts and refuses."""

from typing import Any

import pytest

from tests.gym.rounds.protocol.people import (
    ALICE,
    EVALUATION,
    FIELDS,
    LOG,
    MAKER,
    NEWCOMERS,
    digest_of,
    terms,
)
from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol.manifest import manifest_body, parse_manifest, round_id
from zoo.gym.rounds.protocol.objects import MANIFEST
from zoo.gym.signing import sign


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert manifest_body(parse_manifest(FIELDS)) == FIELDS


def test_the_id_of_a_round_changes_with_any_term() -> None:
    ids = {
        round_id(sign(MAKER, MANIFEST, manifest_body(found)))
        for found in (terms(), terms(pool=1), terms(quorum=3), terms(name="another"))
    }
    assert len(ids) == 4


KEY = FIELDS["keys"][0]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"noise_scale": 1.0}, "noise_scale"),
    "another format": ({"format": "zoo-gym round 2"}, "expected format 'zoo-gym round 1'"),
    "a base that few Pythons know": (
        {"base": {**FIELDS["base"], "model": "a\U0001fae8"}},
        "expected printable characters of Unicode 3.2",
    ),
    "a base that turns the line round": (
        {"base": {**FIELDS["base"], "model": "a\u202eb"}},
        "expected printable characters of Unicode 3.2",
    ),
    "address as name": ({"name": "https://host/rounds/x"}, "expected one that is no address"),
    "digest": ({"base": {**FIELDS["base"], "identity": "abc"}}, "base.identity"),
    "tensors in disorder": ({"tensors": FIELDS["tensors"][::-1]}, "names in order"),
    "tensor twice": ({"tensors": [FIELDS["tensors"][0]] * 2}, "names in order, each once"),
    "no tensors": ({"tensors": []}, "tensors"),
    "empty tensor": ({"tensors": [{"name": "a", "shape": [0, 2]}]}, "positive lengths"),
    "vector as signs": ({"tensors": [{"name": "a", "shape": [2]}]}, "a matrix in form signs"),
    "form": ({"form": "ternary"}, "form"),
    "method": ({"method": "soup"}, "expected one of byzantine_robust"),
    "krum of 2": ({"method": "krum"}, "expected at least"),
    "one winner under a cap": (
        {"method": "krum", "quorum": 5, "most": 9, "newcomers": NEWCOMERS},
        "another one than krum with a cap on newcomers",
    ),
    "bulyan of 10 with f 3": ({"method": "bulyan", "quorum": 10, "most": 10, "f": 3}, "bulyan"),
    "f of a mean": ({"f": 1}, "expected 0 for mean"),
    "most below quorum": ({"most": 1}, "at least the quorum"),
    "deadlines": (
        {"deadlines": {**FIELDS["deadlines"], "reveal": "2026-11-30T00:00:00Z"}},
        "reveal after commit",
    ),
    "no time": ({"deadlines": {**FIELDS["deadlines"], "commit": "tomorrow"}}, "deadlines.commit"),
    "a month that is none": (
        {"deadlines": {**FIELDS["deadlines"], "reveal": "2026-19-01T00:00:00Z"}},
        "deadlines.reveal: expected a time as 2026-12-31T23:59:59Z, got '2026-19-01T00:00:00Z'",
    ),
    "a deadline that cannot be extended": (
        {
            "deadlines": {**FIELDS["deadlines"], "reveal": "9999-12-31T23:59:59Z"},
            "keys": [{**KEY, "expires": "9999-12-31T23:59:59Z"}],
        },
        "deadlines.reveal: expected a time before the year 9990",
    ),
    "no writer": ({"keys": [{**KEY, "role": "gate"}]}, "expected one of role log, got 0"),
    "two writers": ({"keys": [KEY, KEY]}, "expected one of role log, got 2"),
    "key": ({"keys": [{**KEY, "key": "abc"}]}, "expected ed25519:"),
    "a witness of itself": (
        {"keys": [*FIELDS["keys"], {**KEY, "role": "witness"}]},
        "keys: expected a witness with another key than the log's, got the same",
    ),
    "a witness twice": (
        {"keys": [*FIELDS["keys"], *[{**KEY, "role": "witness", "key": str(ALICE.public)}] * 2]},
        f"keys: expected a key once in a role, got {ALICE.public.fingerprint} twice as witness",
    ),
    "a gate twice": (
        {"keys": [KEY, *[{**KEY, "role": "gate"}] * 2]},
        "keys: expected a key once in a role, got .* twice as gate",
    ),
    "lessons": ({"kind": "experience"}, "lessons: expected their terms"),
    "a gate without a key of its role": (
        {"evaluation": EVALUATION, "keys": [KEY]},
        "keys: expected one of role gate, which measures, got none",
    ),
    "a re-fit without one": (
        {"refit": FIELDS["base"]["identity"], "keys": [KEY]},
        "keys: expected one of role gate",
    ),
    "half an evaluation": ({"evaluation": {"digest": EVALUATION["digest"]}}, "evaluation.bytes"),
    "a margin below 0": ({"evaluation": {**EVALUATION, "margin": -0.1}}, "evaluation.margin"),
    "a validator that is no function": (
        {"evaluation": {**EVALUATION, "validator": "foo"}},
        "evaluation.validator: expected module:function, got 'foo'",
    ),
    "a validator that is a file": (
        {"evaluation": {**EVALUATION, "validator": "checks.py:ours"}},
        "evaluation.validator: expected module:function, got 'checks.py:ours'",
    ),
    "a last result that nothing compares with": (
        {"previous": FIELDS["base"]["identity"]},
        "previous: expected an evaluation set",
    ),
    "newcomers without standings": (
        {"newcomers": {"rounds": 3, "share": 0.2, "nonce": FIELDS["base"]["identity"]}},
        "newcomers.standings",
    ),
    "nobody is new": (
        {"newcomers": {**NEWCOMERS, "rounds": 0}},
        "newcomers.rounds: expected at least 1, got 0",
    ),
    "no place for newcomers": ({"newcomers": {**NEWCOMERS, "share": 0.0}}, "newcomers.share"),
    "reputations": ({"method": "weighted_mean"}, "expected standings for weighted_mean"),
    "votes of floats": ({"method": "majority", "form": "float"}, "form signs for majority"),
    "an old key": ({"keys": [{**KEY, "expires": "2026-12-01T00:00:00Z"}]}, "to expire after"),
    "a role that does nothing": ({"keys": [KEY, {**KEY, "role": "reader"}]}, "keys.1.role"),
    "number as text": ({"quorum": "2"}, "quorum"),
    "not a number": ({"caps": {**FIELDS["caps"], "value": float("nan")}}, "caps.value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_manifest_is_refused_by_name(case: str) -> None:
    changes, said = REFUSED[case]
    with pytest.raises(InputError, match=said):
        terms(**changes)


@pytest.mark.parametrize("name", FIELDS)
def test_a_manifest_without_a_field_is_refused(name: str) -> None:
    fields: dict[str, Any] = {key: value for key, value in FIELDS.items() if key != name}
    with pytest.raises(InputError):
        parse_manifest(fields)


def test_a_manifest_with_measurements_is_read_as_it_was_written() -> None:
    fields = {**FIELDS, "evaluation": EVALUATION, "refit": digest_of("public")}
    assert manifest_body(parse_manifest(fields)) == fields


def test_the_keys_of_a_role_are_found() -> None:
    assert terms().keys_of("log") == {LOG.public}
    assert terms().keys_of("witness") == frozenset()
