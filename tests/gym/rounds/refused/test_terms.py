"""Terms that no round may have: each is refused by `round create` in a sentence, nothing stored."""

import json
from pathlib import Path

import pytest

from tests.gym.rounds.protocol.people import ALICE
from tests.gym.rounds.refused.conftest import Person, check_refused, files, start

WITNESS = "--witness"
GIVEN = {"--out": "round", "--min-contributors": "2", "--method": "mean", "--tensors": "*up_proj*"}

LESSONS = ("--out", "round", "--gate", str(ALICE.public), "--least", "1")

TERMS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "quorum 0": (("--min-contributors", "0"), 2, "manifest.quorum: expected at least 1, got 0"),
    "most below the quorum": (
        ("--min-contributors", "5", "--max-contributors", "2"),
        2,
        "most: expected at least the quorum, 5",
    ),
    "bulyan of 10 with f 3": (
        ("--method", "bulyan", "--f", "3", "--min-contributors", "10"),
        2,
        "expected at least 4 f + 3 = 15 contributors, got 10",
    ),
    "an f that is too large": (
        ("--method", "multi_krum", "--f", "5", "--min-contributors", "10"),
        2,
        "expected at least 2 f + 3 = 13 contributors, got 10",
    ),
    "an f below 0": (("--f", "-1"), 2, "manifest.f: expected at least 0, got -1"),
    "an f of the mean": (("--f", "1"), 2, "f: expected 0 for mean, got 1"),
    "epsilon 0": (("--private", "epsilon=0"), 2, "epsilon: expected 0.1 to 10, got 0.0"),
    "epsilon 11": (("--private", "epsilon=11"), 2, "epsilon: expected 0.1 to 10, got 11.0"),
    "epsilon NaN": (("--private", "epsilon=nan"), 2, "epsilon: expected 0.1 to 10, got nan"),
    "a delta that is too large": (
        ("--private", "epsilon=1,delta=.5"),
        2,
        "privacy.delta: expected less than 1 / 1000, the most contributors, got 0.5",
    ),
    "a delta that is no number": (
        ("--private", "epsilon=1,delta=nan"),
        2,
        "delta: expected a number between 0 and 1, got nan",
    ),
    "a clip of 0": (("--private", "epsilon=1,clip=0"), 2, "clip: expected a number up to 10000"),
    "a scale of the noise": (
        ("--private", "epsilon=1,noise_scale=.1"),
        2,
        "noise_scale: expected none: sigma is computed",
    ),
    "amplification": (
        ("--private", "epsilon=1,sampling=.1"),
        2,
        "sampling: expected none: who takes part is neither random nor secret",
    ),
    "a pool below 0": (("--pool", "-1"), 2, "manifest.pool: expected at least 0, got -1"),
    "days that are no number": (("--commit-days", "nan"), 2, "expected a number of days above 0"),
    "no second to commit": (
        ("--commit-days", "1e-6"),
        2,
        "--commit-days: expected a number of days above 0, a second or more, got 1e-06",
    ),
    "no second to reveal": (
        ("--reveal-days", "1e-6"),
        2,
        "--reveal-days: expected a number of days above 0, a second or more, got 1e-06",
    ),
    "a key of another form": ((WITNESS, "bob"), 2, "key: expected ed25519: and 64 hexadecimal"),
    "a key of small order": ((WITNESS, "ed25519:01" + "00" * 31), 2, "got one of small order"),
    "a witness twice": (
        (WITNESS, str(ALICE.public), WITNESS, str(ALICE.public)),
        2,
        "--witness: expected each key once",
    ),
    "a gate that anybody can sign for": (
        ("--gate", "ed25519:" + "00" * 32, "--evaluation", "base/config.json"),
        2,
        "got one of small order",
    ),
    "tensors of another base": (("--tensors", "x"), 2, "--tensors x: expected names of the base"),
    "rank 0": (("--form", "lowrank", "--rank", "0"), 2, "caps.rank: expected at least 1, got 0"),
    "a form that is none": (("--form", "ternary"), 2, "--form: expected one of signs, lowrank"),
    "examples that are not here": (("--evaluation", "no.jsonl"), 4, "expected a file of examples"),
    "an address upwards": (
        ("--out", "http://127.0.0.1:9/rounds/../x"),
        2,
        "expected the path of a round, got one with '.' or '..'",
    ),
    "an address upwards in escapes": (
        ("--out", "http://127.0.0.1:9/rounds/%2e%2e/x"),
        2,
        "expected the path of a round, got one with '.' or '..'",
    ),
    "a bucket upwards": (("--out", "s3://bucket/a/../x"), 2, "expected parts of lowercase letters"),
    "an address in the clear": (("--out", "http://example.org/rounds/x"), 2, "expected https for"),
    "a folder with files": (("--out", "base"), 2, "--out: expected a new or empty folder"),
}

NAMES = {
    "nothing": ("", "characters, at least 1, got ''"),
    "a null character": ("a\x00b", "expected text without control characters"),
    "an escape sequence": ("\x1b[31mred", "expected text without control characters"),
    "too long": ("x" * 201, "characters, at most 200"),
}


@pytest.mark.parametrize("case", TERMS)
def test_wrong_terms_start_no_round(case: str, person: Person) -> None:
    given, code, said = TERMS[case]
    before = files(Path())
    rest = [
        word
        for pair in GIVEN.items()
        if pair[0] not in given and not (pair[0] == "--method" and "--private" in given)
        for word in pair
    ]
    found = person("maker", "round", "create", "tiny", "--base", "base", *rest, *given)
    check_refused(found, code, said)
    assert stored(before) == []


@pytest.mark.parametrize("case", NAMES)
def test_a_wrong_name_starts_no_round(case: str, person: Person) -> None:
    name, said = NAMES[case]
    before = files(Path())
    rest = [word for pair in GIVEN.items() for word in pair]
    check_refused(person("maker", "round", "create", name, "--base", "base", *rest), 2, said)
    assert stored(before) == []


def stored(before: dict[str, bytes]) -> list[str]:
    """Returns what is new beside the homes of people, whose keys are made by the first command."""
    now = files(Path())
    assert before.items() <= now.items()
    return [name for name in now if name not in before and not name.startswith("homes/")]


@pytest.mark.parametrize("kind", ["delta", "experience"])
def test_the_log_is_no_witness_of_itself(kind: str, person: Person) -> None:
    own = person("maker", "keys", "create", "--json").json["key"]
    rest = [word for pair in GIVEN.items() for word in pair] if kind == "delta" else LESSONS
    found = person(
        "maker", "round", "create", "tiny", "--base", "base", *rest, "--kind", kind, WITNESS, own
    )
    check_refused(found, 2, "--witness: expected another key than yours, which writes the log")
    assert not Path("round").exists()


def test_a_phase_of_more_than_a_year_is_extended_by_a_year(person: Person) -> None:
    start(person, "--commit-days", "400")
    terms = json.loads(Path("round/manifest.json").read_text())["body"]["deadlines"]
    assert terms["extension_s"] == 365 * 86_400
