"""The terms of a round of lessons, and which records of lessons its log takes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rounds.protocol.people import (
    ALICE,
    BOB,
    EVALUATION,
    FIELDS,
    GATE,
    LOG,
    MAKER,
    NEWCOMERS,
    close,
    commit,
    digest_of,
    person,
    reveal,
    terms,
)
from zoo.gym.errors import InputError
from zoo.gym.experience.library.item import item_id
from zoo.gym.rounds.kind import kind_of
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import manifest_body, parse_manifest, round_id
from zoo.gym.rounds.protocol.objects import MANIFEST, body_of, encode
from zoo.gym.rounds.protocol.state import Phase, State, state_of
from zoo.gym.signing import OwnKey, Signed, sign

SECOND = person("second gate")
LOG_KEY, GATE_KEY = FIELDS["keys"]
KEYS = [LOG_KEY, GATE_KEY, {**GATE_KEY, "key": str(SECOND.public)}]
TERMS: dict[str, Any] = {"least": 2, "clear": False, "most": 2, "items": 48}
LESSONS: dict[str, Any] = {
    **FIELDS,
    "kind": "experience",
    "base": {"identity": "0" * 64, "model": "m", "revision": ""},
    "tensors": [],
    "form": "lessons",
    "caps": {"file_bytes": 10_000, "rank": 1, "value": 1.0},
    "method": "evidence",
    "f": None,
    "lessons": TERMS,
    "keys": KEYS,
}


def test_terms_of_lessons_are_read_as_they_were_written() -> None:
    assert manifest_body(parse_manifest(LESSONS)) == LESSONS


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no terms": ({"lessons": None}, "lessons: expected their terms"),
    "a form of weights": ({"form": "signs"}, "form: expected 'lessons' in a round of kind exp"),
    "a rule of weights": ({"method": "mean"}, "method: expected 'evidence'"),
    "tensors": ({"tensors": FIELDS["tensors"]}, r"tensors: expected \[\] .* got \['a', 'b'\]"),
    "weights": ({"base": {**LESSONS["base"], "identity": "1" * 64}}, "base.identity: expected"),
    "a revision": ({"base": {**LESSONS["base"], "revision": "main"}}, "base.revision: expected ''"),
    "a rank": ({"caps": {**LESSONS["caps"], "rank": 64}}, "caps.rank: expected 1"),
    "a value": ({"caps": {**LESSONS["caps"], "value": 2.0}}, "caps.value: expected 1.0"),
    "bytes": ({"caps": {**LESSONS["caps"], "file_bytes": 1_000_001}}, "file_bytes: expected at mo"),
    "malicious ones": ({"f": 0}, "f: expected null in a round of kind experience"),
    "an evaluation": ({"evaluation": EVALUATION}, "evaluation: expected null"),
    "a re-fit": ({"refit": "1" * 64}, "refit: expected null"),
    "newcomers": ({"newcomers": NEWCOMERS}, "newcomers: expected null"),
    "a last result": ({"previous": "1" * 64}, "previous: expected null"),
    "too few gates": ({"keys": KEYS[:2]}, "keys: expected at least 2 of role gate, .* got 1"),
    "one gate twice": ({"keys": [*KEYS[:2], KEYS[1]]}, "at least 2 of role gate, .* got 1"),
    "no gate": ({"lessons": {**TERMS, "least": 0}}, "lessons.least"),
    "no lesson of one": ({"lessons": {**TERMS, "most": 0}}, "lessons.most"),
    "a result beyond a library": ({"lessons": {**TERMS, "items": 49}}, "lessons.items"),
    "half the terms": ({"lessons": {"least": 2}}, "expected every field"),
    "more terms": ({"lessons": {**TERMS, "fee": 1}}, "lessons.fee"),
    "more than can be measured": (
        {"most": 801},
        "most: expected at most 800 contributors of 2 lessons each, .* got 801",
    ),
    "most below quorum": ({"most": 1}, "at least the quorum"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_terms_of_lessons_without_effect_are_refused_by_name(case: str) -> None:
    changes, said = REFUSED[case]
    with pytest.raises(InputError, match=said):
        parse_manifest({**LESSONS, **changes})


@pytest.mark.parametrize("changes", [{"lessons": TERMS}, {"form": "lessons"}])
def test_a_round_about_weights_has_no_terms_of_lessons(changes: dict[str, Any]) -> None:
    with raises("rounds.bad_terms", f"{next(iter(changes))}: expected .* of kind delta"):
        terms(**changes)


def test_what_needs_weights_is_refused_by_the_kind() -> None:
    manifest = parse_manifest(LESSONS)
    with raises("rounds.other_kind") as caught:
        kind_of(manifest).expect_weights(manifest, "here", "elsewhere")
    assert caught.value.code == "rounds.other_kind"
    kind_of(terms()).expect_weights(terms(), "here", "elsewhere")


class Round:
    """A round of lessons of two whose reveals are closed."""

    def __init__(self, fields: dict[str, Any] = LESSONS) -> None:
        self.opening = sign(MAKER, MANIFEST, manifest_body(parse_manifest(fields)))
        self.name = round_id(self.opening)
        people = ((ALICE, "alice"), (BOB, "bob"))
        self.revealing = [self.opening, *(commit(who, self.name, n) for who, n in people)]
        self.revealing += [close(self.name, "commit")]
        self.revealing += [reveal(who, self.name, n) for who, n in people]
        self.entries = [*self.revealing, close(self.name, "reveal")]

    def after(self, *more: Signed) -> State:
        return state_of([encode(entry) for entry in (*self.entries, *more)])

    def lesson(self, text: str = "Check it.", who: OwnKey = GATE, **changes: object) -> Signed:
        figures = {"model": "m", "tasks": 6, "effect": 0.1, "low": -0.1, "high": 0.3}
        values = {"item": item_id(text), "text": text, **figures, **changes}
        body = body_of(self.name, kind="lesson", values=values)
        return sign(who, objects.RECORD, body)

    def result(self) -> Signed:
        body = body_of(self.name, digest=digest_of("result"), report=digest_of("report"))
        return sign(LOG, objects.RESULT, body)


def test_records_are_kept_by_key_and_lesson() -> None:
    found = Round()
    state = found.after(found.lesson(), found.lesson(who=SECOND), found.lesson("Check that."))
    known = state.measured.lessons
    assert {key: sorted(one.text for one in some.values()) for key, some in known.items()} == {
        GATE.public: ["Check it.", "Check that."],
        SECOND.public: ["Check it."],
    }


NOT_TAKEN: dict[str, tuple[Callable[[Round], Signed], str]] = {
    "of another key": (lambda found: found.lesson(who=ALICE), "a key of role gate"),
    "of the log": (lambda found: found.lesson(who=LOG), "a key of role gate"),
    "another id": (lambda found: found.lesson(item="0" * 16), "a lesson and its id"),
    "no lesson": (lambda found: found.lesson(""), "a lesson and its id"),
    "two lines": (lambda found: found.lesson("Check\nit."), "a lesson and its id"),
    "33 words": (lambda found: found.lesson("word " * 32 + "word"), "a lesson and its id"),
    "a new character": (lambda found: found.lesson("\U0001f600"), "a lesson and its id"),
    "five tasks": (lambda found: found.lesson(tasks=5), "lesson.tasks"),
    "tasks as text": (lambda found: found.lesson(tasks="6"), "lesson.tasks"),
    "outside": (lambda found: found.lesson(effect=0.4), "an effect in its interval"),
    "beyond 1": (lambda found: found.lesson(high=1.5), "lesson.high"),
    "below -1": (lambda found: found.lesson(low=-1.5), "lesson.low"),
    "no model": (lambda found: found.lesson(model=""), "lesson.model"),
    "two lines of a model": (lambda found: found.lesson(model="a\nb"), "lesson.model"),
    "more": (lambda found: found.lesson(price=1), "lesson.price"),
}


@pytest.mark.parametrize("case", NOT_TAKEN)
def test_a_record_that_may_not_follow_is_refused(case: str) -> None:
    made, said = NOT_TAKEN[case]
    found = Round()
    with pytest.raises(InputError, match=said):
        found.after(made(found))


def test_a_number_that_is_none_is_refused() -> None:
    found = Round()
    with pytest.raises((InputError, ValueError)):
        found.after(found.lesson(effect=float("nan")))


def test_key_measures_each_contributed_lesson_once() -> None:
    found = Round()
    with raises("rounds.record_refused", "one measurement of a lesson by a key, got a second"):
        found.after(found.lesson(), found.lesson(effect=0.2))
    many = [found.lesson(f"Lesson {n}.") for n in range(5)]
    found.after(*many[:4])  # two contributors of at most two lessons
    with raises("rounds.record_refused", "measurements of at most 4 lessons by a key, got more"):
        found.after(*many)


def test_records_follow_only_when_all_is_revealed() -> None:
    found = Round()
    with raises("rounds.wrong_phase", "expected in phase compute, got it in reveal"):
        state_of([encode(entry) for entry in (*found.revealing, found.lesson())])


def test_a_result_follows_only_measurements_by_enough_keys() -> None:
    found = Round()
    with raises("rounds.measurements_missing", "result: expected measurements by 2 keys, got 1"):
        found.after(found.lesson(), found.result())
    state = found.after(found.lesson(), found.lesson(who=SECOND), found.result())
    assert state.phase is Phase.PUBLISHED


def test_records_of_the_other_kind_are_refused() -> None:
    weights = Round({**FIELDS, "keys": KEYS})
    with raises("rounds.record_refused", "expected a round of lessons, got one without"):
        weights.after(weights.lesson())
    found = Round()
    gate = {"contributor": str(ALICE.public), "digest": digest_of("alice"), "loss": None}
    body = body_of(found.name, kind="gate", values={**gate, "reason": "no"})
    with raises("rounds.record_refused", "expected a round with an evaluation set"):
        found.after(sign(GATE, objects.RECORD, body))
