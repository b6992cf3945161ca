"""What commands of rounds refuse: with an exit code, in a sentence, and nothing is stored."""

from pathlib import Path

import pytest

from tests.gym.cli.test_communities import Call, content, person, started

__all__ = ["person"]  # a fixture

REFUSED = {
    "measure what nobody promised": (
        ("maker", "measure", "--round", "round", "--base", "base"),
        2,
        "expected an evaluation set, got none",
    ),
    "a margin of nothing": (
        ("eve", "create", "x", "--base", "base", "--out", "new", "--margin", ".1"),
        2,
        "--margin: has no effect without --evaluation",
    ),
    "newcomers of nothing": (
        ("eve", "create", "x", "--base", "base", "--out", "new", "--newcomers-share", ".1"),
        2,
        "--newcomers-share: has no effect without --after",
    ),
    "nobody is new": (
        (
            *("eve", "create", "x", "--base", "base", "--out", "new"),
            *("--after", "round", "--newcomers-rounds", "0"),
        ),
        2,
        "--newcomers-rounds: expected 1 to 1000 accepted rounds, got 0",
    ),
    "a gate of nothing": (
        ("eve", "create", "x", "--base", "base", "--out", "new", "--gate", "abc"),
        2,
        "--gate: has no effect without",
    ),
    "reputations of nobody": (
        (
            "eve",
            "create",
            "x",
            "--base",
            "base",
            "--out",
            "new",
            "--method",
            "weighted_mean",
            "--tensors",
            "*",
        ),
        2,
        "expected standings for weighted_mean, got none",
    ),
    "repeat no measurements": (
        ("eve", "verify", "round", "--base", "base"),
        2,
        "--base: has no effect without --measure",
    ),
    "repeat without a gate": (
        ("eve", "verify", "round", "--measure"),
        2,
        "--measure: has no effect in a round without a gate",
    ),
    "repeat no comparison": (
        ("eve", "verify", "round", "--previous", "round/manifest.json"),
        2,
        "--previous: has no effect without --measure",
    ),
    "create a second round": (
        ("maker", "create", "again", "--base", "base", "--out", "round"),
        2,
        "expected a new or empty folder",
    ),
    "krum of two": (
        (
            "eve",
            "create",
            "x",
            "--base",
            "base",
            "--out",
            "new",
            "--method",
            "krum",
            "--tensors",
            "*",
            "--min-contributors",
            "2",
        ),
        2,
        "expected at least 2 f + 3 = 3 contributors, got 2",
    ),
    "no such tensor": (
        ("eve", "create", "x", "--base", "base", "--out", "new", "--tensors", "nothing*"),
        2,
        "expected names of the base, got none",
    ),
    "another's log": (("eve", "take", "--round", "round"), 4, "expected your key, got nothing"),
    "reveal too early": (("maker", "reveal", "--round", "round"), 4, "expected phase reveal"),
    "aggregate too early": (("maker", "aggregate", "--round", "round"), 4, "expected phase comp"),
    "aggregate by another rule": (
        ("maker", "aggregate", "--round", "round", "--method", "byzantine-robust"),
        2,
        "expected mean, the rule of round tiny",
    ),
    "aggregate of too few": (
        ("maker", "aggregate", "--round", "round", "--method", "mean", "--min-contributors", "3"),
        2,
        "expected at least 3, got 0 of 3",
    ),
    "apply too early": (("eve", "apply", "round", "--base", "base"), 4, "a published result"),
    "no round": (("eve", "show"), 4, "expected a round, got none"),
    "an address of another kind": (
        ("eve", "show", "ftp://example.org/r"),
        2,
        "expected https://HOST",
    ),
    "an address in the clear": (("eve", "show", "http://example.org/r"), 2, "expected https for"),
    "a password in an address": (("eve", "show", "https://x:y@h/r"), 2, "expected no password"),
    "an address when offline": (
        (
            "eve",
            "contribute",
            "ann",
            "--round",
            "https://example.org/r",
            "--base",
            "base",
            "--offline",
        ),
        4,
        "expected a folder with --offline",
    ),
    "no change": (
        ("eve", "contribute", "base", "--round", "round", "--base", "base"),
        2,
        "got no change from the base",
    ),
    "no fine-tune": (
        ("eve", "contribute", "missing", "--round", "round", "--base", "base"),
        4,
        "expected a run",
    ),
    "examples": (
        ("eve", "contribute", "ann", "--round", "round", "--examples", "-1"),
        2,
        "--examples: expected none, got -1: the rule mean",
    ),
    "examples that nobody counts": (
        ("eve", "contribute", "ann", "--round", "round", "--base", "base", "--examples", "5"),
        2,
        "the rule mean does not weigh by",
    ),
    "a rank of signs": (
        ("eve", "create", "x", "--base", "base", "--out", "new", "--rank", "8"),
        2,
        "--rank: expected none in form signs",
    ),
    "days": (
        ("eve", "create", "x", "--base", "base", "--out", "new", "--commit-days", "0"),
        2,
        "expected a number of days above 0",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence_and_nothing_is_stored(
    case: str, person: Call
) -> None:
    started(person)
    before = content(Path("round"))
    (who, *words), code, said = REFUSED[case]
    found = person(who, "round", *words)
    assert (found.code, said in found.stderr) == (code, True), found.stderr
    assert {
        path: path.read_bytes() for path in Path("round").rglob("*") if path.is_file()
    } == before
    assert not Path("new").exists()


def test_data_in_place_of_a_fine_tune_is_named(person: Call) -> None:
    started(person)
    Path("mine.jsonl").write_text('{"text": "hello"}\n')
    words = ("round", "contribute", "mine.jsonl", "--round", "round", "--base", "base")
    found = person("ann", *words)
    assert (found.code, "adapter, a model), got data" in found.stderr) == (2, True), found.stderr
    assert "train on it first: zoo-gym train mine.jsonl" in found.stderr
