"""Mathematics that a parser of LaTeX reads in part, or takes for equal without being so."""

from collections.abc import Iterator

import pytest

from tests.gym.rewards.conftest import sample
from zoo.gym.rewards import Reward, load
from zoo.gym.rewards.answers.expressions import mathematics, same_notation

pytest.importorskip("math_verify", reason="math-verify is in the extra eval")


@pytest.fixture(scope="module")
def reward() -> Iterator[Reward]:
    with load("math", []) as made:
        yield made


RIGHT = [
    ("10^-1", "0.1"),
    (r"\boxed{10^-1}", "0.1"),
    ("$5^-1$", r"\frac15"),
    ("1e6", "1000000"),
    (r"\boxed{1e6}", "1000000"),
    ("1.5e-3", "0.0015"),
    ("10⁻⁴", "0.0001"),
    ("0.0001", "10⁻⁴"),
    ("½", "0.5"),
    (r"\boxed{1½}", r"\frac{3}{2}"),
    ("√2", r"\sqrt{2}"),
    ("√13", r"\sqrt{13}"),
    (r"\boxed{√13}", r"\sqrt{13}"),
    ("$\\sqrt13$", r"\sqrt{13}"),
    ("sqrt 13", r"\sqrt{13}"),
    ("∞", r"\infty"),
    (r"\boxed{-∞}", r"-\infty"),
    ("\u20135", "-5"),
    ("the answer is \u20135", "-5"),
    ("minus 5", "-5"),
    ("negative 5", "-5"),
    (r"\boxed{\text{minus } 5}", "-5"),
    (r"1\,000\,000", "1000000"),
    (r"\boxed{1\,000\,000}", "1000000"),
    ("25 000", "25000"),
    ("sqrt((x+1)^2+1)", r"\sqrt{(x+1)^2+1}"),
    ("sqrt(sqrt(x+1)+1)", r"\sqrt{\sqrt{x+1}+1}"),
    ("1 1/2", r"\frac{3}{2}"),
    (r"\boxed{1 1/2}", r"\frac{3}{2}"),
    (r"\boxed{1\frac{1}{2}}", r"\frac{3}{2}"),
    ("x=5, y=6", "(5,6)"),
    ("3:4", "3:4"),
    (r"\boxed{\{1,2\}}", "{2,1}"),
    (r"\boxed{90^\circ}", "90"),
    ("90", r"90^\circ"),
    ("X", "X"),
    ("x^12", "x^{12}"),
]
WRONG = [
    (r"\boxed{10^-1}", "10"),
    ("5^-1", "5"),
    ("3^-2", "3"),
    (r"$\sqrt13$", "3"),
    (r"$\sqrt13$", r"\sqrt{1}"),
    ("minus 5", "5"),
    ("negative 5", "5"),
    ("\u20135", "5"),
    ("{1,2}", "(1,2)"),
    (r"\boxed{\{1,2\}}", "(1,2)"),
    ("(1,2)", r"\{1,2\}"),
    ("3:4", "3/4"),
    ("3:4", "0.75"),
    (r"\boxed{3:4}", r"\frac{3}{4}"),
    ("4:3", "3:4"),
    ("X", "x"),
    ("2A", "2a"),
    (r"\boxed{2A}", "2a"),
    ("10³", "103"),
    ("1½", r"\frac{11}{2}"),
    ("1 1/2", "1"),
    ("x=5, y=6", "6"),
    ("x=6, y=5", "(5,6)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("response", "answer"), RIGHT)
def test_a_right_answer_scores_one_in_every_notation(
    reward: Reward, response: str, answer: str
) -> None:
    assert reward.score([sample(response, answer)])[0].value == 1.0


@pytest.mark.parametrize(("response", "answer"), WRONG)
def test_an_answer_read_in_part_is_not_equal(reward: Reward, response: str, answer: str) -> None:
    assert reward.score([sample(response, answer)])[0].value == 0.0


def test_a_letter_of_a_word_is_no_variable() -> None:
    assert same_notation(r"5\text{ CM}", r"5\text{ cm}")


def test_other_text_keeps_its_form() -> None:
    text = r"$\frac{x+1}{2}$ and $(1, 2]$, or \begin{pmatrix}1 \\ 2\end{pmatrix}"
    assert mathematics(text) == text
