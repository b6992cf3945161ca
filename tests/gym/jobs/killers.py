"""Work for a worker that kills itself: training as it is, with one moment chosen for SIGKILL.

Started by name through `launch(run, entry="killers:MOMENT")`; nothing cleans up behind the kill.
"""

import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import safetensors.torch

from zoo.gym.jobs.run import Run, is_distillation

checkpoint: Any
atomic: Any
progress: Any
worker: Any
atomic, worker, checkpoint, progress = map(
    import_module,
    (
        "zoo.gym.files.atomic",
        "zoo.gym.jobs.worker",
        "zoo.gym.train.run_folder.checkpoint",
        "zoo.gym.train.progress",
    ),
)

AT_STEP = 6
"""The step whose checkpoint is not survived; two earlier ones are there."""

Do = Callable[..., Any]


def die() -> None:
    """Ends this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def train(run: Run) -> Mapping[str, object] | None:
    """Does what a worker does."""
    if is_distillation(run):
        work: Do = import_module("zoo.gym.experience.distilling.session").work
    else:
        work = worker._train
    found: Mapping[str, object] | None = work(run)
    return found


def before(owner: object, name: str, due: Callable[..., bool]) -> None:
    """Dies in place of a call for which `due` says so."""
    real: Do = getattr(owner, name)

    def watched(*args: Any, **options: Any) -> Any:
        if due(*args, **options):
            die()
        return real(*args, **options)

    setattr(owner, name, watched)


def in_checkpoint(step: int, then: Callable[[], None]) -> None:
    """Calls `then` when the checkpoint of a step begins."""
    real = progress.write_checkpoint

    def watched(folder: Path, at: int, write: Do, **options: Any) -> Any:
        if at == step and folder.name == "checkpoints":
            then()
        return real(folder, at, write, **options)

    progress.write_checkpoint = watched


def at_stage(stage: str, folder: str = "checkpoints") -> None:
    """Dies at one stage of the writing of the checkpoint, as its hook tells it."""
    real = progress.write_checkpoint

    def reached(told: str) -> None:
        if told == stage:
            die()

    def watched(checkpoints: Path, at: int, write: Do, **options: Any) -> Any:
        due = at == AT_STEP and checkpoints.name == folder
        return real(checkpoints, at, write, **options, hook=reached if due else None)

    progress.write_checkpoint = watched


def in_call(owner: object, name: str, due: Callable[..., bool]) -> None:
    """Dies in place of a call, once the chosen checkpoint has begun."""
    in_checkpoint(AT_STEP, partial(before, owner, name, due))


def half_written(_: Any, path: Path, **__: Any) -> bool:
    """Writes the beginning of a file of weights."""
    Path(path).write_bytes(bytes(1000))
    return True


def half_removed(folder: Path, **_: Any) -> bool:
    """Removes a part of an old checkpoint, as a removal that is cut off does."""
    next(iter(sorted(folder.iterdir()))).unlink()
    return True


def always(*_: Any, **__: Any) -> bool:
    return True


def named(part: str) -> Callable[..., bool]:
    return lambda path, *_, **__: part in Path(path).name


def straight(run: Run) -> Mapping[str, object] | None:
    """Trains without the rename: files are written where the finished checkpoint belongs."""
    real = checkpoint._fill

    def fill(temporary: Path, step: int, write: Do, reached: Do) -> None:
        folder = temporary.with_suffix("")
        real(folder, step, write, reached)

    checkpoint._fill = fill
    checkpoint._put_in_place = lambda temporary: temporary.with_suffix("")
    at_stage("written")
    return train(run)


def told_to_stop(run: Run) -> Mapping[str, object] | None:
    """Trains, and is sent SIGTERM in the middle of a checkpoint."""
    in_checkpoint(AT_STEP, lambda: os.kill(os.getpid(), signal.SIGTERM))
    return train(run)


def asked_to_stop(run: Run) -> Mapping[str, object] | None:
    """Trains, and finds a request to stop in the middle of a checkpoint."""
    in_checkpoint(AT_STEP, lambda: run.control.request("stop"))
    return train(run)


INSIDE: dict[str, Callable[[], None]] = {
    "a_file_half_written": lambda: in_call(safetensors.torch, "save_file", half_written),
    "two_files_written": lambda: in_call(progress.json, "dumps", always),
    "all_files_written": lambda: at_stage("written"),
    "half_the_files_synced": lambda: in_call(checkpoint, "sync_file", named("progress")),
    "folder_synced": lambda: at_stage("fsynced-folder"),
    "renamed": lambda: at_stage("renamed"),
    "parent_synced": lambda: at_stage("fsynced-parent"),
    "pointer_synced": lambda: in_call(Path, "replace", named(".latest")),
    "pointed": lambda: at_stage("pointed"),
    "pruning": lambda: in_call(shutil, "rmtree", half_removed),
}
"""Moments inside the writing of a checkpoint, in order."""

BESIDE: dict[str, Callable[[], None]] = {
    "the_best_step_renamed": lambda: at_stage("renamed", folder="best"),
    "the_result_half_written": lambda: before(atomic, "_replace_folder", always),
}
"""Moments in the writing of other things that a run leaves."""


def nth(number: int) -> Callable[..., bool]:
    """Says so at the call of that number, counted from 1."""
    calls = count(1)
    return lambda *_, **__: next(calls) == number


def in_rollout(step: int, token: int) -> None:
    """Dies before a token of the answers that are sampled for a step."""
    online: Any
    draws: Any
    online, draws = map(
        import_module, ("zoo.gym.train.online", "zoo.backends.torch.generation.draws")
    )
    real = online.Online.window

    def watched(method: Any, at: int) -> Any:
        if at == step:
            before(draws.Draws, "draw", nth(token))
        return real(method, at)

    online.Online.window = watched


def in_update(step: int, part: int) -> None:
    """Dies in the update of a step: in place of part 1 to 4, of which the last is its report."""
    loop: Any
    policy: Any
    optimizer: Any
    loop, policy, optimizer = map(
        import_module,
        ("zoo.gym.train.loop", "zoo.backends.torch.policy", "zoo.backends.torch.optimizers.named"),
    )
    places = {
        1: (policy.TorchPolicy, "accumulate", 1),
        2: (policy.TorchPolicy, "accumulate", 2),
        3: (optimizer.NamedOptimizer, "step", 1),
        4: (loop, "named", 1),
    }
    real = loop.accumulate

    def watched(method: Any, at: int, window: Any) -> Any:
        if at == step:
            owner, name, number = places[part]
            before(owner, name, nth(number))
        return real(method, at, window)

    loop.accumulate = watched


def drawn(name: str) -> dict[str, Callable[[], None]]:
    """Returns the moment `in_rollout_STEP_TOKEN` or `in_update_STEP_PART`."""
    found = re.fullmatch(r"(in_rollout|in_update)_(\d+)_(\d+)", name)
    if found is None:
        return {}
    kill = {"in_rollout": in_rollout, "in_update": in_update}[found[1]]
    return {name: partial(kill, int(found[2]), int(found[3]))}


def __getattr__(name: str) -> Callable[[Run], Mapping[str, object] | None]:
    moments = INSIDE | BESIDE | drawn(name)
    if name not in moments:
        raise AttributeError(name)

    def killed(run: Run) -> Mapping[str, object] | None:
        moments[name]()
        return train(run)

    return killed
