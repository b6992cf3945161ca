"""`kill -9` at twenty moments of a real run: each resume ends in the weights of a whole one."""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.gym.jobs import killers
from tests.gym.jobs.real_runs import Outcome, Place, Reached, told
from tests.gym.jobs.warm import server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")


OUTSIDE: dict[str, tuple[Reached, float]] = {
    "the_first_event": (told("state", state="running"), 0.0),
    "the_plan": (told("plan"), 0.0),
    "loading": (told("plan"), 0.05),
    "the_first_evaluation": (told("eval", step=0), 0.0),
    "the_first_step": (told("step", step=1), 0.0),
    "evaluating": (told("step", step=3), 0.0),
    "the_second_checkpoint": (told("checkpoint", step=4), 0.0),
    "inside_a_step": (told("step", step=7), 0.025),
}
"""Kills from outside: behind which event, and how many seconds later."""

MOMENTS = [*killers.INSIDE, *killers.BESIDE, *OUTSIDE]

SOONER = frozenset(MOMENTS[::8])
"""Every eighth moment is a slow test, the others are nightly ones."""


def survive(folder: Path, server: ForkServerContext, moment: str) -> Outcome:
    """Kills a run at a moment and resumes it."""
    place = Place(folder / moment, server)
    if moment in OUTSIDE:
        place.train()
        place.kill(*OUTSIDE[moment])
    else:
        place.train(moment)
        place.await_death()
    # an old checkpoint that is being removed is not whole, and newer ones are there
    return place.outcome(pruning=moment == "pruning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("survival")


@pytest.fixture(scope="module")
def outcomes(folder: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Outcome]]:
    """Every wanted moment's outcome; as many runs at once as there are processors."""
    wanted = {item.name.partition("[")[2][:-1] for item in request.session.items}
    shared = server()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {m: pool.submit(survive, folder, shared, m) for m in MOMENTS if m in wanted}
        yield lambda moment: futures[moment].result()


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(moment, marks=pytest.mark.slow if moment in SOONER else pytest.mark.nightly)
        for moment in MOMENTS
    ],
)
def test_a_killed_run_resumes_to_the_weights_of_a_whole_one(
    whole: Place, outcomes: Callable[[str], Outcome], moment: str
) -> None:
    found = outcomes(moment)
    assert (found.listed, found.torn) == ("interrupted", [])
    assert (found.state, found.weights) == ("done", whole.weights())
    assert found.strays == []
    assert found.sequence == list(range(len(found.sequence)))


def test_twenty_moments_are_tried_and_half_of_them_inside_a_checkpoint() -> None:
    assert (len(MOMENTS), len(set(MOMENTS)), len(killers.INSIDE)) == (20, 20, 10)


@pytest.mark.slow
def test_without_the_rename_a_kill_leaves_a_torn_checkpoint(folder: Path) -> None:
    place = Place(folder / "straight", server())
    place.train("straight")
    place.await_death()
    assert place.torn() == ["step-00000006 has no manifest"]
