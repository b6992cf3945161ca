"""Computes a round in pure tasks, some tensors of its contributions each, on a cluster of Ray.

The parts of the Gram matrix add up exactly, and combined values are concatenated. So the bytes are
those of one process, in whichever groups, wherever and however often tasks are computed.

A task needs only the address of the round's storage: the worker machine opens the round there and
keeps the files that it fetches. A cluster is trusted as this machine is: wrong results of a machine
are noticed by `verify` alone.

Ray runs in a process of its own: it ends the process that is connected to a cluster when the raylet
of its machine is lost, and a minute after the head is, without a word to Python.
"""

import multiprocessing
import os
import shlex
import signal
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.rounds.arrays import F32, Gram
from zoo.gym.rounds.compute.collect import Collected, Divide, collect
from zoo.gym.rounds.compute.publish import work_folder
from zoo.gym.rounds.contribution.check import views_of
from zoo.gym.rounds.encodings import Contributions, Piece
from zoo.gym.rounds.protocol.manifest import Tensor, TensorCoding
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.rules.aggregate import Selection, combine
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.http import open_storage

COLUMNS = 1 << 24
"""A task has tensors of about so many values."""

Groups: TypeAlias = Sequence[Sequence[str]]
"""The tensors of each task."""


@dataclass(frozen=True)
class Job:
    """A computation that tasks divide.

    Attributes:
        digests: of the contributions, in the order of the rows.
        selection: what a rule selected, to compute the combination; None for the Gram matrix.
    """

    digests: Sequence[str]
    selection: Selection | None = None


Part: TypeAlias = "Gram | F32"
"""The result of a task: scalar products [n, n, 2], or combined values, tensor after tensor."""

Compute = Callable[[Job, Sequence[str]], "Part"]
"""Computes a task: the part of a job that some tensors are."""

Run = Callable[[Job, Groups], Iterator["Part"]]
"""Computes all tasks of a job and yields their results in order."""


def groups_of(tensors: Sequence[Tensor], columns: int = COLUMNS) -> list[list[str]]:
    """Returns the names of tensors, in order, in groups of about so many values."""
    groups: list[list[str]] = []
    filled = columns
    for tensor in tensors:
        if filled >= columns:
            groups.append([])
            filled = 0
        groups[-1].append(tensor.name)
        filled += tensor.size
    return groups


def compute_task(job: Job, contributions: Contributions, *, threads: int | None = None) -> "Part":
    """Computes the part of a job for some tensors, of which alone its contributions are.

    Raises:
        InputError: a contribution has a value that no sum survives, with tensor and contributor.
    """
    import numpy as np

    if job.selection is None:
        return contributions.gram(threads=threads)
    pieces = combine(job.selection, contributions, threads=threads)
    return np.concatenate([piece.values for piece in pieces])


@dataclass(frozen=True)
class Tasks:
    """Multiplies and combines contributions in tasks.

    Attributes:
        sizes: the number of values of each tensor.
    """

    groups: Groups
    sizes: Mapping[str, int]
    run: Run

    def gram(self, digests: Sequence[str]) -> Gram:
        """Returns the exact scalar products of contributions, [n, n, 2]."""
        import numpy as np

        total = np.zeros((len(digests), len(digests), 2), np.uint64)
        for part in self.run(Job(digests), self.groups):
            _add(total, part.view(np.uint64))
        return total

    def combined(self, selection: Selection, digests: Sequence[str]) -> Iterator[Piece]:
        """Yields the combination that a rule has selected, tensor by tensor."""
        import numpy as np

        job = Job(digests, replace(selection, gram=None))  # which no combination needs
        for names, part in zip(self.groups, self.run(job, self.groups), strict=True):
            values = part.view(np.float32)
            ends = np.cumsum([self.sizes[name] for name in names])
            for name, piece in zip(names, np.split(values, ends[:-1]), strict=True):
                yield Piece(name, 0, piece)


def _add(total: Gram, part: Gram) -> None:
    """Adds a part of a Gram matrix, [n, n, 2], in 128 bits."""
    low = total[..., 0] + part[..., 0]
    total[..., 1] += part[..., 1] + (low < part[..., 0])
    total[..., 0] = low


LOCAL, AUTO = "local", "auto"
"""A cluster of this machine alone, started for the command; and the one that runs here already."""

RETRIES = 3
"""How often a task is retried after its worker process or machine is lost."""

CONNECT_S = 10.0
"""How long the head of a cluster may take to answer; Ray itself tries for minutes."""

END_S = 10.0
"""How long Ray may take to end before it is killed."""


@contextmanager
def ray_cluster(cluster: str, compute: Compute, *, processors: int) -> Generator[Run]:
    """Connects to a cluster and yields what runs tasks there, which raises what a task raises.

    Args:
        cluster: `local`, `auto`, or HOST:PORT.
        compute: computes a task in a process of the cluster.

    Raises:
        InputError: another address, or no machine of the cluster has so many processors.
        NotAvailableError: Ray is not installed, no cluster answers, or it is lost.
    """
    if find_spec("ray") is None:
        hint = install_command("cluster")
        raise NotAvailableError(
            "ray: expected the package, got none", hint=hint, code="rounds.package_missing"
        )
    _check_address(cluster)
    context = multiprocessing.get_context("spawn")
    pipe, driver_pipe = context.Pipe()
    words = (driver_pipe, cluster, compute, processors)
    driver = context.Process(target=_drive, args=words, daemon=True)
    driver.start()
    driver_pipe.close()

    def run(job: Job, groups: Groups) -> Iterator["Part"]:
        with _lost_if_closed(cluster):
            pipe.send((job, groups))
        for _ in groups:
            yield _received(pipe, cluster)

    try:
        _received(pipe, cluster)  # it is connected
        yield run
    finally:
        pipe.close()  # which ends the driver when it waits for a job or has a result
        driver.join(END_S)
        driver.kill()


def _received(pipe: "Connection[Any, Any]", cluster: str) -> Any:  # noqa: ANN401 - a `Part`, or None
    with _lost_if_closed(cluster):
        answer = pipe.recv()
    if isinstance(answer, GymError):
        raise answer
    return answer


@contextmanager
def _lost_if_closed(cluster: str) -> Generator[None]:
    try:
        yield
    except (EOFError, ConnectionError):
        raise _lost(cluster, "Ray has ended") from None


def _drive(pipe: "Connection[Any, Any]", cluster: str, compute: Compute, processors: int) -> None:
    """Connects to a cluster, runs jobs there, and sends the results or an error of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the other process, and that this one
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # reports to its makers otherwise
    import ray

    library: Any = ray  # its types are incomplete
    try:
        _initialize(library, cluster, processors)
        pipe.send(None)
        while True:
            job, groups = pipe.recv()
            try:
                for part in _results(library, cluster, (compute, job), groups, processors):
                    pipe.send(part)
            except GymError as error:
                pipe.send(error)
    except GymError as error:
        pipe.send(error)
    except (EOFError, ConnectionError):
        pass  # the other process has ended
    finally:
        library.shutdown()


def _initialize(library: Any, cluster: str, processors: int) -> None:  # noqa: ANN401 - Ray
    try:
        library.init(
            address=cluster,
            include_dashboard=False if cluster == LOCAL else None,
            log_to_driver=False,
            configure_logging=False,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise NotAvailableError(
            f"ray: expected a cluster at {cluster}, got none: {_first_line(error)}",
            hint="a cluster that asks for a token needs RAY_AUTH_MODE=token",
            code="rounds.no_cluster",
        ) from None
    alive = (node["Resources"] for node in library.nodes() if node["Alive"])
    most = max(int(resources.get("CPU", 0)) for resources in alive)
    if processors > most:  # Ray would wait for ever
        raise InputError(
            f"--threads: expected at most {most}, the processors of the largest machine of the "
            f"cluster at {cluster}, got {processors}",
            code="rounds.too_many_threads",
        )


def _results(
    library: Any,  # noqa: ANN401 - Ray
    cluster: str,
    shared: tuple[Compute, Job],
    groups: Groups,
    processors: int,
) -> Iterator["Part"]:
    from ray.exceptions import RayError, RayTaskError

    task = library.remote(num_cpus=processors, max_retries=RETRIES)(_perform)
    pending: deque[Any] = deque()
    try:
        stored = library.put(shared)  # once, however many tasks
        most = 2 * max(1, int(library.cluster_resources().get("CPU", 1)))
        for names in groups:
            if len(pending) == most:  # so that results do not fill the memory of the cluster
                yield library.get(pending.popleft())
            pending.append(task.remote(stored, names))
        while pending:
            yield library.get(pending.popleft())
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, GymError):
            raise cause from None
        raise NotAvailableError(
            f"ray: a task failed on the cluster at {cluster}: {cause!r}",
            hint="every machine of it needs this version of zoo-gym",
            code="rounds.task_failed",
        ) from None
    except RayError as error:
        raise _lost(cluster, _first_line(error)) from None


def _perform(shared: tuple[Compute, Job], names: Sequence[str]) -> "Part":
    compute, job = shared
    return compute(job, names)


def _lost(cluster: str, why: str) -> NotAvailableError:
    return NotAvailableError(
        f"ray: the cluster at {cluster} was lost: {why}",
        hint="nothing was published: the same command computes all again",
        code="rounds.cluster_lost",
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _check_address(cluster: str) -> None:
    """Refuses what is no address, and one at which nothing answers."""
    if cluster in {LOCAL, AUTO}:
        return
    host, _, port = cluster.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or "/" in host:
        raise InputError(
            f"--ray: expected {LOCAL}, {AUTO} or HOST:PORT, got {cluster!r}",
            code="rounds.cluster_address",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise NotAvailableError(
            f"ray: expected a cluster at {cluster}, got {error}", code="rounds.no_cluster"
        ) from None


_EVERY_MACHINE = "every machine of the cluster needs the round at that address, with all files"


@contextmanager
def dividing_on_ray(
    state: State, *, cluster: str, address: str, threads: int | None
) -> Generator[Divide]:
    """Yields what divides the contributions of a round over a cluster.

    Args:
        cluster: see `ray_cluster`.
        address: of the round's storage, the same one on every machine.
        threads: of a task, which reserves as many processors; 1 if None.

    Raises:
        InputError, NotAvailableError: see `ray_cluster`.
    """
    tensors = state.manifest.tensors
    compute = RoundTasks(address, state.id, threads or 1)
    with ray_cluster(cluster, compute, processors=threads or 1) as run:
        yield Tasks(groups_of(tensors), {tensor.name: tensor.size for tensor in tensors}, run)


@dataclass(frozen=True)
class RoundTasks:
    """Computes tasks of a round on any machine that reaches its storage."""

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
        deltas = dict(zip(collected.digests, collected.deltas, strict=True))
        for digest in job.digests:
            if digest not in deltas:
                raise self._missing_file(digest, state, collected)
        manifest = state.manifest
        tensors = tuple(tensor for tensor in manifest.tensors if tensor.name in set(names))
        coding = TensorCoding(manifest.base, tensors, manifest.form, manifest.caps)
        contributions = views_of([deltas[digest] for digest in job.digests], coding)
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
            code="rounds.file_missing",
        )


@lru_cache(maxsize=1)
def _collected(address: str, round_: str) -> tuple[State, Collected]:
    """Opens a round and fetches its contributions, once in a process."""
    storage = open_storage(address)
    try:
        state = open_round(storage, expected=round_, remember=False).state
    except NotAvailableError as error:
        message = f"{socket.gethostname()}: {error.message}"
        raise NotAvailableError(message, hint=_EVERY_MACHINE, code=error.code) from None
    return state, collect(state, storage, work_folder(round_))
