"""Numbers that a hurried reader takes for others: powers, Unicode, units, parts of formulas."""

import pytest

from tests.gym.rewards.conftest import sample, task
from zoo.gym.rewards import load
from zoo.gym.rewards.answers.either import Either
from zoo.gym.rewards.answers.numeric import Numeric

RIGHT = [
    ("10³", "1000"),
    ("4²", "16"),
    ("1½", "1.5"),
    ("1.5", "1½"),
    ("1000000", "10⁶"),
    (r"\boxed{10^6}", "1000000"),
    (r"\boxed{10^{-3}}", "0.001"),
    ("10⁻³", "0.001"),
    ("5 cm^2", "5"),
    ("5 cm²", "5"),
    ("so it is 5 m/s^2", "5"),
    (r"\boxed{12\text{ m}^2}", "12"),
    (r"\boxed{12 \mathrm{~cm}^{2}}", "12"),
    ("6.02 \u00d7 10^{23}", "6.02e23"),
    (r"\boxed{6.02 \times 10^{23}}", "6.02e23"),
    ("25 000", "25000"),
    ("25\u202f000", "25000"),
    (r"\boxed{25\,000}", "25000"),
    ("25000", "25 000"),
    ("\u20135", "-5"),
    ("minus 5", "-5"),
    ("negative 5", "-5"),
    (r"\boxed{\text{minus } 5}", "-5"),
    ("1 million", "1000000"),
    ("2.5 thousand dollars", "2500"),
    ("5 percent", "5%"),
    (r"\boxed{x = 5}", "5"),
    (r"\boxed{$5}", "5"),
    (r"\boxed{5^\circ}", "5"),
    (r"\boxed{-\frac{1}{2}}", "-1/2"),
    (r"\boxed{\frac{-1}{2}}", "-1/2"),
    ("the total is $72$.", "72"),
    (r"the total is \(72\).", "72"),
    ("the total is **72**", "72"),
    ("the total is <b>72</b>.", "72"),
    ("it is 72!", "72"),
    ("he has 72 (seventy-two) apples", "72"),
    ('{"answer": 72}', "72"),
    ("| total | 72 |", "72"),
    ("10 - 7 = 3 apples", "3"),
    ("10 minus 7 is 3", "3"),
    ("3 + 4 \u2192 7 (apples)", "7"),
    ("<answer>5 apples</answer>", "5"),
    ("#### $1,000.00", "1000"),
    ("in 2020, 5 apples", "5"),
    ("I have 5 a day", "5"),
    ("x = - 5", "-5"),
    ("- 5", "-5"),
]
WRONG = [
    ("10³", "103"),
    ("4²", "42"),
    ("1½", "11/2"),
    ("106", "10⁶"),
    ("5.5", "1½"),
    (r"\boxed{10^6}", "6"),
    ("5 cm^2", "2"),
    (r"\boxed{12\text{ m}^2}", "2"),
    ("6.02 \u00d7 10^{23}", "23"),
    ("25 000", "0"),
    ("25\u202f000", "0"),
    (r"\boxed{\sqrt{2}}", "2"),
    (r"\boxed{\sqrt2}", "2"),
    ("\u221a2", "2"),
    (r"\boxed{\frac{\pi}{2}}", "2"),
    (r"\boxed{3x+4}", "4"),
    ("so it is 3x+4", "4"),
    (r"\boxed{(3,4)}", "4"),
    ("the point is (3, 4)", "4"),
    ("{3, 4}", "4"),
    (r"\boxed{\{3, 4\}}", "4"),
    (r"\boxed{3, 4}", "4"),
    (r"\boxed{x=3, x=4}", "4"),
    (r"\boxed{3 \text{ or } 4}", "4"),
    ("\u20135", "5"),
    ("minus 5", "5"),
    ("1 million", "1"),
    ("x^2", "2"),
    ("x_2", "2"),
    ("log 8", "8"),
    (r"\boxed{2\pi}", "2"),
    (r"\boxed{2x}", "2"),
    ("2 \u00d7 3", "3"),
    ("2*3", "3"),
    ("10 minus 7", "7"),
    ("5 times 3", "3"),
    ("f(3)", "3"),
    ("2(3)", "3"),
    ("(-2)^2", "-2"),
    ("2(x+1)", "2"),
    (r"\boxed{x > 5}", "5"),
    (r"\boxed{\pm 5}", "5"),
    ("\u00b15", "5"),
    (r"\boxed{0.\overline{3}}", "3"),
    (r"\boxed{0.\overline{3}}", "0"),
    ("3:4", "4"),
    ("3,14", "14"),
    ("5 squared", "5"),
    ("5 and a half", "5"),
    (r"\boxed{5!}", "5"),
    (r"\boxed{5i}", "5"),
    ("1010\u2082", "10102"),
    ("5K", "5"),
    ("so:\n- 5 apples", "-5"),
    ("the total - 5", "-5"),
]


@pytest.mark.parametrize(("response", "answer"), RIGHT)
def test_a_right_number_scores_one(response: str, answer: str) -> None:
    for reward in (Numeric(), Either()):
        assert reward.score([sample(response, answer)])[0].value == 1.0


@pytest.mark.parametrize(("response", "answer"), WRONG)
def test_a_part_of_other_mathematics_is_not_the_number(response: str, answer: str) -> None:
    for reward in (Numeric(), Either()):
        assert reward.score([sample(response, answer)])[0].value == 0.0


def test_auto_reads_powers_and_mixed_numbers_of_rows_as_numbers() -> None:
    with load("auto", [task("10⁶"), task("1½"), task("25 000")]) as reward:
        assert reward.name == "numeric"
