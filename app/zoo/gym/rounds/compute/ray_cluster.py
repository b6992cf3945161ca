"""Runs tasks on a cluster of Ray from a process of its own.

Ray ends the process that is connected to a cluster when the raylet of its machine is lost, and a
minute after the head is: without a word to Python.
"""

import multiprocessing
import os
import signal
import socket
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.rounds.compute.dividing import Compute, Groups, Job, Run

if TYPE_CHECKING:
    from zoo.gym.rounds.compute.dividing import Part

LOCAL, AUTO = "local", "auto"
"""A cluster of this machine alone, started for the command; and the one that runs here already."""

RETRIES = 3
"""How often a task is computed again whose worker process or machine is lost."""

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
        processors: that a task reserves.

    Raises:
        InputError: another address, or no machine of the cluster has so many processors.
        NotAvailableError: Ray is not installed, no cluster answers, or it is lost.
    """
    if find_spec("ray") is None:
        hint = install_command("cluster")
        raise NotAvailableError("ray: expected the package, got none", hint=hint)
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
        ) from None
    alive = (node["Resources"] for node in library.nodes() if node["Alive"])
    most = max(int(resources.get("CPU", 0)) for resources in alive)
    if processors > most:  # Ray would wait for ever
        raise InputError(
            f"--threads: expected at most {most}, the processors of the largest machine of the "
            f"cluster at {cluster}, got {processors}"
        )


def _results(
    library: Any,  # noqa: ANN401 - Ray
    cluster: str,
    shared: tuple[Compute, Job],
    groups: Groups,
    processors: int,
) -> Iterator["Part"]:
    """Yields the results of a job's tasks in order."""
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
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _check_address(cluster: str) -> None:
    """Refuses what is no address, and one at which nothing answers."""
    if cluster in {LOCAL, AUTO}:
        return
    host, _, port = cluster.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or "/" in host:
        raise InputError(f"--ray: expected {LOCAL}, {AUTO} or HOST:PORT, got {cluster!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise NotAvailableError(f"ray: expected a cluster at {cluster}, got {error}") from None
