"""The setting `reward`: names, options, weights, and the choice by the rows."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample, task
from zoo.gym.errors import InputError
from zoo.gym.rewards import Score, Task, check, describe, load

TASKS = [task("5")]


def value(spec: object, response: str, answer: object = "5") -> float:
    with load(spec, [task(answer)]) as reward:
        return reward.score([sample(response, answer)])[0].value


@pytest.mark.parametrize(
    "spec",
    [
        "numeric",
        ["numeric"],
        {"kind": "numeric"},
        {"numeric": 1},
        {"numeric": {"tolerance": 0}},
        [{"kind": "numeric", "tolerance": "1e-6"}],
    ],
)
def test_a_reward_is_named_in_any_form(spec: object) -> None:
    assert value(spec, "it is 5.0") == 1.0


@pytest.mark.parametrize(
    "spec",
    ["numeric,exact", {"numeric": 1, "exact": 1}, ["numeric", {"kind": "exact", "weight": 1}]],
)
def test_several_rewards_are_summed(spec: object) -> None:
    assert value(spec, "5") == 2.0
    assert value(spec, "it is 5") == 1.0


def test_weights_multiply_and_parts_stay_unweighted() -> None:
    with load({"numeric": 0.5, "exact": -2}, TASKS) as reward:
        score = reward.score([sample("5", "5")])[0]
    assert score.value == 0.5 * 1 - 2 * 1
    assert score.parts == {"numeric": 1.0, "exact": 1.0}
    assert reward.parts == ("numeric", "exact")


def test_a_single_reward_is_weighted_too() -> None:
    assert value({"numeric": 3}, "5") == 3.0


def test_an_option_changes_the_reward() -> None:
    assert value({"kind": "numeric", "tolerance": 0.5}, "7") == 1.0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("numric", "reward: 'numric': no such reward. Did you mean 'numeric'?"),
        ("", "reward: '': no such reward"),
        (None, "reward: expected a name, a list or a mapping, got nothing"),
        ([], "reward: expected the name of a reward, got an empty list"),
        ({}, "reward: expected the name of a reward, got a mapping"),
        ([3], "reward: expected a name, a list or a mapping, got 3"),
        ([["exact"]], "reward: expected names or mappings in the list, got a list"),
        ({"kind": 3}, "reward: kind: expected a name, got 3"),
        (
            {"numeric": {"tolerence": 1}},
            "reward: numeric: tolerence: no such setting. Did you mean 'tolerance'?",
        ),
        (
            {"numeric": {"tolerance": -1}},
            "reward: numeric: tolerance: expected 0 to 1, got -1",
        ),
        ({"numeric": True}, "reward: numeric: weight: expected a number, got true"),
        ({"numeric": math.inf}, "reward: numeric: weight: expected a finite number, got inf"),
        ({"numeric": 0}, "reward: numeric: weight: expected another number than 0"),
        (["exact", "exact"], "reward: 'exact' is given twice: expected different names"),
        ("auto,exact", "reward: auto chooses the only reward"),
    ],
)
def test_a_wrong_value_is_refused_by_name(spec: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(spec, TASKS)
    assert caught.value.message.startswith(message)


def test_two_rewards_of_a_kind_need_names() -> None:
    spec = ["exact", {"kind": "exact", "name": "strict", "ignore_case": False}]
    with load(spec, [task("Paris")]) as reward:
        score = reward.score([sample("paris", "Paris")])[0]
    assert score.parts == {"exact": 1.0, "strict": 0.0}


def test_rows_without_an_answer_are_refused_before_any_response() -> None:
    tasks = [task("5"), Task((), None, source="b.jsonl:7"), task()]
    with raises(
        "rewards.missing_column", r"b\.jsonl:7: no answer: .*\(and 1 other rows\)"
    ) as caught:
        load("numeric", tasks)
    assert caught.value.code == "rewards.missing_column"


def test_a_reward_is_checked_early_by_whether_it_fits_any_row(tmp_path: Path) -> None:
    check("numeric,exact", [task(), task("5")])
    check("auto", [task(), task("5")])
    check({"kind": "model", "model": "no/model"}, [task()])  # not loaded
    for spec in ("exact", "auto", f"{tmp_path}/no.py:score", "live.py"):
        with pytest.raises(InputError, match=r"no answer|have none|no such file|live\.py"):
            check(spec, [task(), task()])


def test_a_part_without_a_reward_leaves_the_sum_without_one() -> None:
    with load("numeric,exact", []) as reward:
        score = reward.score([sample("5", "five")])[0]
    assert score.failed
    assert score.reason == 'numeric: the answer "five" is not a number'
    assert score.parts["exact"] == 0.0


@pytest.mark.parametrize(
    ("answers", "name", "why"),
    [
        (["5", "1,000"], "numeric", "every answer of 2 rows is a number"),
        (["Paris"], "exact", "the answers of 1 row are text"),
        (["5", "C"], "answer", "the answers of 1 of 2 rows are numbers, the others text"),
    ],
)
def test_auto_chooses_by_the_answers_and_says_why(answers: list[str], name: str, why: str) -> None:
    with load("auto", [task(answer) for answer in answers]) as reward:
        assert reward.name == name
        assert reward.description.startswith(f"{name}, because {why}: ")


def test_auto_has_the_weight_and_the_name_that_are_given() -> None:
    with load({"auto": -1}, TASKS) as reward:
        score = reward.score([sample("5", "5")])[0]
        assert (score.value, score.parts, reward.parts) == (-1.0, {"numeric": 1.0}, ("numeric",))
    with load({"kind": "auto", "name": "mine"}, TASKS) as named:
        assert named.name == "mine"
        assert named.score([sample("5", "5")])[0].value == 1.0


def test_auto_without_answers_is_refused_with_the_ways_out() -> None:
    with raises("rewards.no_answers", r"1 of 2 rows have none, first rows\.jsonl:1") as caught:
        load("auto", [task("5"), task()])
    assert caught.value.hint is not None
    with raises("rewards.no_answers", "no rows"):
        load("auto", [])


def test_a_description_is_one_safe_line() -> None:
    text = describe(sample("\x1b[2J" + "x" * 200), Score(math.nan, "a\nb"))
    assert text == f'rows.jsonl:1: "\\x1b[2J{"x" * 76}...": reward none: a\\x0ab'


Tasks = Callable[..., list[Task]]


@pytest.mark.slow
def test_every_solution_of_gsm8k_is_right_and_others_are_not(real_tasks: Tasks) -> None:
    tasks = real_tasks("gsm8k_train.jsonl", "question", lambda row: row["answer"])[:1000]
    with load("auto", tasks) as reward:
        assert reward.name == "numeric"
        own: list[Any] = reward.score([sample(str(one.answer), one.answer) for one in tasks])
        pairs = itertools.pairwise(tasks)
        others = reward.score([sample(str(b.answer), a.answer) for a, b in pairs])
    assert all(score.value == 1.0 for score in own)
    assert sum(score.value for score in others) < 20  # equal by chance


@pytest.mark.slow
def test_answers_of_both_sorts_are_each_compared_in_their_way(real_tasks: Tasks) -> None:
    tasks = real_tasks("calc_train.jsonl", "messages", lambda row: row["rollout_extra"]["solution"])
    with load("auto", tasks) as reward:
        assert reward.name == "answer"
        right = [sample(f"### ANSWER: {one.answer} ###", one.answer) for one in tasks]
        assert all(score.value == 1.0 for score in reward.score(right))
