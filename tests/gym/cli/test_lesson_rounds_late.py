"""Rounds of lessons that end before all keys have measured: they wait, or say so."""

from pathlib import Path

import pytest

from tests.gym.cli.test_lesson_rounds import (
    SIGN,
    UNITS,
    People,
    figures,
    measured,
    people,
    revealed,
    started,
)
from zoo.gym.experience.library.item import Item

__all__ = ["people"]  # a fixture


def half_measured(people: People) -> None:
    """Two of three keys measure a lesson, and one of them a second one."""
    started(people)
    revealed(people)
    measured(people, "gus", [figures(UNITS, 0.2), figures(SIGN, 0.1)])
    measured(people, "gil", [figures(UNITS, 0.2)])


@pytest.mark.slow
def test_aggregate_waits_for_the_keys_that_could_measure_what_would_be_kept(people: People) -> None:
    half_measured(people)
    found = people("maker", "round", "aggregate")
    said = "round tiny: 1 lesson would be kept that 1 key of role gate has not measured"
    assert (found.code, said in found.stderr) == (2, True), found.stderr
    assert "publish what was found without them: zoo-gym round aggregate tiny --f" in found.stderr
    shown = people("guy", "round", "show", "round")
    assert "next: zoo-gym round measure --round tiny" in shown.stdout, shown.stdout
    assert "next:" not in people("gil", "round", "show", "round").stdout


@pytest.mark.slow
def test_a_maker_who_has_measured_waits_for_the_other_keys(people: People) -> None:
    started(people, "--gate", str(people.key("maker").public))
    due = "next: zoo-gym round contribute LIBRARY --round tiny --send"
    assert due in people("ann", "round", "show", "round").stdout
    revealed(people)
    due = "next: zoo-gym round measure --round tiny TASKS --model MODEL --send"
    assert due in people("maker", "round", "show").stdout
    measured(people, "maker", [figures(text, 0.2) for text in (UNITS, SIGN)])
    shown = people("maker", "round", "show").stdout
    assert "next: others measure their part: 1 key of 4 measured so far\n" in shown
    measured(people, "gil", [figures(UNITS, 0.2)])
    assert "next: zoo-gym round aggregate tiny\n" in people("maker", "round", "show").stdout


@pytest.mark.slow
def test_a_key_that_measures_without_anything_reads_a_command_with_its_round(
    people: People,
) -> None:
    started(people)
    revealed(people)
    found = people("gus", "round", "measure", "--round", "round")
    hint = "hint: zoo-gym round measure --round tiny TASKS --model MODEL --send, or --measured FILE"
    assert (found.code, hint in found.stderr) == (2, True), found.stderr


@pytest.mark.slow
def test_a_key_whose_lessons_are_all_of_the_round_has_nothing_to_measure(people: People) -> None:
    words = ("--kind", "experience", "--base", "m", "--out", "one", "--min-contributors", "1")
    gates = ("--gate", str(people.key("ann").public), "--least", "1")
    found = people("maker", "round", "create", "one", *words, *gates)
    assert found.code == 0, found.stderr
    people("ann", "round", "contribute", "mine", "--round", "one", "--send")
    people("maker", "round", "take", "one", "--close")
    people("ann", "round", "reveal", "one", "--send")
    people("maker", "round", "take", "one", "--close")
    Path("tasks.jsonl").write_text('{"prompt": "1 + 1", "answer": "2"}\n' * 8)
    model = ("--model", "http://127.0.0.1:9/v1#m")
    found = people("ann", "round", "measure", "tasks.jsonl", *model, "--round", "one", "--send")
    assert "every lesson is yours: nothing to measure\n" in found.stderr, found.stderr
    assert (found.code, "measured before" in found.stderr) == (0, False)


def test_a_round_at_one_key_says_so_in_the_singular(people: People) -> None:
    words = ("--kind", "experience", "--base", "m", "--out", "one", "--min-contributors", "2")
    gate = ("--gate", people.gates["gus"], "--least", "1")
    found = people("maker", "round", "create", "one", *words, *gate)
    assert "lessons, kept at 1 of 1 key that measures" in found.stdout, found.stdout


@pytest.mark.slow
def test_a_result_that_is_forced_names_the_lessons_that_keys_had_not_measured(
    people: People,
) -> None:
    half_measured(people)
    found = people("maker", "round", "aggregate", "--force", "--json")
    late = [{"key": people.gates["guy"], "lessons": [Item(UNITS).id]}]
    assert (found.code, found.json["late"]) == (0, late), found.stderr
    note = f"note: kept although 1 key of role gate has not measured it: {UNITS}"
    assert note in found.stderr
    assert f"measured by 1 key: {SIGN}" in found.stderr
    checked = people("eve", "round", "verify", "round")
    said = "4 lessons, 1 kept, 1 of them before all keys of role gate measured"
    assert (checked.code, said in checked.stdout) == (0, True), checked.stdout
