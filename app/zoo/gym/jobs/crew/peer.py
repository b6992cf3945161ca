"""A process of a run that is not its first: `python -m zoo.gym.jobs.crew.peer FOLDER RANK ...`.

It reads the run as the first process has stored it, trains on its share of the rows and writes
nothing. The first process starts it and decides when to end; if that is gone, it ends at once.
"""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import exit_code
from zoo.gym.jobs.crew.failure import as_gym_error
from zoo.gym.jobs.crew.start import MEETING_FILE, ready_file, report_error
from zoo.gym.jobs.run import Run
from zoo.gym.offline import go_offline
from zoo.gym.processes import Identity, is_alive
from zoo.gym.train.parallel.crew import Crew

if TYPE_CHECKING:
    from zoo.backends.ranks import Place

_POLL_S = 0.5


class _Silent:
    """The event log of a process that writes none."""

    def emit(self, kind: object, /, **fields: object) -> None:
        """Ignores an event, which the first process emits, too."""


class Watched(Run):
    """A run folder that this process only reads."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.events = _Silent()  # type: ignore[assignment]


def main(argv: Sequence[str] | None = None) -> int:
    """Works on a share of a run and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m zoo.gym.jobs.crew.peer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("rank", type=int)
    parser.add_argument("size", type=int)
    parser.add_argument("pid", type=int)
    parser.add_argument("created", type=float)
    options = parser.parse_args(argv)
    go_offline()
    end_with(Identity(options.pid, options.created))
    run, rank = Watched(options.folder), options.rank
    return work(run, rank, Crew(is_first=False, start=partial(_ready, run, rank)))


def work(run: Run, rank: int, crew: Crew) -> int:
    """Trains as the settings of the run say, which the first process has completed.

    Returns:
        The exit code.
    """
    for name in (signal.SIGINT, signal.SIGTERM):  # the first process decides
        signal.signal(name, signal.SIG_IGN)
    try:
        from zoo.gym.train.run_folder.settings import stored_settings
        from zoo.gym.train.session import run_session

        config = stored_settings(run.config_file, run.env_file)
        run_session(config, run, lambda: None, crew=crew)
    except Exception as error:
        reported = as_gym_error(error, run)
        if reported is None:
            raise
        print(f"process {rank + 1}: {reported}", file=sys.stderr)
        report_error(run, rank, reported)
        return exit_code(reported)
    return 0


@contextmanager
def _ready(run: Run, rank: int, size: int) -> "Generator[Place]":
    from zoo.backends.ranks import Place

    ready_file(run, rank).touch()
    yield Place(rank, size, rank, str(run.folder / MEETING_FILE))


def end_with(first: Identity) -> None:
    """Ends this process as soon as the first one is gone, whatever it is doing."""

    def watch() -> None:
        while is_alive(first):
            time.sleep(_POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
