"""Repeats a finished run from its journal alone: the same library to the byte, or what differs."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from zoo.backends.openai.reply import Reply
from zoo.gym.errors import InputError
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Answerer, Caller, Model, ReplayEndedError
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.learning.learn import learn
from zoo.gym.experience.library.file import read_library, write_library
from zoo.gym.experience.library.report import JOURNAL_FILE, first_change
from zoo.gym.experience.session import LIBRARY_FILE, figures_of, lesson_of, read_settings
from zoo.gym.experience.tasks import read_split
from zoo.gym.jobs.run import Run


@dataclass(frozen=True)
class Replayed:
    """What a replay found.

    Attributes:
        digest: the digest of the repeated library; empty if the replay did not come to its end.
        same: whether the library, the figures of the report and the files are those of the run.
        first_difference: where it differs; None if it does not.
        other_method: why it must be expected to differ, in words: another version of the program
            wrote the journal; empty if this one did.
    """

    digest: str
    same: bool
    first_difference: str | None
    other_method: str = ""


def replay(run: Run) -> Replayed:
    """Repeats a run without its servers, its rewards or a key.

    Raises:
        InputError: the run is not one of lessons, or its files are damaged.
        NotAvailableError: it has no tasks, or no result yet.
    """
    config = read_settings(run)
    split = read_split(run.folder)
    _, digest = read_library(run.result / LIBRARY_FILE)
    path = run.folder / JOURNAL_FILE
    if not path.is_file():
        raise InputError(f"{path}: expected the journal of the run, got nothing")
    journal = Journal(path, is_kept=True)
    nobody: Answerer = _Nobody()
    model, teacher = Model(config.model, nobody), Model(config.teacher_name, nobody)
    try:
        caller = Caller(journal, Budget(Cap()), replay=True)
        found = learn(split, caller, model, teacher, None, lesson_of(config))
    except ReplayEndedError as error:
        return Replayed(
            "", same=False, first_difference=error.message, other_method=journal.other_method
        )
    finally:
        journal.close()
    with tempfile.TemporaryDirectory() as folder:
        again = write_library(Path(folder) / LIBRARY_FILE, found.library)
    if again != digest:
        different = f"library: {again[:16]} instead of {digest[:16]}"
        return Replayed(
            again, same=False, first_difference=different, other_method=journal.other_method
        )
    figures = figures_of(found, journal.spent)
    changed = first_change(run.folder, digest, figures, is_reported=journal.method > 0)
    return Replayed(again, same=changed is None, first_difference=changed)


class _Nobody:
    """Answers nothing: a replay makes no calls."""

    def attempt(self, *args: object, **options: object) -> Reply:
        """Is never called."""
        raise AssertionError("a replay makes no calls")
