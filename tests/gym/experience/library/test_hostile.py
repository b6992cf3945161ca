"""Texts of servers and files that would keep a pattern busy for hours, which no Ctrl-C ends."""

import subprocess
import sys
from pathlib import Path

import pytest

FENCE = """
from zoo.gym.errors import InputError
from zoo.gym.experience.library.edits import parse_edits
for answer in ("```json" + " " * 99_000, "```" * 33_000, "," * 99_000 + "[", "[," + " " * 99_000):
    try:
        parse_edits(answer)
    except InputError:
        pass
"""

FILE = """
import sys
from pathlib import Path
from zoo.gym.errors import InputError
from zoo.gym.experience.library.exchange import name_in, read_foreign
name_in(Path(sys.argv[1]))
try:
    read_foreign(Path(sys.argv[1]))
except InputError:
    pass
"""

FILES = {
    "agent.yaml": 'agent: {instructions: "[G0]. x' + " " * 400_000 + 'y"}',
    "blanks.md": ("- a" + " " * 4000 + "b\n") * 240,
    "comments.md": ("- a" + "<!--" * 1000 + "b\n") * 240,
    "ended.md": ("- a" + "-->" * 1300 + "\n") * 240,
    "name.md": "---\nname: a" + " " * 900_000 + "b\n---\n- a\n",
}


def run(code: str, *given: str) -> None:
    subprocess.run([sys.executable, "-c", code, *given], check=True, timeout=60)


@pytest.mark.slow
def test_no_answer_of_a_teacher_takes_long_to_read() -> None:
    run(FENCE)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.slow
def test_no_file_of_lessons_takes_long_to_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name])
    run(FILE, str(path))
