"""Answers compared as mathematics."""

import sys
import threading
from collections.abc import Iterator

import pytest

from tests.codes import raises
from tests.gym.rewards.conftest import sample, task
from zoo.backends.machine.installing import install_command
from zoo.gym.rewards import Reward, Score, load
from zoo.gym.rewards.answers import symbolic
from zoo.gym.rewards.processes.workers import Workers

pytest.importorskip("math_verify", reason="math-verify is in the extra eval")


@pytest.fixture(scope="module")
def reward() -> Iterator[Reward]:
    with load("math", []) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("response", "answer", "value"),
    [
        (r"so \boxed{\frac{1}{2}}", "0.5", 1.0),
        (r"<think>\boxed{3}</think>\boxed{2\sqrt{2}}", r"\sqrt{8}", 1.0),
        (r"the answer is $x^2 + 2x + 1$", "(x+1)^2", 1.0),
        (r"\boxed{\{2, 1\}}", r"\{1,2\}", 1.0),
        (r"\boxed{(1, 2)}", r"(2, 1)", 0.0),
        (r"\boxed{\frac{\pi}{4}}", r"\frac{\pi}{4}", 1.0),
        ("<answer>1/3</answer>", r"\frac13", 1.0),
        ("#### 1,000", "1000", 1.0),
        ("it is 5 apples", 5, 1.0),
        (r"\boxed{x^2}", "x^3", 0.0),
        ("no idea", "5", 0.0),
        ("", "5", 0.0),
        (r"\boxed{7}", ["6", "7"], 1.0),
        (r"\sqrt{2}", r"\sqrt{2}", 1.0),
        (r"The answer is \sqrt{2}", r"\sqrt{2}", 1.0),
        (r"The answer is \sqrt{2}, which is about 1.41.", r"\sqrt{2}", 1.0),
        (r"so x is \sqrt{8}/2 then", r"\sqrt{2}", 1.0),
        (r"the answer is $\sqrt{2}$, because $2 > 1$", r"\sqrt{2}", 1.0),
        (r"the answer is $\sqrt{2}$", r"The answer is $\sqrt{2}$.", 1.0),
        (r"x = \sqrt{2} \approx 1.41", r"\sqrt{2}", 1.0),
        ("x+1", "x+1", 1.0),
        ("1 + x", "x+1", 1.0),
        ("Answer: x+1", "x+1", 1.0),
        ("Answer: x+2", "x+1", 0.0),
        ("<answer>x**2 + 1</answer>", "1 + x^2", 1.0),
        ("(2, 1)", "1", 0.0),
        ("The answer is (2, 1).", "1", 0.0),
        ("Then the point is (2, 1)", "1", 0.0),
        (r"\boxed{(2, 1)}", "1", 0.0),
        ("<answer>(2, 1)</answer>", "(2, 1)", 1.0),
        ("Then the point is (2, 1)", "(2, 1)", 1.0),
        ("1, 2, 3", "3", 0.0),
        ("the answer is 5 or 6", "5", 0.0),
        ("48/2 = 24, and 48 + 24 = 72", "72", 1.0),
        ("I have a 5 here", "5", 1.0),
        ("50%", r"50\%", 1.0),
        ("The answer is Paris.", "Paris", 1.0),
        (r"\boxed{\text{Paris}}", "Paris", 1.0),
        ("The answer is Rome.", "Paris", 0.0),
        ("2xy + 1", "1 + 2yx", 1.0),
        ("sqrt(2)", r"\sqrt{2}", 1.0),
        ("the answer is pi/4", r"\frac{\pi}{4}", 1.0),
        ("2*sin(x)", r"2\sin x", 1.0),
        ("the answer is \u22123", "-3", 1.0),
        ("x\u00b2 + 1", "x^2 + 1", 1.0),
        ("The answer is -3.", "3", 0.0),
        ("The answer is 5 kg.", "5", 1.0),
        ("The answer is 5, and that is final.", "5", 1.0),
        ("the answer is unclear, but I say 5", "5", 1.0),
        ("Thus $x = 3$. The answer is 4.", "3", 0.0),
        (r"\begin{pmatrix}1 \\ 2\end{pmatrix}", r"\begin{pmatrix} 1\\2 \end{pmatrix}", 1.0),
    ],
)
def test_equal_mathematics_scores_one(
    reward: Reward, response: str, answer: object, value: float
) -> None:
    assert reward.score([sample(response, answer)])[0].value == value


@pytest.mark.slow
def test_many_answers_keep_their_order(reward: Reward) -> None:
    samples = [sample(rf"\boxed{{{index}}}", str(index % 3)) for index in range(12)]
    assert [score.value for score in reward.score(samples)] == [1.0, 1.0, 1.0] + [0.0] * 9


@pytest.mark.slow
def test_it_works_outside_the_main_thread(reward: Reward) -> None:
    scores: list[Score] = []
    thread = threading.Thread(target=lambda: scores.extend(reward.score([sample("5", "5")])))
    thread.start()
    thread.join()
    assert scores[0].value == 1.0


@pytest.mark.slow
def test_a_hostile_answer_is_stopped_and_scores_zero() -> None:
    hostile = r"\boxed{9^{9^{9^{9}}} - 7^{8^{9^{9}}} + \prod_{i=1}^{10^9} \sin(i)}"
    with load({"kind": "math", "timeout_s": 2}, []) as reward:
        values = [reward.score([sample(text, "5")])[0].value for text in (hostile, "5")]
    assert values == [0.0, 1.0]


def test_a_row_that_is_no_mathematics_has_no_reward(reward: Reward) -> None:
    score = reward.score([sample("5", "$$")])[0]
    assert score.failed
    assert score.reason == "the row's answer is no mathematics"


def test_a_process_that_does_not_start_gives_no_reward() -> None:
    with load("math", []) as reward:
        reward._workers = Workers([sys.executable, "-c", ""], timeout_s=1)  # type: ignore[attr-defined]
        score = reward.score([sample("5", "5")])[0]
    assert score.failed
    assert score.reason == "math-verify cannot be used: the process ended with exit code 0"


def test_formulas_are_compared_as_mathematics_by_default() -> None:
    with load("auto", [task(r"\sqrt{2}"), task("3")]) as reward:
        assert reward.name == "math"
    with load("auto", [task(r"\frac{1}{2}"), task("3")]) as reward:
        assert reward.name == "numeric"


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic, "find_spec", lambda name: None)
    with raises("rewards.missing_package", "math-verify") as caught:
        load("math", [])
    assert caught.value.hint == install_command("eval")
