"""Libraries: their one form on the disk, their limits, and what a teacher may change."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codes import raises
from tests.gym.experience.conftest import ignore
from zoo.core import file_digest
from zoo.gym.errors import GymError, InputError
from zoo.gym.experience.library.edits import UnreadableError, check_edit, parse_edits
from zoo.gym.experience.library.file import read_library, write_library
from zoo.gym.experience.library.item import Item, lesson_text
from zoo.gym.experience.library.library import MOST_ITEMS, MOST_SEEN, Library

A, B = Item("Check the sign first.", sources=("a" * 16,)), Item("Use whole numbers.", step=2)
LIBRARY = Library((A, B), "m", "t", "sums", evidence={"effect": 0.25})


def labels(item: Item) -> str:
    return item.id[:6]


def test_a_library_is_read_as_it_was_written(tmp_path: Path) -> None:
    digest = write_library(tmp_path / "l.json", LIBRARY)
    assert read_library(tmp_path / "l.json") == (LIBRARY, digest)


def test_a_pin_round_trips_and_changes_no_other_file(tmp_path: Path) -> None:
    pinned = replace(LIBRARY, items=(replace(A, pinned=True), B))
    digest = write_library(tmp_path / "l.json", pinned)
    assert read_library(tmp_path / "l.json") == (pinned, digest)
    write_library(tmp_path / "l.json", LIBRARY)
    assert "pinned" not in (tmp_path / "l.json").read_text()


@pytest.mark.slow
def test_the_most_seen_tasks_fit_and_more_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    seen = tuple(f"{n:016x}" for n in range(MOST_SEEN))
    longest = tuple(Item(f"{n:02d}" + "\u4e00" * 50, sources=seen[:16]) for n in range(40))
    full = Library(longest, "m", seen=seen[::-1])
    digest = write_library(path, full)
    assert read_library(path) == (full, digest)
    assert (full.seen, full.changed([longest[0].id], ()).seen) == (seen, seen)
    with raises("experience.library_too_large", "hashes of at most 32,000 tasks, got 32,001"):
        Library(seen=(*seen, "f" * 16))
    write_library(path, LIBRARY)
    assert "seen" not in path.read_text()


def test_the_order_of_learning_does_not_change_the_bytes(tmp_path: Path) -> None:
    digests = {
        write_library(tmp_path / f"{n}", Library(items, "m"))
        for n, items in enumerate([(A, B), (B, A)])
    }
    assert len(digests) == 1


WORDS = st.text(max_size=60)
FIGURES = st.dictionaries(WORDS, WORDS | st.integers() | st.floats() | st.booleans(), max_size=3)
ANY_ITEMS = st.builds(
    Item,
    WORDS,
    st.lists(st.just("a" * 16) | WORDS, max_size=2).map(tuple),
    better=st.integers(-1, 1 << 32),
    model=WORDS,
    evidence=FIGURES,
    pinned=st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=100)
@given(items=st.lists(ANY_ITEMS, max_size=3, unique_by=lambda one: one.text), model=WORDS)
def test_only_a_readable_library_is_written(
    tmp_path_factory: pytest.TempPathFactory, items: list[Item], model: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "l.json"
    library = Library(tuple(items), model)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", ignore)
        try:
            digest = write_library(path, library)
        except InputError:
            assert not path.exists()
        else:
            assert read_library(path) == (library, digest)


@pytest.mark.parametrize(
    "item",
    [
        Item("Check the sign. "),
        Item("two  blanks"),
        Item("two\nlines"),
        Item("w " * 32 + "w"),
        Item("plain", model="lone \ud800"),
        Item("plain", parents=("no id",)),
        Item("plain", better=-1),
        Item("plain", licence="two\nlines"),
        Item("plain", evidence={"effect": float("nan")}),
        Item("plain", evidence={"interval": [0, 1]}),
        Item("plain", evidence=cast("dict[str, object]", {1: "a"})),
    ],
    ids=lambda item: repr(item)[5:45],
)
def test_what_could_not_be_read_is_not_written(item: Item, tmp_path: Path) -> None:
    with raises("experience.unwritable_library") as caught:
        write_library(tmp_path / "l.json", Library((item,)))
    assert caught.value.code == "experience.unwritable_library"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@settings(max_examples=25)
@given(place=st.integers(0, 2000), bit=st.integers(0, 7))
def test_no_flipped_bit_is_read(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("flip") / "l.json"
    write_library(path, LIBRARY)
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(GymError):
        read_library(path)


@settings(max_examples=25)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "l.json"
    path.write_bytes(content)
    with raises("experience.no_library_file"):
        read_library(path)


def forged(path: Path, evidence: str) -> Path:
    """Writes a library with any evidence and the digest that such a file has."""
    write_library(path, LIBRARY)
    text = path.read_text()
    start, old = text[: len('{\n "digest": "')], '"evidence": {\n  "effect": 0.25\n }'
    assert old in text
    path.write_text(f"{start}{'0' * 64}{text[len(start) + 64 :]}".replace(old, evidence))
    digest = file_digest(path, zero_at=len(start), zero_len=64)
    path.write_text(path.read_text().replace("0" * 64, digest, 1))
    return path


def flat(**values: object) -> str:
    return '"evidence": ' + json.dumps(values, indent=1, sort_keys=True).replace("\n", "\n ")


def test_a_forged_file_whose_evidence_can_be_true_is_read(tmp_path: Path) -> None:
    values = {"effect": 0.5, "high": 0.9, "low": 0.1, "top_k": 1, "verdict": "proven"}
    assert read_library(forged(tmp_path / "a", flat(**values)))[0].evidence == values


PROOF = {"verdict": "proven", "effect": 0.5, "low": 0.1, "high": 0.9}
FALSE: dict[str, tuple[str, str]] = {
    "nan": ('"evidence": {\n  "effect": NaN\n }', "evidence.effect: expected a number"),
    "1e999": ('"evidence": {\n  "effect": 1e999\n }', "evidence.effect: expected a number"),
    "an unknown nan": ('"evidence": {\n  "x": NaN\n }', "evidence.x: expected a number or"),
    "huge": (flat(effect=10**400), "evidence.effect: expected a number up to 2e"),
    "surrogate": (flat(by="\ud800"), "evidence.by: expected text on one line"),
    "surrogate in a name": (flat(**{"\ud800": 1}), "evidence: expected names on one line"),
    "an unknown surrogate": (flat(x="\ud800"), "evidence.x: expected a number or"),
    "escape": (flat(labels="\x1b[31m"), "evidence.labels: expected text on one line"),
    "outside": (flat(**PROOF | {"effect": 1}), "evidence: expected low <= effect <= high"),
    "harmful": (flat(**PROOF | {"low": -3}), "evidence.verdict: expected an effect and its inter"),
    "zero": (flat(**PROOF | {"low": 0.0}), "evidence.verdict: expected an effect and its interval"),
    "nothing": (flat(verdict="proven"), "evidence.verdict: expected an effect and its interval"),
    "text": (flat(**PROOF | {"effect": "0.5"}), "evidence.effect: expected a number"),
    "true": (flat(**PROOF | {"high": True}), "evidence.high: expected a number"),
    "top_k": (flat(top_k=-1), "evidence.top_k: expected a whole number from 1, got -1"),
    "top_k true": (flat(top_k=True), "evidence.top_k: expected a whole number from 1, got True"),
    "model": (flat(model=5), "evidence.model: expected text on one line, got 5"),
    "verdict": (flat(verdict="surely"), "evidence.verdict: expected proven or unproven"),
    "keys": (flat(keys=0), "evidence.keys: expected a whole number from 1"),
}


@pytest.mark.parametrize("case", FALSE)
def test_evidence_that_cannot_be_true_is_refused_by_name(case: str, tmp_path: Path) -> None:
    evidence, said = FALSE[case]
    with raises("experience.evidence", f"a: {said}"):
        read_library(forged(tmp_path / "a", evidence))


def test_another_form_of_the_same_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    write_library(path, LIBRARY)
    path.write_text(json.dumps(json.loads(path.read_text())))
    with raises("experience.changed_library") as caught:
        read_library(path)
    assert caught.value.code == "experience.changed_library"
    with raises("experience.no_such_file"):
        read_library(tmp_path / "absent.json")


def test_the_text_has_a_heading_and_is_empty_without_lessons() -> None:
    assert Library().text == ""
    assert LIBRARY.text.splitlines()[1:] == [f"- {item.text}" for item in LIBRARY.items]


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([Item(f"lesson {n}") for n in range(MOST_ITEMS + 1)], "library_too_large"),
        ([A, replace(A, step=3)], "duplicate_lesson"),
        ([Item(f"{'w' * 390} {n}") for n in range(21)], "library_too_large"),
    ],
    ids=["too many", "one twice", "too long"],
)
def test_the_limits_of_a_library_hold(items: list[Item], code: str) -> None:
    with pytest.raises(InputError) as caught:
        Library(tuple(items))
    assert caught.value.code == f"experience.{code}"


@pytest.mark.parametrize("text", ["", " \n", "w " * 33, "x" * 401, "a\x1b[31m", "a\u202eb"])
def test_what_is_no_lesson_is_refused(text: str) -> None:
    with raises("experience.lesson") as caught:
        lesson_text(text)
    assert caught.value.code == "experience.lesson"


ANSWERS = {
    "plain": '{"edits": [{"op": "add", "text": "x"}]}',
    "a list": '[{"op": "add", "text": "x"}]',
    "one edit": '{"op": "add", "text": "x"}',
    "fenced": 'I see.\n```json\n[{"op": "add", "text": "x"}]\n```\nDone.',
    "text around": 'Here: {"edits": [{"op": "add", "text": "x"}]} ok?',
    "commas too many": '{"edits": [{"op": "add", "text": "x",},]}',
    "thinking": '<think>[{"op": "delete"}]</think>[{"op": "add", "text": "x"}]',
    "the last fence": '```[{"op": "none"}]``` no: ```[{"op": "add", "text": "x"}]```',
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_edits_are_found_in_what_a_teacher_writes(answer: str) -> None:
    assert parse_edits(answer) == [{"op": "add", "text": "x"}]


@pytest.mark.parametrize("answer", ["", "no", "[1, 2]", '{"edits": 3}', "[" * 50_000, '[{"op": '])
def test_an_answer_without_edits_is_unreadable(answer: str) -> None:
    with pytest.raises(UnreadableError):
        parse_edits(answer)


ORIGIN = Item("", sources=("b" * 16,), step=4)


def test_an_addition_has_its_origin_and_a_change_its_parents() -> None:
    added = check_edit({"op": "add", "text": " New\n lesson "}, LIBRARY, ORIGIN)
    changed = check_edit({"op": "modify", "ids": [labels(A)], "text": "Sign!"}, LIBRARY, ORIGIN)
    assert added is not None
    assert changed is not None
    assert added.added == replace(ORIGIN, text="New lesson")
    assert changed.added == Item("Sign!", (A.id,), ("a" * 16, "b" * 16), step=4)
    assert {item.text for item in changed.apply(LIBRARY).items} == {"Sign!", B.text}


def test_a_merge_replaces_all_of_its_lessons() -> None:
    merged = check_edit(
        {"op": "merge", "ids": [labels(A), labels(B)], "text": "Both."}, LIBRARY, ORIGIN
    )
    assert merged is not None
    found = merged.apply(LIBRARY)
    assert [(item.text, set(item.parents)) for item in found.items] == [("Both.", {A.id, B.id})]
    assert found.evidence == {}


@pytest.mark.parametrize(
    "given",
    [
        {"op": "none"},
        {"op": "add", "text": A.text},
        {"op": "modify", "id": labels(A), "text": A.text},
    ],
)
def test_an_edit_that_changes_nothing_is_none(given: dict[str, object]) -> None:
    assert check_edit(given, LIBRARY, ORIGIN) is None


@pytest.mark.parametrize(
    "given",
    [
        {"op": "explode"},
        {"op": "delete", "id": "ffffff"},
        {"op": "delete", "id": labels(A)[:3]},
        {"op": "modify", "text": "x"},
        {"op": "merge", "ids": [labels(A)], "text": "x"},
        {"op": "add", "text": "w " * 40},
        {"op": "add", "text": ["x"] * 40},
        {"op": "delete", "id": 7},
    ],
    ids=str,
)
def test_an_edit_outside_the_rules_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"edit: |lesson: "):
        check_edit(given, LIBRARY, ORIGIN)
