"""What is left of right answers: counts, the alarm, and what is shown."""

from zoo.gym.retention import Kept, Measured, compare
from zoo.gym.retention.compare import Lost, lost_lines, sentence_of
from zoo.gym.retention.questions import questions


def measured(right: list[bool], loss: float | None) -> Measured:
    return Measured(tuple(map(str, range(len(right)))), tuple(right), loss)


def test_a_lost_answer_is_named_and_a_gained_one_does_not_replace_it() -> None:
    before = measured([True] * 12 + [False] * 48, 3.0)
    after = measured([False] + [True] * 12 + [False] * 47, 3.5)
    kept = compare(before, after)
    assert kept == Kept(12, 11, 1, 3.0, 3.5, (Lost(questions()[0].question, "0", "0"),))


def test_a_model_that_lost_everything_is_still_compared() -> None:
    kept = compare(measured([True] * 12 + [False] * 48, 3.0), measured([False] * 60, 9.0))
    assert kept is not None
    assert (kept.kept, kept.is_alarming) == (0, True)


def test_a_model_with_fewer_than_ten_right_answers_is_not_compared() -> None:
    assert compare(measured([True] * 9 + [False] * 51, None), measured([True] * 60, 3.0)) is None


def test_more_than_a_tenth_lost_is_an_alarm() -> None:
    assert not Kept(40, 36, 0, 1.0, 1.0, ()).is_alarming  # 4 of 40
    assert Kept(40, 35, 0, 1.0, 1.0, ()).is_alarming


def test_lost_answers_are_shown_up_to_five() -> None:
    lines = list(lost_lines([Lost(f"q{i}", "a\nb", "c" * 99) for i in range(7)]))
    assert lines[0] == f"q0  before 'a b', now '{'c' * 59}…'"
    assert lines[5:] == ["2 more"]


def test_damaged_figures_do_not_hide_the_rest() -> None:
    assert sentence_of({"kept": 3}) == "kept 3 of ? answers; loss on plain text ? -> ?"
    assert sentence_of(None) == "kept ? of ? answers; loss on plain text ? -> ?"
