"""Work for a worker that distils lessons and kills itself, at a moment of one of its four phases.

Started by name: `sampling_STEP_TOKEN`, `training_STEP_PART`, `evaluating_LINE` (a line of the
journal is half written) and `delta_WRITING_PART`, of which there are two writings: before what it
gains is measured, and after.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.gym.jobs import killers
from zoo.gym.jobs.run import Run

Do = Callable[..., Any]


def sampling(step: int, token: int) -> None:
    """Dies before a token of the answers that are sampled for a step."""
    lessons, draws = _modules(
        "zoo.gym.experience.distilling.method", "zoo.backends.torch.generation.draws"
    )
    real = lessons.Lessons.window

    def watched(method: Any, at: int) -> Any:
        if at == step:
            killers.before(draws.Draws, "draw", killers.nth(token))
        return real(method, at)

    lessons.Lessons.window = watched


def evaluating(line: int) -> None:
    """Dies within a line of the journal."""
    [journal] = _modules("zoo.gym.experience.calls.journal")
    due = killers.nth(line)

    def half(one: Any, data: bytes) -> bool:
        if found := due():
            os.write(one._handle, data[: len(data) // 2])
        return found

    killers.before(journal.Journal, "_append", half)


def delta(writing: int, part: int) -> None:
    """Dies in a writing of the delta: part 1 has no weights yet, 4 is behind its rename."""
    session, writer, atomic = _modules(
        "zoo.gym.experience.distilling.session", "zoo.gym.delta.file.writer", "zoo.gym.files.atomic"
    )
    places: dict[int, tuple[Any, str, Do]] = {
        1: (writer.Spool, "copy_to", killers.always),
        2: (writer, "_seal", killers.always),
        3: (atomic, "move_over", lambda _, path: _is_delta(session, path)),
        4: (atomic, "sync_folder", killers.always),
    }
    due, real = killers.nth(writing), session.create_delta

    def watched(*args: Any, **options: Any) -> Any:
        if due():
            killers.before(*places[part])
        return real(*args, **options)

    session.create_delta = watched


def _is_delta(session: Any, path: Path) -> bool:
    return bool(path.name == session.DELTA_FILE)


def _modules(*names: str) -> tuple[Any, ...]:
    return tuple(map(import_module, names))


MOMENTS: dict[str, Callable[..., None]] = {
    "sampling": sampling,
    "training": killers.in_update,
    "evaluating": evaluating,
    "delta": delta,
}


def __getattr__(name: str) -> Callable[[Run], Mapping[str, object] | None]:
    phase, *numbers = name.split("_")
    if phase not in MOMENTS:
        raise AttributeError(name)
    kill = partial(MOMENTS[phase], *map(int, numbers))

    def killed(run: Run) -> Mapping[str, object] | None:
        kill()
        return killers.train(run)

    return killed
