"""The loop on a tiny model: it learns, it stops, it resumes, it refuses to learn nothing."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.train.conftest import Recorder, counting_rows, make_job
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, StepInfo
from zoo.gym.data import Unit, alone, rows_of
from zoo.gym.errors import GuardError
from zoo.gym.measure import Score
from zoo.gym.objectives.sft import SupervisedLoss
from zoo.gym.train.loop import fit, is_over, take_best
from zoo.gym.train.progress import BEST_FILE, Progress, best_folder


def weights(job: object) -> dict[str, np.ndarray]:
    return dict(job.method.policy.trained())  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_run_lowers_the_held_out_loss(tiny: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    progress = fit(make_job(tiny, tmp_path, recorder, max_steps=20))
    assert progress.base_score is not None
    assert progress.best_score is not None
    assert progress.best_score < progress.base_score - 0.5
    assert [event["step"] for event in recorder.of("step")] == list(range(1, 21))


@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_same_weights(tiny: Path, tmp_path: Path) -> None:
    whole = make_job(tiny, tmp_path / "whole", Recorder())
    fit(whole)
    first = make_job(tiny, tmp_path / "cut", Recorder(script={3: "stop"}))
    with raises("train.stopped", "stop at step 3 of 8"):
        fit(first)
    second = make_job(tiny, tmp_path / "cut", Recorder())
    progress = fit(second)
    assert progress.step == 8
    for name, value in weights(whole).items():
        np.testing.assert_array_equal(weights(second)[name], value)


@pytest.mark.slow
def test_micro_batches_do_not_change_the_curve(tiny: Path, tmp_path: Path) -> None:
    curves = []
    for micro, accumulate in ((4, 1), (1, 4)):
        recorder = Recorder()
        settings: dict[str, Any] = {
            "per_device_train_batch_size": micro,
            "gradient_accumulation_steps": accumulate,
            "max_steps": 3,
        }
        fit(make_job(tiny, tmp_path / str(micro), recorder, **settings))
        curves.append([event["loss"] for event in recorder.of("step")])
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-5)


@pytest.mark.slow
def test_the_best_step_is_kept_when_later_ones_are_worse(tiny: Path, tmp_path: Path) -> None:
    losses = iter([3.0, 2.5, 1.0, 1.5, 1.2])
    job = make_job(tiny, tmp_path, Recorder(), max_steps=4, eval_steps=1)
    at_step: list[dict[str, np.ndarray]] = []

    def scripted(*_: object, **__: object) -> Score:
        at_step.append(weights(job))
        return Score(rows=1, tokens=1, nats=next(losses))

    with patch("zoo.gym.train.methods.sft.held_out", scripted):
        progress = fit(job)
    assert (progress.base_score, progress.best_step, progress.best_score) == (3.0, 2, 1.0)
    take_best(job, progress)
    for name, value in weights(job).items():
        np.testing.assert_array_equal(value, at_step[2][name])
    assert any((value != at_step[4][name]).any() for name, value in weights(job).items())


@pytest.mark.slow
def test_a_loss_that_is_no_number_is_never_the_best(tiny: Path, tmp_path: Path) -> None:
    losses = iter([3.0, float("nan"), 2.0, float("nan")])
    job = make_job(tiny, tmp_path, Recorder(), max_steps=3, eval_steps=1)
    with patch("zoo.gym.train.methods.sft.held_out", lambda *_, **__: Score(1, 1, next(losses))):
        progress = fit(job)
    assert (progress.best_step, progress.best_score) == (2, 2.0)


@pytest.mark.slow
def test_a_best_step_that_the_run_loses_is_not_what_the_last_weights_pass_for(
    tiny: Path, tmp_path: Path
) -> None:
    losses = iter([3.0, 1.0, 2.0, 2.0])
    recorder = Recorder()
    job = make_job(tiny, tmp_path, recorder, max_steps=2, eval_steps=1, save_steps=9)
    with patch("zoo.gym.train.methods.sft.held_out", lambda *_, **__: Score(1, 1, next(losses))):
        progress = fit(job)
        assert (progress.best_step, progress.best_score) == (1, 1.0)
        last = weights(job)
        (best_folder(tmp_path, 1) / BEST_FILE).unlink()
        take_best(job, progress)
    assert (progress.best_step, progress.best_score) == (2, 2.0)
    assert all((value == last[name]).all() for name, value in weights(job).items())
    [warning] = recorder.of("warn")
    assert "got no file 'trained.safetensors'; they are lost" in warning["message"]


@pytest.mark.slow
def test_a_run_that_lost_its_best_step_says_so_when_it_is_resumed(
    tiny: Path, tmp_path: Path
) -> None:
    losses = iter([3.0, 1.0, 2.0, 2.5])
    settings: dict[str, Any] = {"max_steps": 3, "eval_steps": 1, "save_steps": 9}
    with patch("zoo.gym.train.methods.sft.held_out", lambda *_, **__: Score(1, 1, next(losses))):
        with raises("train.stopped"):
            fit(make_job(tiny, tmp_path, Recorder(script={2: "stop"}), **settings))
        shutil.rmtree(tmp_path / "best")
        recorder = Recorder()
        progress = fit(make_job(tiny, tmp_path, recorder, **settings))
    assert [event["kind"] for event in recorder.events[:2]] == ["warn", "step"]
    assert (progress.best_step, progress.best_score) == (3, 2.5)


@pytest.mark.slow
def test_rows_without_a_label_stop_the_run(tiny: Path, tmp_path: Path) -> None:
    nothing = np.zeros(12, dtype=np.bool_)
    rows = alone(replace(row, mask=nothing) for row in rows_of(counting_rows(24)))
    with raises("train.labels_masked"):
        fit(make_job(tiny, tmp_path, Recorder(), rows=rows))


@pytest.mark.slow
def test_an_adapter_that_no_gradient_reaches_stops_the_run(tiny: Path, tmp_path: Path) -> None:
    policy = load_backend("cpu").load(tiny, LoadSpec(train=LoraSpec(4, 8.0), seed=1))
    # With A and B both zero, each blocks the other's gradient.
    zeroed = {name: np.zeros_like(value) for name, value in policy.trained()}
    policy.load_trained(zeroed)
    with raises("train.no_gradient"):
        fit(make_job(tiny, tmp_path, Recorder(), policy=policy))


@pytest.mark.slow
def test_an_adapter_that_equals_its_start_stops_the_run(tiny: Path, tmp_path: Path) -> None:
    job = make_job(tiny, tmp_path, Recorder())
    still = StepInfo(grad_norm=1.0, skipped=False, changed=False)
    with (
        patch.object(type(job.method.policy), "optimizer_step", return_value=still),
        pytest.raises(GuardError, match="weights did not change"),
    ):
        fit(job)


def test_a_step_too_small_to_move_a_float_is_seen_as_no_change(tiny: Path) -> None:
    policy = load_backend("cpu").load(tiny, LoadSpec(train="full"))
    job = make_job(tiny, Path("unused"), Recorder(), policy=policy)
    policy.accumulate(SupervisedLoss(), job.method.window(1).batches[0], key=0)
    assert not policy.optimizer_step(1e-30, 1.0).changed


@pytest.mark.slow
def test_what_rows_of_a_prompt_cannot_share_is_reported_where_rows_belong_together(
    tiny: Path, tmp_path: Path
) -> None:
    def noted(self: Any, *, sampling: bool, prefix: bool) -> tuple[str, ...]:
        return (f"prefix {prefix}, sampling {sampling}",)

    messages = list[list[str]]()
    for name, grouped, samples in (
        ("rows", False, False),
        ("pairs", True, False),
        ("answers", False, True),
    ):
        recorder = Recorder()
        job = make_job(tiny, tmp_path / name, recorder, max_steps=1)
        if grouped:
            rows = rows_of(job.method.units)
            job.method.units = tuple(Unit(pair) for pair in zip(rows[::2], rows[1::2], strict=True))
        with (
            patch.object(type(job.method), "generates", samples),
            patch.object(type(job.method.policy), "notes", noted),
        ):
            fit(job)
        messages.append([str(event["message"]) for event in recorder.of("warn")])
    assert messages == [
        ["prefix False, sampling False"],
        ["prefix True, sampling False"],
        ["prefix True, sampling True"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patience", "losses", "last", "best"),
    [
        (2, [3.0, 2.0, 1.0, 1.5, 1.2, 0.5, 0.4], 4, 2),
        (3, [3.0, 2.0, 1.0, 1.5, 1.2, 0.5, 0.4], 6, 6),
        (0, [3.0, 2.0, 2.5, 2.5, 2.5, 2.5, 2.5], 6, 1),
    ],
)
def test_a_run_ends_after_evaluations_without_a_better_one(
    tiny: Path, tmp_path: Path, patience: int, losses: list[float], last: int, best: int
) -> None:
    recorder, left = Recorder(), iter(losses)
    settings: dict[str, Any] = {"max_steps": 6, "eval_steps": 1, "early_stopping_steps": patience}
    job = make_job(tiny, tmp_path, recorder, **settings)

    def scripted(*_: object, **__: object) -> Score:
        return Score(rows=1, tokens=1, nats=next(left))

    with patch("zoo.gym.train.methods.sft.held_out", scripted):
        progress = fit(job)
        assert (progress.step, progress.best_step) == (last, best)
        assert len(recorder.of("warn")) == (last < 6)
        # a run that is killed now has no step left
        again = fit(make_job(tiny, tmp_path, Recorder(), **settings))
    assert (again.step, again.best_step) == (last, best)


def test_patience_counts_evaluations_and_not_steps(tiny: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_steps": 50, "eval_steps": 2, "early_stopping_steps": 3}
    job = make_job(tiny, tmp_path, Recorder(), **settings)
    # evaluated every 10 steps before a resume changed that
    assert not is_over(job, Progress(step=42, best_step=30, worse=2))
    assert is_over(job, Progress(step=44, best_step=30, worse=3))


@pytest.mark.slow
def test_a_run_without_held_out_rows_goes_to_its_last_step(tiny: Path, tmp_path: Path) -> None:
    job = make_job(tiny, tmp_path, Recorder(), max_steps=4, eval_steps=1, early_stopping_steps=1)
    job.method.held_out = ()
    assert fit(job).step == 4
