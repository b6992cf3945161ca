"""The processes of a run that train together: how they are started and connected.

Each has the whole run: the same settings, rows and plan. `zoo.backends.ranks` says how they divide
the work of a step; the first process alone decides and writes the run folder.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from zoo.backends.base import Backend
    from zoo.backends.ranks import Place, Ranks


@contextmanager
def _refused(size: int) -> "Generator[Place]":
    raise InputError(
        f"num_processes: expected 1 in this process, got {size}", code="train.wrong_processes"
    )
    yield


@dataclass(frozen=True)
class Crew:
    """The processes of a run, as one of them knows them.

    Attributes:
        is_first: whether this is the process that decides and that writes the run folder.
        start: starts so many processes, this one among them, for the duration of a `with` block,
            and returns the place of this one.
        size: how many there are, if a launcher started them; 0: as many as the run has.
        ending: what to call before this process is ended from outside of the training.
    """

    is_first: bool = True
    start: "Callable[[int], AbstractContextManager[Place]]" = _refused
    size: int = 0
    ending: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])


ALONE = Crew()
"""A process that trains without others."""


@contextmanager
def connected(engine: "Backend", crew: Crew, size: int) -> "Generator[Ranks]":
    """Starts and connects the processes of a run for the duration of a `with` block."""
    from zoo.backends.ranks import ALONE as NO_OTHERS

    if crew.size and crew.size != size:
        raise InputError(
            f"num_processes: expected as many processes as the run has, {size}, got the "
            f"{crew.size} of the launcher",
            hint="the sums of another number of processes are rounded differently",
            code="train.wrong_processes",
        )
    if size == 1:
        yield NO_OTHERS
        return
    with crew.start(size) as rank, engine.connect(rank) as ranks:
        yield ranks
