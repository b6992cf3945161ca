"""Repeats a finished run from its journal alone: the same library to the byte, or what differs."""

import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from zoo.backends.openai.reply import Reply
from zoo.gym.errors import InputError
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Caller, Model, ReplayEndedError
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.learning.learn import learn
from zoo.gym.experience.library.file import read_library, write_library
from zoo.gym.experience.session import (
    JOURNAL_FILE,
    LIBRARY_FILE,
    figures_of,
    first_change,
    read_settings,
)
from zoo.gym.experience.tasks import read_split
from zoo.gym.jobs.run import Run


@dataclass(frozen=True)
class Replayed:
    """The result of a replay.

    Attributes:
        digest: the digest of the repeated library; empty if the replay did not reach its end.
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
    config, split = read_settings(run), read_split(run.folder)
    _, digest = read_library(run.result / LIBRARY_FILE)
    path = run.folder / JOURNAL_FILE
    if not path.is_file():
        raise InputError(f"{path}: expected the journal of the run, got nothing")
    with closing(Journal(path, is_kept=True)) as journal, tempfile.TemporaryDirectory() as folder:
        caller = Caller(journal, Budget(Cap()), replay=True)
        model = Model(config.model, _NoAnswers())
        teacher = Model(config.teacher_name, _NoAnswers())
        try:
            learned = learn(split, caller, model, teacher, None, config)
        except ReplayEndedError as error:
            return _different("", error.message, journal)
        repeated = write_library(Path(folder) / LIBRARY_FILE, learned.library)
    if repeated != digest:
        difference = f"library: {repeated[:16]} instead of {digest[:16]}"
        return _different(repeated, difference, journal)
    figures = figures_of(learned, journal.spent)
    change = first_change(run.folder, digest, figures, is_reported=journal.method > 0)
    return Replayed(repeated, same=change is None, first_difference=change)


def _different(digest: str, difference: str, journal: Journal) -> Replayed:
    return Replayed(digest, False, difference, journal.other_method)  # noqa: FBT003


class _NoAnswers:
    def attempt(self, *args: object, **options: object) -> Reply:
        raise AssertionError("a replay makes no calls")
