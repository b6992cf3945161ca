"""The calls of a fixed run: whatever changes them is another method, which journals must name."""

import hashlib
from pathlib import Path

import pytest

from tests.gym.experience.causal import World, run, split_of
from zoo.backends.openai.reply import Reply
from zoo.gym.experience.calls.journal import METHOD, Journal, Spent
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.library.file import write_library

MADE = {1: "ff5f429a512e1ba1", 2: "710b82be35e2b383"}
"""What a fixed run makes by each method: its calls and its library."""


class Keys(Journal):
    """Notes the key of each answer, which has the request and its place in the run."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    def got(self, key: str, slot: str, reply: Reply, bill: Spent) -> None:
        self.keys.append(key)
        super().got(key, slot, reply, bill)


@pytest.mark.slow
def test_a_run_makes_what_the_method_says(tmp_path: Path) -> None:
    journal, split = Keys(), split_of(test=6)
    small = Split(split.train[:12], split.gate[:12], split.test)
    found = run(World(), small, journal, max_epochs=2)
    assert found.library.items
    library = write_library(tmp_path / "l.json", found.library)
    made = hashlib.sha256("".join([*sorted(journal.keys), library]).encode()).hexdigest()[:16]
    assert made == MADE[METHOD], "other calls: raise METHOD in journal.py and add what it makes"
