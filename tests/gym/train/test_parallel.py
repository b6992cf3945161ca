"""Two processes, here threads, against one: the same losses, weights and checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.backends.reference import relative_error
from tests.backends.thread_ranks import ThreadRanks, in_threads
from tests.codes import raises
from tests.gym.train.conftest import Recorder, make_job
from zoo.backends.torch.trained import FILE
from zoo.gym.train.loop import Job, fit
from zoo.gym.train.parallel.agreement import check_same_settings, check_same_weights
from zoo.gym.train.run_folder.checkpoint import folder_name, newest_step


def make_jobs(
    tiny: Path, folder: Path, **settings: Any
) -> tuple[Callable[[ThreadRanks], Job], list[Recorder]]:
    """Returns the jobs of two processes, made before the threads, which have one random state."""
    recorders = [Recorder(), Recorder()]
    jobs = [make_job(tiny, folder, one, max_steps=4, **settings) for one in recorders]

    def of(ranks: ThreadRanks) -> Job:
        jobs[ranks.rank].method.policy.ranks = ranks
        return jobs[ranks.rank]

    return of, recorders


def numbers(recorder: Recorder, kind: str) -> list[float]:
    return [event[name] for event in recorder.of(kind) for name in ("loss", "tokens")]


@pytest.mark.slow
def test_two_processes_train_as_one(tiny: Path, tmp_path: Path) -> None:
    # three micro-batches a step: the first process has two of them
    settings: dict[str, Any] = {"gradient_accumulation_steps": 3}
    alone = make_job(tiny, tmp_path / "one", one := Recorder(), max_steps=4, **settings)
    fit(alone)
    job_of, recorders = make_jobs(tiny, tmp_path / "two", **settings)
    in_threads(2, lambda ranks: fit(job_of(ranks)))
    for recorder in recorders:
        for kind in ("step", "eval"):
            np.testing.assert_allclose(numbers(recorder, kind), numbers(one, kind), rtol=1e-6)
    assert len(recorders[0].of("checkpoint")) == 4
    assert not recorders[1].of("checkpoint")
    weights = [load_file(newest(tmp_path / name)) for name in ("two", "one")]
    assert relative_error(*weights) < 1e-5


@pytest.mark.slow
def test_the_processes_of_a_divided_model_make_as_many_passes(tiny: Path, tmp_path: Path) -> None:
    # three micro-batches a step: the second process has one, and one that weighs nothing
    settings: dict[str, Any] = {"gradient_accumulation_steps": 3}
    fit(make_job(tiny, tmp_path / "one", one := Recorder(), max_steps=4, **settings))
    job_of, recorders = make_jobs(tiny, tmp_path / "two", **settings)
    passes: list[list[str]] = [[], []]

    def counted(policy: Any, name: str, seen: list[str]) -> None:
        method = getattr(policy, name)

        def call(*args: Any, **named: Any) -> Any:
            seen.append(name)
            return method(*args, **named)

        setattr(policy, name, call)

    def work(ranks: ThreadRanks) -> None:
        policy: Any = job_of(ranks).method.policy
        policy.divided = True
        for name in ("accumulate", "score"):
            counted(policy, name, passes[ranks.rank])
        fit(job_of(ranks))

    in_threads(2, work)
    assert passes[0] == passes[1]
    assert passes[0].count("accumulate") == 4 * 2
    for recorder in recorders:
        np.testing.assert_allclose(numbers(recorder, "step"), numbers(one, "step"), rtol=1e-6)


def newest(checkpoints: Path) -> Path:
    return checkpoints / folder_name(newest_step(checkpoints)) / FILE


@pytest.mark.slow
def test_a_step_has_rows_for_each_process(tiny: Path, tmp_path: Path) -> None:
    job = make_job(tiny, tmp_path, Recorder(), num_processes=3, gradient_accumulation_steps=2)
    assert job.plan.rows_per_step == 2 * 2 * 3
    assert len(job.method.window(1).batches) == 6


@pytest.mark.slow
def test_all_processes_leave_when_the_first_is_asked_to(tiny: Path, tmp_path: Path) -> None:
    job_of, recorders = make_jobs(tiny, tmp_path)
    recorders[0].script = {2: "stopped"}

    def work(ranks: ThreadRanks) -> str:
        with raises("train.stopped") as caught:
            fit(job_of(ranks))
        return str(caught.value)

    assert in_threads(2, work) == ["stopped at step 2 of 4"] * 2
    assert newest_step(tmp_path) == 2


@pytest.mark.slow
def test_processes_with_other_weights_are_refused(tiny: Path, tmp_path: Path) -> None:
    job_of, _ = make_jobs(tiny, tmp_path)

    def work(ranks: ThreadRanks) -> None:
        policy = job_of(ranks).method.policy
        if ranks.rank:
            values = dict(policy.trained())
            next(iter(values.values())).flat[0] += 1e-4
            policy.load_trained(values)
        with raises(
            "train.processes_differ", r"weights at step 7 in all 2, got others in process 2"
        ):
            check_same_weights(policy, "step 7")

    in_threads(2, work)


def test_processes_with_other_settings_are_refused() -> None:
    def work(ranks: ThreadRanks) -> None:
        with raises("train.processes_differ", "expected the same seed in all 2"):
            check_same_settings(ranks, {"seed": ranks.rank, "max_steps": 3})

    in_threads(2, work)
