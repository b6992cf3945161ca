"""`zoo-gym round sync` and `void`: what they ask before a phase or a round ends."""

import shutil
from pathlib import Path

import pytest

from tests.gym.cli.test_communities import Call, committed, person, started

__all__ = ["person"]  # a fixture


@pytest.mark.slow
def test_a_round_is_not_made_void_without_consent(person: Call) -> None:
    started(person)
    assert person("maker", "round", "take", "--close", "--yes").code == 0
    second = person("maker", "round", "take", "--close")
    assert (second.code, "makes the round void for good" in second.stderr) == (4, True)
    assert person("maker", "round", "show", "--json").json["phase"] == "commit"
    assert person("maker", "round", "take", "--close", "--yes", "--json").json["phase"] == "void"
    void = person("eve", "round", "verify", "round", "--json")
    assert (void.code, void.json["passed"], void.json["recomputed"]) == (0, None, False)
    said = "there is no result: 0 of 2 contributors in phase commit, which was extended once"
    assert {"name": "void", "detail": said, "ok": True} in void.json["checks"]
    shown = person("eve", "round", "verify", "round").stdout
    assert "4 checks hold, 0 failed: the round is void, there is no result" in shown
    early = person("maker", "round", "aggregate", "round")
    assert (early.code, "hint" in early.stderr) == (4, False)


@pytest.mark.slow
def test_closing_twice_does_not_spend_the_extension_of_the_next_phase(person: Call) -> None:
    started(person)
    for who in ("ann", "ben"):
        committed(person, who)
    assert person("maker", "round", "take", "--close").code == 0
    again = person("maker", "round", "take", "--close")
    assert (again.code, "closing now spends its only extension" in again.stderr) == (4, True)
    shown = person("maker", "round", "show").stdout
    assert ("phase: reveal until" in shown, "(extended)" in shown) == (True, False)
    agreed = person("maker", "round", "take", "--close", "--yes")
    assert (agreed.code, "(extended)" in agreed.stdout) == (0, True)


@pytest.mark.slow
def test_a_phase_is_extended_without_a_question_after_its_deadline(
    person: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(person)
    monkeypatch.setattr("zoo.gym.cli.round.sync.is_past", bool)
    found = person("maker", "round", "take", "--close")
    assert "0 of 2 contributors in phase commit: the phase is extended, once" in found.stderr
    assert (found.code, "(extended)" in found.stdout) == (0, True)


@pytest.mark.slow
def test_the_maker_alone_makes_a_round_void_by_word(person: Call) -> None:
    started(person)
    words = ("community", "void", "round", "--because", "the gate's key is lost")
    asked = person("maker", *words)
    assert (asked.code, "agree with --yes" in asked.stderr) == (4, True)
    person("ann", "keys", "create")
    other = person("ann", *words, "--yes")
    assert (other.code, "the key of the log's writer" in other.stderr) == (2, True)
    assert "only the round's maker can do that" in other.stderr
    found = person("maker", *words, "--yes", "--json")
    assert (found.code, found.json["phase"]) == (0, "void")
    assert found.json["reason"] == "the gate's key is lost"
    again = person("maker", *words, "--yes")
    assert (again.code, "got phase void" in again.stderr) == (4, True)
    checked = person("eve", "round", "verify", "round")
    assert "by the word of the log's writer alone: the gate's key is lost" in checked.stdout


@pytest.mark.slow
def test_a_reason_that_the_log_does_not_show_stays_a_word(person: Call) -> None:
    started(person)
    assert person("maker", "round", "take", "--close", "--yes").code == 0  # extended
    words = ("round", "void", "--because", "I do not like them", "--yes")
    assert person("maker", *words).code == 0
    found = person("eve", "round", "verify", "round")
    assert "by the word of the log's writer alone: I do not like them" in found.stdout


@pytest.mark.slow
def test_a_round_of_too_few_contributions_is_made_void_with_consent(person: Call) -> None:
    started(person)
    for who in ("ann", "ben"):
        words = ("contribute", "ann", "--round", "round", "--base", "base", "--send")
        person(who, "round", *words)
    person("maker", "round", "take", "--close")
    for who in ("ann", "ben"):
        person(who, "round", "reveal", "--send")
    person("maker", "round", "take", "--close")
    first = person("maker", "round", "aggregate")
    assert (first.code, "expected 2 contributions, got 1 of 2" in first.stderr) == (2, True)
    assert "zoo-gym round aggregate tiny --yes" in first.stderr
    assert person("maker", "round", "show", "--json").json["phase"] == "compute"
    second = person("maker", "round", "aggregate", "--yes")
    assert (second.code, "is void: 1 of 2 contributions count" in second.stderr) == (1, True)
    shown = person("eve", "round", "show", "round").stdout
    assert "phase: void: 1 of 2 contributions count" in shown
    assert "refused: a copy of the contribution of" in shown


@pytest.mark.slow
def test_a_contributor_to_a_void_round_was_not_late(person: Call) -> None:
    started(person)
    committed(person, "ann")
    person("maker", "round", "take")
    person("maker", "round", "void", "round", "--because", "enough", "--yes")
    assert "you committed already, and the round is void" in committed(person, "ann").stderr
    shown = person("ann", "round", "show", "round").stdout
    assert "you: committed, not revealed\n" in shown


@pytest.mark.slow
def test_a_commitment_is_not_waiting_once_its_phase_is_closed(person: Call) -> None:
    shutil.copytree("ann", "zoe")
    started(person)
    late = Path("round", committed(person, "zoe").json["receipt"])
    content = late.read_bytes()
    late.unlink()
    for who in ("ann", "ben"):
        committed(person, who)
    assert person("maker", "round", "take", "--close").code == 0
    late.write_bytes(content)
    assert "you: committed; it was not taken\n" in person("zoe", "round", "show").stdout
