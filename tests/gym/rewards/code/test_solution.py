"""Which code of a response is tested."""

import pytest

from tests.gym.rewards.conftest import sample
from zoo.gym.errors import NotAvailableError
from zoo.gym.rewards.code.solution import solution_of
from zoo.gym.rewards.code.unit_tests import UnitTests

TESTS = {"test_list": ["assert f(1) == 2", "assert f(2) == 3"]}
F = "def f(x):\n    return x + 1\n"
BLOCK = f"```python\n{F}```\n"


@pytest.fixture(scope="module")
def reward() -> UnitTests:
    try:
        return UnitTests()
    except NotAvailableError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ("x = 1", "x = 1"),
        ("Look:\n```python\ndef f(): pass\n```\nUse it:\n```\nf()\n```\n", "def f(): pass\n"),
        ("```py\na = 1\n```\n```\nb = 1\n```", "b = 1\n"),
        ("<think>```\nwrong\n```</think>\n```\nright\n```", "right\n"),
        ("Sure:\n```python\ndef f():\n    return", "def f():\n    return"),
        ("```python\r\nx = 1\r\n```", "x = 1\r\n"),
    ],
)
def test_the_code_of_a_response_is_its_last_definition(response: str, code: str) -> None:
    assert solution_of(sample(response))[0] == code


@pytest.mark.parametrize(
    "response",
    [
        BLOCK,
        BLOCK.replace("```", "~~~"),
        BLOCK.replace("```", "````"),
        BLOCK.replace("```", "``````"),
        "1. Code:\n\n   " + BLOCK.replace("\n", "\n   "),
        "- Code:\n\n\t" + BLOCK.replace("\n", "\n\t"),
        f"````\n{F}# ```\n# text\n# ```\n````",
        "```python\n{}```".format(
            F.replace("    r", '    """Adds.\n\n        ```\n    """\n    r')
        ),
        BLOCK + "Tests:\n```python\ndef test_f():\n    assert f(1) == 5\n\ntest_f()\n```",
        BLOCK + "```python\nimport unittest\nclass T(unittest.TestCase):\n    pass\n```",
        BLOCK + "```python\nfor i in range(3):\n    print(f(int(input())))\n```",
        BLOCK + "```bash\nclass f\n```",
        BLOCK + "```text\n2\n```\nand\n```python\nf(",
        "```bash\npip install it\n```\n```python\n" + F,
        "```python\ndef one():\n    return 1\n```\n```python\ndef f(x):\n    return x + one()\n```",
        "```python\ndef f(x):\n    return x + one()\n```\n```python\ndef one():\n    return N\n```"
        "\n```python\nN = 1\nassert f(1) == 7\n```",
        "```\nfrom math import *\n```\n```\nimport math as m\nf = lambda x: x + floor(m.e/2)\n```",
        "```\ndef f(x):\n    return x\n```\nCorrected:\n" + BLOCK,
    ],
)
def test_right_code_is_found_in_any_form(reward: UnitTests, response: str) -> None:
    assert reward.score([sample(response, metadata=TESTS)])[0].value == 1.0


@pytest.mark.parametrize(
    "response",
    [
        BLOCK + "Corrected:\n```\ndef f(x):\n    return x\n```",
        BLOCK + "Corrected:\n```\ndef f(x:\n```",
        "```python\ndef f(x):\n    return one(x)\n```\n```python\ndef one(x):\n    return x\n```",
        "```text\nf = 1\n```",
    ],
)
def test_wrong_code_is_not_replaced_by_other_blocks(reward: UnitTests, response: str) -> None:
    assert reward.score([sample(response, metadata=TESTS)])[0].value == 0.0


def test_other_blocks_never_replace_what_the_code_defines(reward: UnitTests) -> None:
    helper = "def one():\n    return {}\n"
    blocks = [helper.format(5), helper.format(1) + "def f(x):\n    return x + one()\n"]
    response = "".join(f"```python\n{one}```\n" for one in (*blocks, helper.format(7)))
    assert reward.score([sample(response, metadata=TESTS)])[0].value == 1.0
