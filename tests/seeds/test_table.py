"""Every published block is in the table, and what is absent is refused with what to use."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.seeds.blocks import commands, part_of, with_our_import
from tests.seeds.table import (
    ABSENT_COMMANDS,
    ABSENT_PYTHON,
    COMMANDS,
    FILES,
    NOT_RUN,
    PYTHON,
    Command,
    Python,
)
from zoo.gym.cli import main
from zoo.gym.client import Client
from zoo.gym.errors import NotAvailableError


def test_the_texts_have_57_blocks(blocks: dict[str, str]) -> None:
    counts = [sum(number.startswith(letter) for number in blocks) for letter in "ABCDE"]
    assert counts == [9, 11, 22, 8, 7]


def test_every_block_is_run_or_has_a_reason(blocks: dict[str, str]) -> None:
    tables = (PYTHON, ABSENT_PYTHON, COMMANDS, ABSENT_COMMANDS, FILES)
    run = {block.number for table in tables for block in table}
    assert run.isdisjoint(NOT_RUN)
    assert run | NOT_RUN.keys() == blocks.keys()


def test_every_command_of_a_block_is_run(blocks: dict[str, str]) -> None:
    run = sorted((block.number, block.place) for block in (*COMMANDS, *ABSENT_COMMANDS))
    assert run == sorted(
        (number, place)
        for number in {number for number, _ in run}
        for place, _ in enumerate(commands(blocks[number]), 1)
    )


@pytest.mark.parametrize(
    "block", ABSENT_PYTHON, ids=lambda block: f"{block.number} {block.refused}"
)
def test_an_absent_name_is_refused_with_what_to_use(
    block: Python, blocks: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hanzo", SimpleNamespace(Hanzo=Client))
    code = with_our_import(blocks[block.number])
    with pytest.raises((ImportError, NotAvailableError), match=f"^{block.refused}: .*zoo.gym"):
        exec(part_of(code, block.only) if block.only else code, {})


@pytest.mark.parametrize(
    "block", ABSENT_COMMANDS, ids=lambda block: f"{block.number}.{block.place}"
)
def test_an_absent_command_is_refused_with_what_to_use(
    block: Command,
    blocks: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    words = commands(blocks[block.number])[block.place - 1].split()
    assert main(words[1:]) == 2
    message = capsys.readouterr().err.partition("error: ")[2]
    assert message.startswith(f"{block.refused}: ")
    assert "zoo-gym" in message.splitlines()[0]
