"""What is kept of lessons: by measurements of others, the first of copies, and paid by effect."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codes import raises
from tests.gym.rounds.lessons.conftest import Start
from tests.gym.rounds.lessons.world import GIL, GUS, GUY, IDLE, SIGN, UNITS
from tests.gym.rounds.protocol.people import ALICE, BOB, CAROL, LOG, person
from zoo.gym.experience.library.file import read_library
from zoo.gym.experience.library.item import Item
from zoo.gym.rounds.lessons.result import points_of, publish_lessons
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.session.writing import leave, take


@pytest.mark.slow
def test_lesson_good_at_enough_keys_is_kept_with_evidence(start: Start) -> None:
    world = start()
    world.contribute(ALICE, UNITS, SIGN)
    world.contribute(BOB, IDLE)
    world.reveal()
    world.measure({UNITS: 0.2, IDLE: -0.05})
    world.measure({SIGN: 0.4}, [GUS])
    found = world.combined()

    assert world.why() == {
        UNITS: "",
        SIGN: "measured by 1 of at least 2 keys",
        IDLE: "a median effect of -0.050",
    }
    assert found.file
    [item] = read_library(found.file)[0].items
    assert (item.text, item.author) == (UNITS, str(ALICE.public))
    # a side of .3 / 3.92 = .0765 each: .2 - 1.645 * .0765 / sqrt(2) = .1110
    assert item.evidence == {"keys": 2, "least_keys": 2, "effect": 0.2, "low": 0.110987}


@pytest.mark.slow
def test_a_clear_gain_is_needed_where_the_terms_say_so(start: Start) -> None:
    world = start(clear=True)
    world.contribute(ALICE, UNITS, SIGN)
    world.reveal()
    world.measure({UNITS: 0.2, SIGN: 0.05})
    assert world.why() == {UNITS: "", SIGN: "no clear gain by all measurements together"}


@pytest.mark.slow
@pytest.mark.parametrize("clear", [False, True])
def test_one_lying_key_of_two_earns_nothing(clear: bool, start: Start) -> None:
    world = start(clear=clear)
    world.contribute(ALICE, UNITS)
    world.contribute(BOB, IDLE)
    world.reveal()
    world.measure({UNITS: 0.2, IDLE: 0.0}, [GIL])
    leave(world.storage, world.record(GUS, UNITS, 0.2))
    leave(world.storage, world.record(GUS, IDLE, 1.0, low=1.0, high=1.0))
    take(world.storage, LOG)
    assert world.why() == {UNITS: "", IDLE: "a median effect of +0.000"}
    assert world.combined().fields["rewards"]["points"] == {str(ALICE.public): 1000}


@pytest.mark.slow
def test_a_key_does_not_count_for_a_lesson_of_its_own(start: Start) -> None:
    world = start()
    world.contribute(ALICE, SIGN)
    world.contribute(GUS, UNITS)
    world.reveal()
    world.measure({UNITS: 0.2, SIGN: 0.1}, [GUS, GIL])
    assert world.why() == {UNITS: "measured by 1 of at least 2 keys", SIGN: ""}
    world.measure({UNITS: 0.2}, [GUY])
    assert world.why()[UNITS] == ""


@pytest.mark.slow
def test_what_a_key_copied_is_its_own_too(start: Start) -> None:
    world = start()
    world.contribute(ALICE, UNITS)
    world.contribute(GUS, UNITS.upper(), SIGN)
    world.reveal()
    world.measure({UNITS: 0.2}, [GUS, GIL])
    assert world.why()[UNITS] == "measured by 1 of at least 2 keys"


@pytest.mark.slow
def test_clear_harm_that_a_key_finds_in_its_own_lesson_counts(start: Start) -> None:
    world = start()
    world.contribute(GUS, UNITS)
    world.reveal()
    world.measure({UNITS: 0.2}, [GIL, GUY])
    assert world.combined().kept == 1
    world.measure({UNITS: -0.2}, [GUS])
    assert world.why()[UNITS] == f"harmful by the measurement of {GUS.public}"


@pytest.mark.slow
def test_harm_found_by_a_rival_needs_a_second_key(
    start: Start,
) -> None:
    world = start()
    world.contribute(GUS, IDLE)
    world.contribute(ALICE, UNITS)
    world.reveal()
    world.measure({UNITS: 0.3}, [GIL, GUY])
    leave(world.storage, world.record(GUS, UNITS, -0.01, low=-0.02, high=-0.001))
    take(world.storage, LOG)
    assert world.why()[UNITS] == ""  # a median of .3, .3 and -.01
    more = start(gates=(GUS, GIL, GUY, CAROL))
    for who, text in ((GUS, IDLE), (ALICE, UNITS), (CAROL, SIGN)):
        more.contribute(who, text)
    more.reveal()
    more.measure({UNITS: 0.3}, [GIL, GUY])
    more.measure({UNITS: -0.2}, [GUS, CAROL])
    assert more.why()[UNITS].startswith("harmful by the measurement of ")
    assert str(CAROL.public) in more.why()[UNITS]


@pytest.mark.slow
def test_equal_lessons_count_for_the_earlier_commitment(start: Start) -> None:
    world = start()
    world.contribute(BOB, UNITS)
    world.contribute(ALICE, "check the units, of each number", SIGN)
    world.reveal()
    world.measure({UNITS: 0.2, SIGN: 0.1, "check the units, of each number": 0.9})
    found = world.combined()
    said = f"it says the same as [{Item(UNITS).id[:6]}] of {BOB.public.fingerprint}, earlier in"
    assert world.why()["check the units, of each number"] == f"{said} the log"
    assert found.fields["rewards"]["points"] == {str(ALICE.public): 333, str(BOB.public): 667}


@pytest.mark.slow
def test_contribution_of_copies_alone_is_refused(start: Start) -> None:
    world = start(quorum=2)
    world.contribute(BOB, UNITS)
    world.contribute(ALICE, UNITS)
    world.reveal()
    world.measure({UNITS: 0.2})
    with raises("rounds.no_result_possible", "expected 2 contributions, got 1 of 2"):
        world.combined()
    more = start()
    more.contribute(BOB, UNITS)
    more.contribute(ALICE, UNITS)
    more.reveal()
    more.measure({UNITS: 0.2}, [GUS, GIL, GUY])
    publish_lessons(more.storage, LOG)
    assert list(more.opened.state.refused) == [ALICE.public]
    assert more.opened.state.refused[ALICE.public].startswith("a copy of earlier contributions")


@pytest.mark.slow
def test_many_keys_with_many_lessons_do_not_fill_the_result(start: Start) -> None:
    world = start(items=3, seats=40)
    world.contribute(ALICE, UNITS)
    idle = [f"Idle lesson {n} of {m} about nothing at all" for n in range(10) for m in range(16)]
    for n in range(10):
        world.contribute(person(f"sybil {n}"), *idle[16 * n : 16 * n + 16])
    world.reveal()
    world.measure({UNITS: 0.2, **dict.fromkeys(idle[:5], 0.01)})
    found = world.combined()
    kept = {of.item.text for of, one in found.judged if one.kept}
    assert (len(found.judged), len(kept), UNITS in kept) == (161, 3, True)
    whys = [one.why for _, one in found.judged if one.effect and not one.kept]
    assert whys == ["the result has 3 lessons with larger effects"] * 3
    assert found.fields["rewards"]["points"][str(ALICE.public)] == 909  # .2 of .22


@pytest.mark.slow
def test_the_result_is_no_longer_than_a_library_may_be(start: Start) -> None:
    world = start()
    words = " ".join(["x" * 12] * 30)
    long = [f"{n:02} {words}x" for n in range(25)]  # 396 bytes each, of 8,000
    for who, texts in ((ALICE, long[:16]), (BOB, long[16:])):
        world.contribute(who, *texts)
    world.reveal()
    world.measure({text: (n + 1) / 100 for n, text in enumerate(long)})
    found = world.combined()
    assert found.kept == 20
    assert [world.why()[text] for text in long[:6]] == [
        *["the result has 2,000 tokens of lessons at most"] * 5,
        "",
    ]


@pytest.mark.slow
def test_round_that_keeps_nothing_is_void_when_all_measured(start: Start) -> None:
    world = start()
    world.contribute(ALICE, UNITS)
    world.reveal()
    world.measure({UNITS: -0.05})
    with raises("rounds.unmeasured", "no lesson is kept, and 1 key of role gate has not"):
        publish_lessons(world.storage, LOG)
    leave(world.storage, world.record(GUY, UNITS, -0.05))
    assert publish_lessons(world.storage, LOG).file is None
    state = world.opened.state
    assert (state.phase, state.reason, state.result) == (Phase.VOID, "no lesson is kept", None)
    with raises("rounds.other_phase", "expected phase compute, got void"):
        publish_lessons(world.storage, LOG)


@pytest.mark.slow
def test_lesson_measured_by_liars_waits_for_the_others(start: Start) -> None:
    world = start(gates=(GUS, GIL, GUY, CAROL))
    world.contribute(ALICE, UNITS)
    world.contribute(BOB, IDLE)
    world.reveal()
    for who in (GUS, GIL):
        leave(world.storage, world.record(who, IDLE, 1.0, low=1.0, high=1.0))
    world.measure({UNITS: 0.2}, [GUY, CAROL])
    with raises("rounds.unmeasured", "2 lessons would be kept that 4 keys of role gate have"):
        publish_lessons(world.storage, LOG)
    assert world.opened.state.phase is Phase.COMPUTE
    world.measure({IDLE: 0.0}, [GUY, CAROL])
    world.measure({UNITS: 0.2}, [GUS, GIL])
    assert publish_lessons(world.storage, LOG).late == {}
    assert world.why() == {UNITS: "", IDLE: "a median effect of +0.000"}


@pytest.mark.slow
def test_forced_result_names_the_keys_that_did_not_measure(start: Start) -> None:
    world = start()
    world.contribute(ALICE, UNITS)
    world.reveal()
    world.measure({UNITS: 0.2})
    with raises("rounds.unmeasured", "1 lesson would be kept that 1 key of role gate has not"):
        publish_lessons(world.storage, LOG)
    late = publish_lessons(world.storage, LOG, force=True).late
    assert {key: [one.text for one in left] for key, left in late.items()} == {GUY.public: [UNITS]}
    assert publish_lessons(world.storage, LOG).late == late, "what is published is computed again"


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.2, -0.05])
def test_no_round_waits_for_a_key_to_measure_its_own_lessons(effect: float, start: Start) -> None:
    world = start()
    world.contribute(GUY, UNITS)
    world.reveal()
    world.measure({UNITS: effect})
    assert publish_lessons(world.storage, LOG).kept == (effect > 0)


@pytest.mark.slow
def test_a_round_waits_for_as_many_keys_as_it_needs(start: Start) -> None:
    world = start()
    world.contribute(ALICE, UNITS)
    world.reveal()
    world.measure({UNITS: 0.2}, [GUS])
    with raises("rounds.few_measured", "expected measurements by 2 keys, got 1"):
        publish_lessons(world.storage, LOG, force=True)


@pytest.mark.slow
def test_records_of_unknown_lessons_change_nothing(start: Start) -> None:
    world = start()
    world.contribute(ALICE, UNITS)
    world.reveal()
    world.measure({UNITS: 0.2, SIGN: 0.9})
    assert list(world.why()) == [UNITS]


@pytest.mark.slow
def test_a_published_round_is_computed_again(start: Start) -> None:
    world = start()
    world.contribute(CAROL, UNITS)
    world.reveal()
    world.measure({UNITS: 0.2}, [GUS, GIL, GUY])
    first = publish_lessons(world.storage, LOG)
    assert publish_lessons(world.storage, LOG).report == first.report
    assert world.opened.state.phase is Phase.PUBLISHED


EFFECTS = st.dictionaries(
    st.text("ab", min_size=1, max_size=3), st.lists(st.floats(1e-6, 1), max_size=4), max_size=5
)


@pytest.mark.slow
@settings(max_examples=200)
@given(EFFECTS, st.integers(0, 10**12))
def test_points_add_up_to_the_pool_and_follow_the_effects(
    effects: dict[str, list[float]], pool: int
) -> None:
    worth = {name: sum(map(Fraction, some), Fraction()) for name, some in effects.items()}
    found = points_of(effects, pool)
    total = sum(worth.values())
    assert sum(found.values()) == (pool if total else 0)
    for name, share in worth.items():
        if total:
            assert abs(found.get(name, 0) - pool * share / total) < 1


@pytest.mark.slow
def test_too_few_contributions_are_void_without_measurements(start: Start) -> None:
    world = start(quorum=2)
    for who in (ALICE, BOB):
        world.smuggle(who, b"{}" if who is ALICE else b"[]")
    world.reveal()
    with raises("rounds.void", "is void: 0 of 2 contributions count; refused"):
        publish_lessons(world.storage, LOG, void=True)
    state = world.opened.state
    assert (state.phase, state.reason) == (Phase.VOID, "0 of 2 contributions count")
    assert state.refused.keys() == {ALICE.public, BOB.public}
