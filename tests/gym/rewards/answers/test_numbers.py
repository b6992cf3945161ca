"""Numbers in text."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.rewards.answers.numbers import find_numbers, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", "5"),
        ("-1,234.5", "-2469/2"),
        ("1_540", "1540"),
        ("\u22127", "-7"),
        ("2/3", "2/3"),
        ("1 1/2", "3/2"),
        ("-1 1/2", "-3/2"),
        ("½", "1/2"),
        (r"\frac{2}{3}", "2/3"),
        (r"\dfrac12", "1/2"),
        ("50%", "1/2"),
        (r"12.5\%", "1/8"),
        ("$20", "20"),
        ("-$20", "-20"),
        (r"\$1{,}000", "1000"),
        ("6e-3", "3/500"),
        (".5", "1/2"),
        ("**42**.", "42"),
    ],
)
def test_a_number_is_read_in_every_common_form(text: str, value: str) -> None:
    number = parse_number(text)
    assert number is not None
    assert number.value == Fraction(value)


@pytest.mark.parametrize(
    "text",
    ["", "five", "5 apples", "1/0", "x5", "1e999999999", "9" * 500, "1/2/2024", "(A)", "--5"],
)
def test_what_is_not_one_number_is_none(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("10-7=3", ["10", "7", "3"]),
        ("(3)-1", ["3", "1"]),
        ("1, 2,3", ["1", "2", "3"]),
        ("v2 has 4 rows", ["4"]),
        ("3.14.", ["157/50"]),
        ("x=-5", ["-5"]),
        ("1,0000", ["1", "0"]),
    ],
)
def test_numbers_are_found_in_order(text: str, values: list[str]) -> None:
    assert [str(number.value) for number in find_numbers(text)] == values


@given(st.integers(-(10**30), 10**30))
def test_every_whole_number_is_read_as_itself(number: int) -> None:
    for text in (str(number), f"{number:,}"):
        found = parse_number(text)
        assert found is not None
        assert found.value == number


@given(st.text(alphabet="0123456789,._/%$-+e \\frac{}½", max_size=60))
def test_any_text_is_searched_without_an_error(text: str) -> None:
    assert isinstance(find_numbers(text), list)


@pytest.mark.slow
def test_a_long_run_of_digits_is_searched_quickly() -> None:
    assert find_numbers("1" * 200_000 + " 7")[-1].value == 7
    assert find_numbers("1,111" * 40_000 + " 7")[-1].value == 7
