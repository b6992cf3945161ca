"""The process that works on one run: `python -m zoo.gym.jobs.worker FOLDER`.

It locks the folder, emits `running`, runs the training session and reports how that ended. Every
end except a kill is an `end` event; tracebacks go only to the process's stderr, which is
`worker.log`.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TypeAlias, cast

from zoo.gym.errors import GymError, exit_code
from zoo.gym.files import read_json_object
from zoo.gym.files.lock import locked
from zoo.gym.jobs.control import Control, wait_while_paused
from zoo.gym.jobs.crew.failure import as_gym_error, log_failure
from zoo.gym.jobs.identity import write_identity
from zoo.gym.jobs.kinds import special_kind
from zoo.gym.jobs.queue import turn_on_device
from zoo.gym.jobs.run import VARIANT_KEY, Run
from zoo.gym.offline import go_offline
from zoo.gym.processes import this_process
from zoo.gym.wiring import wired

Entry: TypeAlias = Callable[[Run], Mapping[str, object] | None]
"""Does the work of a run; its result goes into the end event (`model`, `metrics`)."""

_LOCK_S = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    """Works on the run folder in `argv` and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m zoo.gym.jobs.worker")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--entry", default="", help="module:function, for tests")
    options = parser.parse_args(argv)
    run = Run(options.folder)
    go_offline()  # models are on the disk before a worker starts
    with locked(run.lock_file, wait_s=_LOCK_S) as held:
        if not held:
            print(f"run '{run.id}' has a worker already", file=sys.stderr)
            return 1
        write_identity(run.identity_file, this_process())
        stop_on_signals(run.control)
        run.events.emit("state", state="running")
        try:
            work(run, _named_entry(options.entry) if options.entry else _work_of(run))
        except GymError as error:
            print(error, file=sys.stderr)
            return exit_code(error)
    return 0


def work(run: Run, entry: Entry) -> None:
    """Runs `entry` and writes the end event.

    Raises:
        GymError: the work failed or was interrupted, and the log says so.
        Exception: anything else that `entry` raised, logged as an `error` event.
    """
    try:
        fields = entry(run)
    except Exception as error:  # every failure is logged for the readers, then re-raised
        reported = as_gym_error(error, run)
        log_failure(run, reported or error)
        if reported is not None and reported is not error:
            raise reported from error
        raise
    run.events.emit("end", **{"state": "done", "exit_code": 0} | dict(fields or {}))


def stop_on_signals(control: Control) -> None:
    """Turns SIGTERM and Ctrl-C into a request to save and exit; ignores a closed terminal."""

    def leave(signum: int, frame: FrameType | None) -> None:
        control.leave()

    for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), leave)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _work_of(run: Run) -> Entry:
    kind = special_kind(run)
    return _train if kind is None else kind.work


def _train(run: Run) -> Mapping[str, object] | None:
    from zoo.backends.launched import launched_place
    from zoo.gym.jobs.crew.launched import first_of_launched
    from zoo.gym.jobs.crew.start import first_of
    from zoo.gym.jobs.tracking import tracked
    from zoo.gym.train.run_folder.settings import stored_settings
    from zoo.gym.train.session import run_session

    config = stored_settings(run.config_file, run.env_file)
    leaving = partial(wait_while_paused, run.control, run.events)
    turn = partial(turn_on_device, run)
    rank = launched_place()
    crew = first_of(run, own_process=True) if rank is None else first_of_launched(run, rank)
    with tracked(run, config) if crew.is_first else nullcontext():
        fields = run_session(config, run, leaving, turn, crew, own_process=True)
    return fields and with_variant(run, fields)


def with_variant(run: Run, fields: Mapping[str, object]) -> Mapping[str, object]:
    """Makes the variant that a run was started for, and returns its end with that.

    Raises:
        GymError: the variant cannot be made; the trained adapter is there.
    """
    if VARIANT_KEY not in (read_json_object(run.env_file) or {}):
        return fields
    metrics = cast("Mapping[str, object]", fields["metrics"])
    return {**fields, "metrics": {**metrics, **wired("variant of a run")(run)}}


def _named_entry(name: str) -> Entry:
    module, _, function = name.partition(":")
    return cast("Entry", getattr(import_module(module), function))


if __name__ == "__main__":
    sys.exit(main())
