"""`kill -9` at random steps of each kind of method: each resume ends in the same bytes.

GRPO is killed within rollouts and within updates; the first step after a resume may be the second
on the same answers.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.gym.jobs.real_runs import STEPS, WORDS, Outcome, Place
from tests.gym.jobs.warm import server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")

KILLS = {"sft": 10, "dpo": 10, "grpo": 10}
"""Of each kind of moment for a stage."""

KILLS_OF_OTHERS = 2
"""Of each stage that is not in `KILLS`: its loop is that of one of them."""

SOONER = {"sft": 1, "dpo": 1, "grpo": 1}
"""How many of each kind of moment are slow tests; the rest is nightly, and all of other stages."""


def moments() -> list[str]:
    """Returns moments such as `grpo-in_rollout_5_2`: the same in each process, no two alike."""
    rng = random.Random(9)
    rollouts = [(step, token) for step in range(1, STEPS + 1, 3) for token in (1, 2, 3)]
    updates = [(step, part) for step in range(1, STEPS + 1) for part in (1, 2, 3, 4)]
    found = [
        f"grpo-in_rollout_{step}_{token}" for step, token in rng.sample(rollouts, KILLS["grpo"])
    ]
    for stage in WORDS:
        drawn = rng.sample(updates, KILLS.get(stage, KILLS_OF_OTHERS))
        found += [f"{stage}-in_update_{step}_{part}" for step, part in drawn]
    return found


def is_sooner(moment: str) -> bool:
    """Says whether a moment is one of the first of its kind."""
    kind, stage = moment.rsplit("_", 2)[0], moment.partition("-")[0]
    alike = [one for one in moments() if one.startswith(f"{kind}_")]
    return alike.index(moment) < SOONER.get(stage, 0)


def survive(folder: Path, shared: ForkServerContext, moment: str) -> Outcome:
    """Kills a run at a moment and resumes it."""
    stage, _, entry = moment.partition("-")
    place = Place(folder / moment, shared, stage)
    place.train(entry)
    place.await_death()
    return place.outcome()


def undisturbed(folder: Path, shared: ForkServerContext, stage: str) -> Place:
    """Returns a run that nothing interrupted."""
    place = Place(folder / stage, shared, stage)
    place.train()
    place.await_death()
    return place


@pytest.fixture(scope="module")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], tuple[Outcome, Place]]]:
    """Each wanted moment's outcome, and the whole run of its stage."""
    wanted = {item.name.partition("[")[2][:-1] for item in request.session.items}
    folder, shared = tmp_path_factory.mktemp("methods"), server()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        stages = {m.partition("-")[0] for m in moments() if m in wanted}
        whole = {stage: pool.submit(undisturbed, folder, shared, stage) for stage in sorted(stages)}
        killed = {m: pool.submit(survive, folder, shared, m) for m in moments() if m in wanted}
        yield lambda m: (killed[m].result(), whole[m.partition("-")[0]].result())


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(moment, marks=pytest.mark.slow if is_sooner(moment) else pytest.mark.nightly)
        for moment in moments()
    ],
)
def test_a_run_killed_at_a_random_step_resumes_to_the_same_bytes(
    outcomes: Callable[[str], tuple[Outcome, Place]], moment: str
) -> None:
    found, whole = outcomes(moment)
    step = int(moment.split("_")[2])
    assert (found.listed, found.torn) == ("interrupted", [])
    assert step - 1 <= found.killed_at < STEPS  # a step whose groups are all equal has no update
    assert (found.state, found.weights) == ("done", whole.weights())
    assert found.samples == whole.samples()
    assert found.strays == []
    assert found.sequence == list(range(len(found.sequence)))
