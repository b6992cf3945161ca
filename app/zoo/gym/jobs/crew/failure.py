"""How a process reports that a run failed: as a message to act on, and as its last events."""

from contextlib import suppress
from pathlib import Path

from zoo.gym.errors import DoesNotFitError, GymError, InterruptedRunError, StorageError, exit_code
from zoo.gym.jobs.run import Run
from zoo.gym.paths import UNWRITABLE, storage_error


def as_gym_error(error: Exception, run: Run) -> GymError | None:
    """Returns the message for an error that a user can act on, or None."""
    if isinstance(error, GymError):
        return error
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        path = error.filename
        return storage_error(error, Path(path) if isinstance(path, str) else run.folder, verb="use")
    # torch's own error is not a MemoryError, and torch is not imported just for its class
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        reason = next(iter(str(error).splitlines()), "an allocation was refused")
        return DoesNotFitError(
            f"the run does not fit in memory: {reason}",
            hint="use smaller steps: per_device_train_batch_size=1 or a smaller cutoff_len",
            code="jobs.out_of_memory",
        )
    return None


def log_failure(run: Run, error: Exception) -> None:
    """Logs how a run failed; a full disk must not hide the traceback."""
    failure = error if isinstance(error, GymError) else _unexpected(run, error)
    state = "interrupted" if isinstance(failure, InterruptedRunError) else "failed"
    fields = {"message": failure.message}
    fields |= {"hint": failure.hint} if failure.hint else {}
    fields |= {"code": failure.code} if failure.code else {}
    with suppress(StorageError):
        if state == "failed":
            run.events.emit("error", **fields)
        elif request := run.control.pending():
            fields["request"] = request
        run.events.emit("end", state=state, exit_code=exit_code(failure), **fields)


def _unexpected(run: Run, error: Exception) -> GymError:
    line = next(iter(str(error).splitlines()), "")
    reason = f": {line}" if line else ""
    return GymError(
        f"the worker failed: {type(error).__name__}{reason}",
        hint=f"the traceback is in '{run.worker_log}'"
        if run.worker_log.is_file()
        else "the program that trained has the traceback",  # it runs in the calling process
        code="jobs.worker_failed",
    )
