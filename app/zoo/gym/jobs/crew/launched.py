"""Runs whose processes a launcher started: `torchrun --nproc-per-node 2 -m zoo.gym train ...`.

In each the same command runs. The first creates the run, starts its worker and follows it, as
always; the others wait until the worker announces the run folder, and then train with it.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.jobs.launch import working_folder
from zoo.gym.jobs.run import Run
from zoo.gym.train.parallel.crew import Crew

if TYPE_CHECKING:
    from zoo.backends.ranks import Place

COMMANDS = (("train",), ("runs", "resume"), ("runs", "finish"))
"""The commands that start a worker."""

_READING = {"--help", "-h", "--print-config", "--print_config"}
"""Words with which they start none."""


def other_process(words: Sequence[str]) -> "Place | None":
    """Returns the place of this process if a command is for the first process of a launcher.

    Raises:
        InputError: the variables of the launcher are wrong.
    """
    from zoo.backends.launched import launched_place

    if not any(tuple(words[: len(command)]) == command for command in COMMANDS):
        return None
    rank = launched_place()
    return rank if rank is not None and rank.rank else None


def join_launched(words: Sequence[str], rank: "Place") -> int:
    """Trains with the first process of a launcher, and returns the exit code.

    Raises:
        NotAvailableError: the run folder is not on this machine.
    """
    from zoo.backends.launched import announced
    from zoo.gym.jobs.crew.peer import Watched, work
    from zoo.gym.offline import go_offline

    if _READING & set(words):
        return 0
    folder = Path(announced(rank))
    if not folder.is_dir():
        raise NotAvailableError(
            f"process {rank.rank + 1} of {rank.size}: '{folder}': expected the run folder of the "
            "first process, got no such folder",
            hint="all machines need the same ZOO_GYM_HOME on a shared file system",
            code="jobs.no_run_folder",
        )
    run = Watched(folder)
    os.chdir(working_folder(run))
    go_offline()
    crew = Crew(is_first=False, start=partial(_at, rank), size=rank.size)
    return work(run, rank.rank, crew)


@contextmanager
def _at(rank: "Place", size: int) -> "Generator[Place]":
    del size
    yield rank


def first_of_launched(run: Run, rank: "Place") -> Crew:
    """Returns the processes of a launcher as the first of them sees it.

    Raises:
        InputError: this is not the first.
    """
    if rank.rank:
        raise InputError(
            f"RANK: expected 0 in the process that starts a run, got {rank.rank}",
            code="jobs.wrong_rank",
        )
    return Crew(start=partial(_announced, run, rank), size=rank.size)


@contextmanager
def _announced(run: Run, rank: "Place", size: int) -> "Generator[Place]":
    from zoo.backends.launched import announce

    del size
    store = announce(rank, str(run.folder.absolute()))
    yield rank
    del store
