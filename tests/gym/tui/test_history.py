"""The curve and the words that are folded from events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.jobs import Event
from zoo.gym.tui.runs.history import History, meaning, thinned
from zoo.gym.tui.runs.text import headline, meters, newest_answers, watched_metrics


def step(number: int, loss: float | None = 1.0) -> Event:
    return {"kind": "step", "t": 1.0, "step": number, "steps": 9, "loss": loss}


def evaluation(number: int, loss: float, *, best: bool = False, **metrics: float) -> Event:
    fields = {"loss": loss, "best": best, "metrics": metrics}
    return {"kind": "eval", "t": 1.0, "step": number, **fields}


def taken(*events: Event) -> History:
    history = History()
    history.take(events)
    return history


def test_a_resume_takes_the_steps_behind_its_checkpoint_along() -> None:
    history = taken(*(step(i, i) for i in range(1, 8)), evaluation(6, 2.0), step(5, 0.5))
    assert history.losses == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 0.5)]
    assert history.held_out == []


def test_the_newest_answers_are_shown_each_on_one_line() -> None:
    def answers(*texts: str) -> Event:
        entries = [{"prompt": "Who are you, then? " * 9, "now": text} for text in texts]
        return {"kind": "answers", "t": 1.0, "step": 1, "answers": entries}

    history = taken(answers("nobody"), answers("Rowan " * 30, "the\nsecond", "the third"))
    first, second = newest_answers(history, 2, 80).splitlines()
    assert len(first) <= 80 - 2  # between the margins
    assert first.endswith("…'")
    assert second == "'Who are you, then? Who ar…'  'the second'"


def test_a_loss_that_is_not_a_number_is_reported_and_not_drawn() -> None:
    history = taken(step(1, 2.0), step(2, None))
    assert history.losses == [(1, 2.0)]
    assert history.notes == ["warning: the loss of step 2 is not a number"]


def test_events_of_a_later_version_change_nothing() -> None:
    later: list[Event] = [{"kind": "sample", "t": 1.0}, {"kind": "step", "t": 1.0, "step": "two"}]
    assert taken(*later).losses == []


def test_the_best_step_is_never_the_one_before_training() -> None:
    assert taken(evaluation(0, 0.1), evaluation(5, 0.4, best=True)).best() == (5, 0.4)


def test_no_gain_is_said_in_words() -> None:
    history = taken(
        evaluation(0, 1.0), *(step(i) for i in range(1, 6)), evaluation(5, 1.2, best=True)
    )
    assert "no better than before training" in meaning(history)


def test_a_passed_best_is_said_with_its_step() -> None:
    best = evaluation(4, 1.0, best=True)
    history = taken(evaluation(0, 3.0), step(1), best, evaluation(8, 1.5))
    assert "best at step 4 (1)" in meaning(history)


LEARNS = "holds for rows that were not trained on. More steps may help"


def test_a_gain_on_held_out_rows_is_said() -> None:
    assert LEARNS in meaning(taken(evaluation(0, 3.0), step(1), evaluation(1, 1.0, best=True)))


def test_a_gain_is_not_claimed_without_a_measurement_before_training() -> None:
    assert LEARNS not in meaning(taken(step(1), evaluation(1, 1.0, best=True)))


def test_a_failed_run_is_not_praised() -> None:
    failed: Event = {"kind": "end", "t": 2.0, "state": "failed", "exit_code": 1}
    said = meaning(taken(evaluation(0, 3.0), step(1), evaluation(1, 1.0, best=True), failed))
    assert LEARNS not in said
    assert "The run failed" in said


HIGHER: Event = {"kind": "plan", "t": 1.0, "decides": "accuracy", "better": "higher"}


def test_the_metric_that_decides_is_shown_with_its_own_best_step() -> None:
    history = taken(
        HIGHER,
        evaluation(0, 0.7, accuracy=0.5),
        step(1),
        evaluation(1, 0.6, best=True, accuracy=0.9),
        step(2),
        evaluation(2, 0.5, accuracy=0.8),
    )
    assert history.best() == (1, 0.9)
    assert "The held-out accuracy was best at step 1 (0.9)" in meaning(history)
    figures = dict(meters(history))
    assert (figures["held-out accuracy"], figures["best held-out accuracy"]) == ("0.8", "0.9 @1")
    done: Event = {"kind": "end", "t": 2.0, "state": "done", "exit_code": 0}
    history.take([done])
    assert "held-out accuracy from 0.5 to 0.9" in headline(history, None)


def test_a_higher_loss_with_a_better_metric_is_a_gain_and_the_reverse_is_none() -> None:
    before, after = evaluation(0, 0.5, a=0.5), evaluation(1, 0.9, best=True, a=0.7)
    plan = HIGHER | {"decides": "a"}
    assert "is at its best" in meaning(taken(plan, before, step(1), after))
    assert "no better" in meaning(taken(plan | {"better": "lower"}, before, step(1), after))


def test_a_metric_that_decides_and_was_never_a_number_has_no_best() -> None:
    history = taken(HIGHER, evaluation(0, 0.5), step(1), evaluation(1, 0.4, best=True))
    assert history.best() is None
    assert "No number for the held-out accuracy" in meaning(history)


def test_the_latest_value_of_each_watched_metric_is_kept() -> None:
    history = taken(
        {"kind": "plan", "t": 1.0, "watch": ["rewards/margin", "accuracy", "absent", 7]},
        step(1) | {"metrics": {"rewards/margin": 0.3, "accuracy": 0.5, "other": 1.0}},
        step(2) | {"metrics": {"accuracy": 0.75}},
        evaluation(2, 1.0) | {"metrics": {"accuracy": 0.625}},
    )
    shown = ["rewards/margin 0.3", "accuracy 0.75", "held-out accuracy 0.625"]
    assert watched_metrics(history) == shown


@pytest.mark.slow
@given(st.recursive(st.none() | st.floats() | st.text(max_size=2), st.lists) | st.just({"a": []}))
def test_any_metrics_can_be_shown(found: object) -> None:
    plan: Event = {"kind": "plan", "t": 1.0, "watch": found}
    for watch in (plan, plan | {"watch": ["a"]}):
        later = step(2) | {"metrics": {"a": found}}
        watched_metrics(taken(watch, step(1) | {"metrics": found}, later))


def test_a_metric_that_is_not_finite_is_called_so() -> None:
    found = step(1) | {"metrics": {"kl": None}}
    assert watched_metrics(taken({"kind": "plan", "watch": ["kl"]}, found)) == ["kl not a number"]


def test_old_events_have_no_metrics() -> None:
    assert (
        watched_metrics(taken({"kind": "plan", "t": 1.0}, step(1), evaluation(1, 1.0, best=True)))
        == []
    )


@given(st.integers(1, 3000), st.integers(2, 400))
def test_a_thinned_curve_keeps_both_ends_and_its_order(count: int, most: int) -> None:
    points = [(i, float(i % 7)) for i in range(1, count + 1)]
    thin = thinned(points, most)
    assert len(thin) == min(count, most)
    assert (thin[0][0], thin[-1][0]) == (1, count)
    assert thin == sorted(thin)


@pytest.mark.parametrize(
    ("losses", "trend"),
    [
        ([3.0] * 5 + [2.0] * 4, "has no clear trend yet"),
        ([3.0] * 5 + [2.0] * 5, "is falling"),
        ([3.0] * 5 + [2.0] * 10, "fell, and is steady now"),
        ([2.0] * 5 + [3.0] * 10, "rose, and is steady now"),
        ([2.0] * 5 + [2.5] * 5 + [2.0] * 10, "is steady"),
        ([2.0] * 5 + [2.5] * 5, "is rising"),
        ([2.0] * 9 + [9.0], "is steady"),  # one step
        ([2.0] * 8 + [9.0] * 2, "is steady"),
    ],
)
def test_the_trend_of_a_loss_is_that_of_now_and_of_the_whole_run(
    losses: list[float], trend: str
) -> None:
    steps = [step(number, loss) for number, loss in enumerate(losses, start=1)]
    assert meaning(taken(*steps)).startswith(f"The loss {trend}")
