"""`zoo-gym round work`: helps to compute a round, beside other processes here or elsewhere."""

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.communities import Given
from zoo.gym.cli.community.opened import opened_round
from zoo.gym.cli.options import Json, Threads
from zoo.gym.cli.output import Output
from zoo.gym.errors import GymError, InputError
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.rounds.protocol.state import State

Queue = Annotated[str, Parameter(name="--queue", metavar="QUEUE")]

LOOK_S = 5.0
"""Between two looks at the round."""

WAIT_S = 0.1
_EARLY = frozenset({"commit", "reveal"})


def work(
    round_: Given = None,
    /,
    *,
    queue: Queue,
    threads: Threads = None,
    idle_s: float | None = None,
    ray: Annotated[str | None, Parameter(name="--ray", metavar="CLUSTER")] = None,
    workers: int | None = None,
    as_json: Json = False,
) -> int:
    """Works on the tasks that `round aggregate --queue` hands out, until the round has its result.

    Every worker computes the same bytes, so that one can be added or stopped at any time. One that
    is started before all is revealed waits; one that lacks a file leaves its tasks to others.

    Args:
        round_: its folder, name or id; by default the only open one seen here
        queue: a file on this machine, or postgresql://USER@HOST/DATABASE for several machines
        threads: how many threads; by default all
        idle_s: also end after so many seconds without a task
        ray: start workers on a cluster of Ray: local, auto or HOST:PORT
        workers: how many of them; by default 2
        as_json: print one JSON object as stdout's last line
    """
    out, opened = Output(as_json), opened_round(round_)
    opened.manifest.expect(
        "delta", "round work", "one machine computes them: zoo-gym round aggregate"
    )
    if opened.manifest.privacy is not None:
        raise InputError(
            "round work: expected a round without privacy: one machine opens and adds up"
        )
    if workers is not None and (ray is None or workers < 1):
        raise InputError(f"--workers: expected 1 or more, with --ray, got {workers}")
    if idle_s is not None and not idle_s >= 0:
        raise InputError(f"--idle-s: expected 0 seconds or more, got {idle_s}")
    if ray is not None:
        options = {"--queue": queue, "--threads": threads, "--idle-s": idle_s}
        done = _on_ray(ray, opened.storage.address, options, workers or 2)
        out.answer(f"did {counted(done, 'task')}")
        out.result({"round": opened.state.id, "tasks": done})
        return 0
    done = _work(opened, queue, threads, idle_s, out)
    out.answer(f"did {counted(done, 'task')}")
    out.result({"round": opened.state.id, "tasks": done})
    return 0


def _work(
    opened: "Opened", queue: str, threads: int | None, idle_s: float | None, out: Output
) -> int:
    """Works in this process and returns how many tasks it did."""
    from zoo.gym.rounds.compute.dividing import RoundParts
    from zoo.gym.rounds.compute.publish import work_folder
    from zoo.gym.rounds.work.address import opener
    from zoo.gym.rounds.work.worker import work as do_tasks

    open_queue, round_id = opener(queue), opened.state.id
    out.say(f"working for round {opened.manifest.name}; Ctrl-C ends")
    looked = time.monotonic()

    def look() -> "State":
        return opened_round(opened.storage.address).state

    def ended(idle: float) -> bool:
        nonlocal looked
        if idle_s is not None and idle > idle_s:
            return True
        if time.monotonic() - looked < LOOK_S:
            return False
        looked = time.monotonic()
        return look().closed

    def report(error: GymError) -> None:
        out.say(f"note: {error.message}; this worker leaves its tasks to others")
        if error.hint:
            out.say(f"hint: {error.hint}")

    if not _computes(opened.state, look, idle_s, out):
        return 0
    parts = RoundParts(look, opened.storage, work_folder(round_id))
    return do_tasks(open_queue, round_id, parts, ended, threads=threads, report=report)


def _computes(
    state: "State", look: "Callable[[], State]", idle_s: float | None, out: Output
) -> bool:
    """Waits until all is revealed; False if the round ends before, or `idle_s` is over."""
    began = looked = time.monotonic()
    if state.phase in _EARLY:
        out.say(f"the round is in phase {state.phase}: there are tasks when all is revealed")
    while state.phase in _EARLY:
        now = time.monotonic()
        if idle_s is not None and now - began > idle_s:
            return False
        if now - looked >= LOOK_S:
            state, looked = look(), now
        time.sleep(WAIT_S)
    return not state.closed


def _on_ray(cluster: str, address: str, options: Mapping[str, object | None], workers: int) -> int:
    """Runs this command on a cluster and returns how many tasks all workers did."""
    from zoo.gym.rounds.work.ray_crew import run_on_ray

    words = ["-m", "zoo.gym", "round", "work", address, "--json"]
    for name, value in options.items():
        words += [] if value is None else [name, str(value)]
    threads = options["--threads"]
    cpus = float(threads) if isinstance(threads, int) else 1.0
    return sum(json.loads(line)["tasks"] for line in run_on_ray(cluster, words, workers, cpus))
