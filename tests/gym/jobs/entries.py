"""Work for workers under test: started by name through `launch(run, entry="entries:...")`."""

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path

from zoo.gym.errors import InputError, InterruptedRunError
from zoo.gym.jobs.control import wait_while_paused
from zoo.gym.jobs.queue import turn_on_device
from zoo.gym.jobs.run import Run
from zoo.gym.train.run_folder.checkpoint import find_checkpoint, write_checkpoint

FOREVER = 1_000_000


def three(run: Run) -> Mapping[str, object]:
    """Finishes after three steps."""
    return count(run, 3)


def forever(run: Run) -> Mapping[str, object]:
    """Goes on until it is asked to leave; every step is a checkpoint."""
    return count(run, FOREVER)


def five_more(run: Run) -> Mapping[str, object]:
    """Finishes five steps behind the last checkpoint."""
    return count(run, step_of(find_checkpoint(run.checkpoints).folder) + 5)


def count(run: Run, steps: int) -> Mapping[str, object]:
    run.events.emit("plan", steps=steps)
    for step in range(step_of(find_checkpoint(run.checkpoints).folder) + 1, steps + 1):
        run.events.emit("step", step=step, steps=steps, loss=1 / step)
        write_checkpoint(run.checkpoints, step, lambda folder: write_step(folder, step))  # noqa: B023
        leaving = wait_while_paused(run.control, run.events)
        if leaving is not None:
            raise InterruptedRunError(f"{leaving} at step {step}", hint="resume it")
        time.sleep(0.005)
    return {"model": str(run.result), "metrics": {"steps": steps}}


def write_step(folder: Path, step: int) -> None:
    (folder / "step.txt").write_text(str(step))


def step_of(checkpoint: Path | None) -> int:
    return int((checkpoint / "step.txt").read_text()) if checkpoint else 0


def environment(run: Run) -> Mapping[str, object]:
    """Tells what the process looks like."""
    names = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")
    session = os.getsid(0) if hasattr(os, "getsid") else None
    stdin = os.read(0, 1).decode()
    print("a line for the log")
    return {
        "metrics": {name: os.environ.get(name) for name in names}
        | {"session": session, "stdin": stdin, "cwd": str(Path.cwd())}
    }


def bad_input(run: Run) -> None:
    raise InputError("data.jsonl:3: no assistant turn", hint="zoo-gym data inspect data.jsonl")


def full_disk(run: Run) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/step.bin")


def no_memory(run: Run) -> None:
    raise MemoryError


def a_bug(run: Run) -> None:
    raise ZeroDivisionError("secret\nsecond line")


def in_turn(run: Run) -> Mapping[str, object]:
    """Does three steps on a device that one run at a time may have."""
    with turn_on_device(run, "cpu"):
        return count(run, 3)


def in_turn_forever(run: Run) -> Mapping[str, object]:
    """Has that device until it is asked to leave."""
    with turn_on_device(run, "cpu"):
        return count(run, FOREVER)
