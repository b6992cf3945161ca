"""The table of model families: fifteen of them measured, and the page that holds all of them."""

import sys

import pytest

from tests.breadth import families
from tests.breadth.__main__ import bad
from tests.breadth.page import MARK, PAGE, page, read_page

COLUMNS_ALWAYS_OK = ("loads", "causal", "loss")

FIFTEEN = (
    "llama",  # the plain kind
    "qwen3",  # zen's own
    "gpt2",  # weights stored as [in, out], learned positions
    "opt",  # positions from the attention mask
    "bloom",  # ALiBi, a tied head
    "gemma2",  # windows, caps on the logits
    "cohere2",  # parallel residual, scaled logits
    "phi",  # parallel residual, biases, a head with a bias
    "falcon",  # one key head for all
    "mixtral",  # experts stored as one stack
    "deepseek_v3",  # latent attention, groups of experts
    "mamba2",  # a state in place of keys
    "falcon_h1",  # a state beside keys
    "qwen3_5",  # linear attention, below a part for images
    "openai-gpt",  # no cache
)


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, str]]:
    from tests.breadth.run import run

    found = run(list(FIFTEEN), processes=2)
    for _, traces in found.values():
        sys.stderr.write(traces)
    return {name: cells for name, (cells, _) in found.items()}


@pytest.mark.nightly
@pytest.mark.timeout(1500)
@pytest.mark.skipif(sys.platform == "win32", reason="children are forked from a server")
@pytest.mark.parametrize("name", FIFTEEN)
def test_a_family_neither_crashes_nor_has_wrong_numbers(
    name: str, measured: dict[str, dict[str, str]]
) -> None:
    assert [text for text in measured[name].values() if bad(text)] == []
    assert [measured[name][column] for column in COLUMNS_ALWAYS_OK] == ["ok"] * 3


def test_the_page_lists_every_family_of_the_installed_transformers() -> None:
    assert sorted(read_page(PAGE.read_text(encoding="utf-8"))) == families.names()


def test_no_cell_of_the_page_tells_of_a_defect() -> None:
    cells = read_page(PAGE.read_text(encoding="utf-8"))
    words = {word for row in cells.values() for word in row.values()}
    assert words <= {"ok", "refused", "-"}


def test_every_note_of_the_page_is_used_and_every_number_has_a_note() -> None:
    _, _, made = PAGE.read_text(encoding="utf-8").partition(MARK)
    table, _, notes = made.partition("## Notes")
    numbers = [line.partition(".")[0] for line in notes.splitlines() if line[:1].isdigit()]
    assert numbers == [str(at) for at in range(1, len(numbers) + 1)]
    assert {n for n in numbers if f"[{n}]" in table} == set(numbers)
    assert f"[{len(numbers) + 1}]" not in table


def test_equal_sentences_share_a_note() -> None:
    text = page({"a": {"loads": "refused: no"}, "b": {"loads": "refused: no"}}, {"torch": "1"})
    assert text.count("refused [1]") == 2
    assert "1. no" in text


def test_a_family_that_does_not_answer_is_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.breadth import run

    class Gone:
        exitcode = -9

        def join(self) -> None: ...

    class Silent:
        def recv(self) -> None:
            raise EOFError

        def close(self) -> None: ...

    one = object.__new__(run.Running)
    one.process, one.pipe, one.started = Gone(), Silent(), float("inf")
    assert one.result() == ({"loads": "crash: killed (-9)"}, "")
