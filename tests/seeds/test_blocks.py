"""Published code runs as it was published, with our import and the data that it leaves open."""

import pytest

from tests.night import one_in
from tests.seeds.blocks import commands, part_of, with_our_import
from tests.seeds.conftest import Place
from tests.seeds.table import COMMANDS, FILES, PYTHON, Command, File, Python

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("block", one_in(3, PYTHON), ids=lambda block: block.number)
def test_a_python_block_has_its_outcome(
    block: Python, blocks: dict[str, str], place: Place
) -> None:
    code = with_our_import(blocks[block.number])
    if block.only:
        code = part_of(code, block.only)
    done = place.python(f"{block.prelude}\n{code}\n{block.after}\n")
    if block.refused is None:
        assert (done.returncode, done.stderr if done.returncode else "") == (0, "")
    else:
        assert done.returncode == 1
        assert block.refused in done.stderr


@pytest.mark.parametrize(
    "block", one_in(3, COMMANDS), ids=lambda block: f"{block.number}.{block.place}"
)
def test_a_command_has_its_outcome(block: Command, blocks: dict[str, str], place: Place) -> None:
    if block.prelude:
        done = place.python(block.prelude)
        assert (done.returncode, done.stderr if done.returncode else "") == (0, "")
    command = commands(blocks[block.number])[block.place - 1].split()
    check(block, place, [*command[1:], *block.more])


@pytest.mark.parametrize("block", one_in(3, FILES), ids=lambda block: block.number)
def test_a_file_has_its_outcome(block: File, blocks: dict[str, str], place: Place) -> None:
    (place.folder / block.name).write_text(blocks[block.number], encoding="utf-8")
    check(block, place, ["train", block.name, *block.more])


def check(block: Command | File, place: Place, words: list[str]) -> None:
    """Runs a command of ours and compares its outcome with the expected one."""
    done = place.gym(*words)
    if block.refused is not None:
        assert (done.returncode, block.refused in done.stderr) == (2, True), done.stderr
        return
    assert done.returncode == 0, done.stderr
    for said in block.says:
        assert said in done.stdout + done.stderr
    for name in block.makes:
        assert (place.folder / name).is_file()
