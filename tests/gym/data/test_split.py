"""The held-out share."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.data.equality import related_rows
from zoo.gym.data.reading.formats import parse_row
from zoo.gym.data.reading.preference import parse_pair
from zoo.gym.data.records import Record
from zoo.gym.data.split import split_at_end, split_records


def row(text: str, kind: str = "completion", place: int = 0) -> Record:
    if kind == "text":
        return Record(f"f:{place}", "text", text=text)
    return Record(f"f:{place}", "completion", prompt=text, completion="x")


def rows(count: int, kind: str = "completion") -> list[Record]:
    return [row(str(n), kind, n) for n in range(count)]


def parts(records: Sequence[Record], val_size: float, seed: int = 0) -> tuple[list[str], list[str]]:
    learned, held_out = split_records(records, val_size, seed).apply(records)
    return [r.prompt or r.text for r in learned], [r.prompt or r.text for r in held_out]


kinds = st.sampled_from(["completion", "text"])
mixed = st.lists(st.builds(row, st.sampled_from("abcdefgh"), kinds), max_size=40)


@pytest.mark.slow
@given(mixed, st.floats(0, 0.99), st.integers(0, 3))
def test_the_parts_together_are_the_rows_and_each_is_in_order(
    records: list[Record], val_size: float, seed: int
) -> None:
    records = [row(r.prompt or r.text, r.kind, place) for place, r in enumerate(records)]
    learned, held_out = split_records(records, val_size, seed).apply(records)
    if len(records) != 1:  # a lone text is cut
        assert sorted([*learned, *held_out], key=records.index) == records
        assert [*learned] == sorted(learned, key=records.index)
        assert [*held_out] == sorted(held_out, key=records.index)


@pytest.mark.slow
@given(mixed, st.floats(0, 0.99), st.integers(0, 3))
def test_equal_rows_are_never_on_both_sides(
    records: list[Record], val_size: float, seed: int
) -> None:
    if len(records) != 1:
        learned, held_out = split_records(records, val_size, seed).apply(records)
        assert not set(learned) & set(held_out)


@given(st.integers(2, 60), st.floats(0.001, 0.99), st.integers(0, 3))
def test_a_share_leaves_a_row_on_each_side(count: int, val_size: float, seed: int) -> None:
    assert all(parts(rows(count), val_size, seed))


@pytest.mark.parametrize(
    ("count", "val_size", "held_out"),
    [(168, 0.1, 17), (100, 0.1, 10), (5, 0.1, 1), (10, 3, 3), (10, 0, 0), (1, 0.1, 0)],
)
def test_the_share_is_counted_in_rows(count: int, val_size: float, held_out: int) -> None:
    assert len(parts(rows(count), val_size)[1]) == held_out


@pytest.mark.parametrize(("val_size", "held_out"), [(0.1, 1), (0.4, 2), (0.999, 4), (3, 3), (0, 0)])
def test_texts_that_cannot_be_cut_are_held_out_whole(val_size: float, held_out: int) -> None:
    assert len(parts(rows(5, "text"), val_size)[1]) == held_out


def test_texts_are_held_out_at_their_end_and_pairs_are_not() -> None:
    assert parts(rows(40, "text"), 0.1)[1] == ["37", "38", "39"]  # 7 of 70 characters
    drawn = [int(name) for name in parts(rows(1000), 0.1)[1]]
    # 100 of 1000 drawn at random: the mean is 500 within 4 times 289 / sqrt(100)
    assert abs(sum(drawn) / 100 - 500) < 116


def test_another_seed_draws_other_rows() -> None:
    assert parts(rows(100), 0.1, seed=1) != parts(rows(100), 0.1, seed=2)
    assert parts(rows(100), 0.1, seed=1) == parts(rows(100), 0.1, seed=1)


@pytest.mark.parametrize("kind", ["completion", "text"])
def test_a_file_given_twice_is_measured_on_unlearned_rows(kind: str) -> None:
    twice = rows(20, kind) * 2
    split = split_records(twice, 0.1, 0)
    learned, held_out = split.apply(twice)
    assert (len(held_out), split.duplicates) == (4, 20)
    assert not set(learned) & set(held_out)


def test_two_rows_of_which_one_repeats_hold_out_the_other() -> None:
    assert parts([row("a"), row("a"), row("b")], 1)[1] == ["b"]


def test_runs_without_a_stored_split_hold_out_the_last_rows() -> None:
    assert split_at_end(rows(10), 0.2).held_out == (8, 9)


@pytest.mark.parametrize("val_size", [-0.1, 10, 11, 2.5, float("nan")])
def test_a_size_that_leaves_nothing_or_means_nothing_is_refused(val_size: float) -> None:
    with raises("data.bad_val_size") as caught:
        split_records(rows(10), val_size, 0)
    assert caught.value.code == "data.bad_val_size"


def test_a_lone_text_is_cut_at_the_end_of_a_line() -> None:
    text = "".join(f"line {n}\n" for n in range(10))  # ten lines of seven characters
    assert parts([row(text, "text")], 0.1) == ([text[:63]], ["line 9\n"])


def test_a_split_of_other_rows_is_refused() -> None:
    with raises("data.changed", "expected the 10 rows that were split, got 9"):
        split_records(rows(10), 0.1, 0).apply(rows(9))


def lines(count: int) -> str:
    return "".join(f"line {n:3}\n" for n in range(count))  # of nine characters


def test_of_a_cut_document_the_held_out_part_has_the_end() -> None:
    document = replace(row("one\ntwo\nthree\n", "text"), ends=True)
    (learned,), (held_out,) = split_records([document], 0.3, 0).apply([document])
    assert (learned.ends, held_out.ends) == (False, True)


def test_a_large_text_is_cut_and_never_held_out_whole() -> None:
    small, big = row("ab", "text", 0), row(lines(100), "text", 1)
    # 9 of the 902 characters of both are 1 %
    learned, held_out = parts([small, big], 0.01)
    assert (learned, held_out) == (["ab", lines(99)], ["line  99\n"])
    # "ab" is the end of the texts now, and 7 characters more are within the last line
    learned, held_out = parts([big, small], 0.01)
    assert (learned, held_out) == ([lines(99)], ["line  99\n", "ab"])


def test_each_kind_of_a_mix_gives_its_share() -> None:
    mix = [*rows(20), row(lines(100), "text"), *rows(20)]
    learned, held_out = split_records(mix, 0.1, 0).apply(mix)
    assert [record.text for record in held_out if record.kind == "text"] == [lines(100)[-90:]]
    assert [record.text for record in learned if record.kind == "text"] == [lines(90)]
    assert sum(record.kind == "completion" for record in held_out) == 4


def test_a_title_above_one_long_line_is_not_all_that_is_learned() -> None:
    text = "Title\n" + "word " * 100
    learned, held_out = parts([row(text, "text")], 0.1)
    assert (len(learned[0]), "".join(learned + held_out)) == (451, text)


ONE = {"prompt": "What is 2 + 2?", "completion": "Four."}
TURNS = [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": "Four."}]
MORE = [{"role": "user", "content": "And 3 + 3?"}, {"role": "assistant", "content": "Six."}]
ALIKE: dict[str, object] = {
    "messages": {"messages": TURNS},
    "alpaca": {"instruction": "What is 2 + 2?", "input": "", "output": "Four."},
    "blanks": {"prompt": " What is\n2 +  2? ", "completion": "Four.\n"},
    "flag": {
        "messages": [TURNS[0], {**TURNS[1], "weight": 1}, *MORE[:1], {**MORE[1], "weight": 0}]
    },
    "grown": {"messages": [*TURNS, *MORE]},
    "grown elsewhere": {"messages": [*TURNS, TURNS[0], MORE[1]]},
}


@pytest.mark.parametrize("alike", ALIKE.values(), ids=ALIKE.keys())
@pytest.mark.parametrize("first", [True, False])
def test_rows_that_say_the_same_or_grow_stay_on_one_side(alike: object, first: bool) -> None:
    given = [ONE, alike] if first else [alike, ONE]
    records = [record for one in given for record in parse_row(one, "f:1")[1]]
    records += rows(2)
    for seed in range(8):
        held_out = split_records(records, 2, seed).held_out
        assert held_out in {(0, 1), (2, 3)}


def test_rows_that_only_begin_alike_are_not_the_same() -> None:
    other = {"messages": [TURNS[0], MORE[1]]}
    records = [record for one in (ONE, other) for record in parse_row(one, "f:1")[1]]
    split = split_records(records, 1, 0)
    assert (len(split.held_out), split.duplicates) == (1, 0)


def test_a_chat_that_grows_is_no_duplicate() -> None:
    given = ({"messages": TURNS}, ALIKE["grown"], ALIKE["blanks"])
    records = [record for one in given for record in parse_row(one, "f:1")[1]]
    assert split_records(records, 0, 0).duplicates == 1


def pairs(*rows: tuple[str, str, str]) -> list[Record]:
    """Returns pairs of (prompt, chosen, rejected)."""
    keys = ("prompt", "chosen", "rejected")
    return [
        parse_pair(dict(zip(keys, one, strict=True)), f"f:{place}")
        for place, one in enumerate(rows)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_a_prompt_with_several_pairs_is_on_one_side(seed: int) -> None:
    given = pairs(*((f"Q{n}", f"good {n}", f"bad {n} {m}") for n in range(20) for m in range(4)))
    learned, held_out = split_records(given, 0.1, seed).apply(given)
    assert len(held_out) == 8
    assert not {r.sides[0].prompt for r in held_out} & {r.sides[0].prompt for r in learned}


def test_a_pair_and_its_reverse_are_on_one_side() -> None:
    for prompt in ("Q", ""):
        given = pairs((prompt, "A", "B"), (prompt, "B", "A"), ("1", "C", "D"), ("2", "C", "D"))
        for seed in range(8):
            assert split_records(given, 2, seed).held_out in {(0, 1), (2, 3)}


def test_pairs_with_one_prompt_are_counted_apart_from_duplicates() -> None:
    given = pairs(
        ("Q", "A", "B"), ("Q", "A", "B"), ("Q", "A", "C"), ("R", "A", "B"), ("Q", "B", "A")
    )
    found = related_rows(given)
    assert (found.duplicates, found.same_prompt, found.groups) == (1, 2, 2)
    assert related_rows(rows(3)).same_prompt == 0
