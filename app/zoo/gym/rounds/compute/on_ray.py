"""Computes the tasks of a round on a cluster of Ray, which schedules them and retries lost ones.

A task needs nothing but the address of the round's storage: the worker machine opens the round
there and keeps the files that it fetches. A cluster is trusted as this machine is: wrong results of
a machine are noticed by `verify` alone.
"""

import shlex
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from zoo.gym.delta.file.reader import Delta
from zoo.gym.errors import NotAvailableError
from zoo.gym.rounds.compute.collect import Collected, Divide, collect, in_form
from zoo.gym.rounds.compute.dividing import DividedContributions, Job, compute_task, groups_of
from zoo.gym.rounds.compute.publish import work_folder
from zoo.gym.rounds.compute.ray_cluster import ray_cluster
from zoo.gym.rounds.forms.base import Contributions
from zoo.gym.rounds.life.opening import open_round
from zoo.gym.rounds.protocol.manifest import TensorCoding
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.opening import open_storage

if TYPE_CHECKING:
    from zoo.gym.rounds.compute.dividing import Part

_EVERY_MACHINE = "every machine of the cluster needs the round at that address, with all files"


@contextmanager
def dividing_on_ray(
    state: State, *, cluster: str, address: str, threads: int | None
) -> Generator[Divide]:
    """Yields what divides the contributions of a round over a cluster.

    Args:
        state: of the round.
        cluster: see `ray_cluster`.
        address: of the round's storage, the same one on every machine.
        threads: of a task, which reserves as many processors; 1 if None.

    Raises:
        InputError: see `ray_cluster`.
        NotAvailableError: see `ray_cluster`.
    """
    groups = groups_of(state.manifest.tensors)
    compute = RoundTasks(address, state.id, threads or 1)
    with ray_cluster(cluster, compute, processors=threads or 1) as run:

        def divide(deltas: Sequence[Delta], contributions: Contributions) -> Contributions:
            digests = [_digest(delta) for delta in deltas]
            return DividedContributions(contributions, digests, groups, run)

        yield divide


@dataclass(frozen=True)
class RoundTasks:
    """Computes tasks of a round on any machine that reaches its storage.

    Attributes:
        address: of the storage.
        round: the round's id.
        threads: of a task.
    """

    address: str
    round: str
    threads: int

    def __call__(self, job: Job, names: Sequence[str]) -> "Part":
        """Computes a task.

        Raises:
            InputError: see `compute_task`; or another round is at the address.
            NotAvailableError: the round, or the file of a contribution, is missing here.
        """
        state, collected = _collected(self.address, self.round)
        deltas = {_digest(delta): delta for delta in collected.deltas}
        for digest in job.digests:
            if digest not in deltas:
                raise self._missing_file(digest, state, collected)
        manifest = state.manifest
        tensors = tuple(tensor for tensor in manifest.tensors if tensor.name in set(names))
        coding = TensorCoding(manifest.base, tensors, manifest.form, manifest.caps)
        contributions = in_form([deltas[digest] for digest in job.digests], coding)
        return compute_task(job, contributions, threads=self.threads)

    def _missing_file(self, digest: str, state: State, collected: Collected) -> NotAvailableError:
        keys = [key for key, reveal in state.reveals.items() if reveal.digest == digest]
        reasons = [collected.refused[key] for key in keys if key in collected.refused]
        why = reasons[0] if reasons else f"nobody revealed it in a round in phase {state.phase}"
        verify = state.manifest.command("verify", word=shlex.quote(self.address))
        return NotAvailableError(
            f"contribution {digest[:12]}: expected its file at {self.address} on "
            f"{socket.gethostname()}, got none: {why}",
            hint=f"{_EVERY_MACHINE}: {verify} shows there what is missing",
        )


@lru_cache(maxsize=1)
def _collected(address: str, round_: str) -> tuple[State, Collected]:
    """Opens a round and fetches its contributions, once in a process."""
    storage = open_storage(address)
    try:
        state = open_round(storage, expected=round_, remember=False).state
    except NotAvailableError as error:
        message = f"{socket.gethostname()}: {error.message}"
        raise NotAvailableError(message, hint=_EVERY_MACHINE) from None
    return state, collect(state, storage, work_folder(round_))


def _digest(delta: Delta) -> str:
    """Returns the digest by which the file of a contribution was revealed, see `collect`."""
    return delta.path.name
