"""Every published block is in the table, and an absent command is refused with what to use."""

from pathlib import Path

import pytest

from tests.seeds.blocks import commands
from tests.seeds.table import (
    ABSENT_COMMANDS,
    COMMANDS,
    FILES,
    NOT_RUN,
    PYTHON,
    Command,
)
from zoo.gym.cli import main


def test_the_texts_have_57_blocks(blocks: dict[str, str]) -> None:
    counts = [sum(number.startswith(letter) for number in blocks) for letter in "ABCDE"]
    assert counts == [9, 11, 22, 8, 7]


def test_every_block_is_run_or_has_a_reason(blocks: dict[str, str]) -> None:
    tables = (PYTHON, COMMANDS, ABSENT_COMMANDS, FILES)
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
