"""Which round a command is about, when several are known on a machine."""

import json
import shutil
from pathlib import Path

import pytest

from tests.gym.cli.test_communities import Call, committed, person, revealed, rows_for, started

__all__ = ["person"]  # a fixture


def second(person: Call, name: str, out: str = "second") -> None:
    words = ("round", "create", name, "--base", "base", "--out", out, "--tensors", "*")
    found = person("maker", *words, "--min-contributors", "2", "--method", "mean")
    assert found.code == 0, found.stderr


@pytest.mark.slow
def test_without_a_name_a_command_takes_the_only_round_that_has_not_ended(person: Call) -> None:
    revealed(person)
    second(person, "next")
    both = person("maker", "round", "aggregate")
    assert (both.code, "several rounds are known: name one of next (" in both.stderr) == (2, True)
    assert person("maker", "round", "aggregate", "tiny").code == 0
    shown = person("maker", "round", "show")
    assert "form signs, 1 tensor, 2 to" in shown.stdout
    assert "round next (" in shown.stdout, shown.stderr
    words = ("round", "void", "next", "--because", "enough", "--yes")
    assert person("maker", *words).code == 0
    assert person("maker", "round", "show").code == 2


@pytest.mark.slow
def test_what_reads_a_result_takes_the_only_round_with_one(person: Call) -> None:
    revealed(person)
    second(person, "next")
    assert person("maker", "round", "aggregate", "tiny").code == 0
    for words in (("verify",), ("rewards",), ("apply", "--base", "base")):
        found = person("maker", "round", *words)
        assert found.code == 0, found.stderr
    assert "round next (" in person("maker", "round", "show").stdout


@pytest.mark.slow
def test_hints_name_the_round_and_work_when_two_are_known(person: Call) -> None:
    second(person, "next")
    started(person)
    for who in ("ann", "ben"):
        committed(person, who)
        person(who, "round", "show", "second")
    early = person("maker", "round", "aggregate", "tiny")
    assert "zoo-gym round sync tiny --close" in early.stderr
    assert person("maker", "round", "take", "tiny", "--close").code == 0
    due = person("ann", "round", "show", "tiny").stdout
    assert "zoo-gym round reveal tiny --send" in due
    assert person("ann", "round", "reveal", "tiny", "--send").code == 0


def test_a_hint_has_the_address_where_the_name_is_that_of_two_rounds(person: Call) -> None:
    started(person)
    words = ("round", "create", "tiny", "--base", "base", "--out", "third", "--tensors", "*")
    found = person("maker", *words, "--pool", "7", "--method", "mean")
    assert f"zoo-gym round sync {Path('third').resolve()}" in found.stderr


@pytest.mark.slow
def test_a_hint_has_the_address_where_the_name_cannot_be_typed(person: Call) -> None:
    started(person)
    words = ("round", "create", "a\u202eb", "--base", "base", "--out", "second", "--tensors", "*")
    found = person("maker", *words, "--method", "mean")
    assert f"zoo-gym round sync {Path('second').resolve()}" in found.stderr


@pytest.mark.slow
def test_a_round_is_found_by_its_name_in_any_form_of_unicode(person: Call) -> None:
    started(person)
    second(person, "e\u0301te\u0301")
    assert person("maker", "round", "show", "\xe9t\xe9").code == 0


def test_a_folder_without_a_round_hides_none_that_is_known(person: Call) -> None:
    started(person)
    Path("tiny").mkdir()
    assert person("maker", "round", "show", "tiny").code == 0
    Path("other").mkdir()
    found = person("maker", "round", "show", "other")
    assert (found.code, "got no manifest.json" in found.stderr) == (4, True)


@pytest.mark.slow
def test_the_log_of_a_copy_is_not_written_without_consent(person: Call) -> None:
    started(person)
    shutil.copytree("round", "stick")
    committed(person, "ann", "stick")
    found = person("maker", "round", "take", "stick")
    assert (found.code, "where its log was written, got a copy" in found.stderr) == (4, True)
    words = ("round", "take", "stick", "--yes", "--json")
    assert person("maker", *words).json["added"] == 1
    original = person("maker", "round", "show", "round")
    seen = f"hint: the longest log was seen at {Path('stick').resolve()}"
    assert (original.code, seen in original.stderr) == (2, True), original.stderr


@pytest.mark.slow
def test_what_others_left_on_a_stick_is_taken_in_the_original(person: Call) -> None:
    started(person)
    shutil.copytree("round", "stick")
    committed(person, "ann", "stick")
    shutil.copytree("stick/inbox", "round/inbox", dirs_exist_ok=True)
    assert person("maker", "round", "take", "round", "--json").json["added"] == 1


@pytest.mark.slow
def test_the_maker_reads_what_is_next(person: Call, base: Path) -> None:
    rows_for(base, "rows.jsonl", 10)
    started(person, "--evaluation", "rows.jsonl")
    assert "next:" not in person("maker", "round", "show").stdout
    for who in ("ann", "ben"):
        committed(person, who)
    waiting = person("maker", "round", "show").stdout
    assert "next: 2 left in the inbox: zoo-gym round sync tiny" in waiting
    assert "next:" not in person("ann", "round", "show").stdout
    person("maker", "round", "take", "--close")
    for who in ("ann", "ben"):
        person(who, "round", "reveal", "--send")
    person("maker", "round", "take", "--close")
    due = person("maker", "round", "show").stdout
    assert "next: zoo-gym round measure --round tiny" in due


def test_the_maker_closes_a_phase_next_whose_deadline_is_past(
    person: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(person)
    monkeypatch.setattr("zoo.gym.cli.round.next_step.is_past", bool)
    due = "next: zoo-gym round sync tiny --close"
    assert due in person("maker", "round", "show").stdout
    assert due not in person("ann", "round", "show", "round").stdout


@pytest.mark.slow
def test_the_maker_of_a_round_without_a_gate_aggregates_next(person: Call) -> None:
    revealed(person)
    assert "next: zoo-gym round aggregate tiny" in person("maker", "round", "show").stdout


@pytest.mark.parametrize("verb", ["reveal", "take", "aggregate"])
def test_a_round_that_is_an_argument_is_shown_as_one_and_named_by_an_option_too(
    verb: str, person: Call
) -> None:
    shown = person("ann", "round", verb, "--help").stdout
    assert "\nArguments:\n  ROUND  " in shown
    assert "ROUND" not in shown.partition("\nOptions:\n")[2]
    for words in ((".",), ("--round", ".")):
        found = person("ann", "round", verb, *words)
        assert (found.code, "expected a round, got no manifest.json" in found.stderr) == (4, True)


@pytest.mark.slow
def test_a_list_of_rounds_has_their_phase_and_what_one_is_in_them(person: Call) -> None:
    started(person)
    committed(person, "ann")
    person("eve", "round", "show", "round")
    for who, yours in (("maker", ["maker"]), ("ann", ["contributor"]), ("eve", [])):
        [listed] = person(who, "round", "list", "--json").json["rounds"]
        assert (listed["phase"], listed["yours"], listed["kind"]) == ("commit", yours, "delta")
    committed(person, "ben")
    person("maker", "round", "take", "--close")
    assert "tiny  reveal, you: contributor" in person("ann", "round", "list").stdout


@pytest.mark.slow
def test_a_lost_key_does_not_commit_a_second_time_in_silence(person: Call, tmp_path: Path) -> None:
    started(person)
    assert "another key" not in committed(person, "ann").stderr
    assert "another key" not in committed(person, "ann").stderr, "the same key again"
    [key] = (tmp_path / "homes/ann").rglob("own.pem")
    key.unlink()
    found = committed(person, "ann")
    assert "has committed in this round with another key than yours" in found.stderr


def test_a_round_whose_folder_is_gone_is_said_to_be_out_of_reach(person: Call) -> None:
    started(person)
    shutil.rmtree("round")
    found = person("maker", "round", "show", "tiny")
    said = f"round tiny: {Path('round').resolve()} is not reachable: is the share or disk mounted?"
    assert (found.code, said in found.stderr) == (4, True), found.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("checkpoint", "rounds.bad_head"),
        ("tile/0/000.p/1", "rounds.other_root"),
        ("tile/entries/000.p/1", "rounds.bad_tile"),
    ],
)
def test_a_changed_log_is_refused_with_the_code_of_the_round(
    person: Call, file: str, code: str
) -> None:
    started(person)
    changed = Path("round/log", file)
    changed.write_bytes(changed.read_bytes()[:-1] + b"x")
    for who in ("maker", "eve"):
        found = person(who, "round", "show", "round", "--json")
        assert (found.code, found.json["error"]["code"]) == (2, code)


@pytest.mark.parametrize("seen", [[], [3], ["x", "y"], "3", None])
def test_a_damaged_note_of_where_a_log_was_seen_stops_nothing(person: Call, seen: object) -> None:
    started(person)
    (file,) = Path("homes/maker/data/rounds/places").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "seen": seen}))
    assert person("maker", "round", "show", "tiny").code == 0
    size, address = json.loads(file.read_text())["seen"]
    assert (size, address) == (1, str(Path("round").resolve()))
