"""Retention in a run: measured, reported, stored for a resume, and rows that are retained."""

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from tests.codes import raises
from tests.night import one_in
from zoo.gym import RunResult, TrainConfig, run_training
from zoo.gym.config import load_config
from zoo.gym.data import Example, alone
from zoo.gym.retention import Measured
from zoo.gym.retention.questions import Question
from zoo.gym.train.plan import Plan
from zoo.gym.train.retaining import retained_of_step, retained_until, share_of


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("home")))
        patched.setattr("zoo.gym.retention.measurement.LEAST_PARAMETERS", 0)  # zen-pico is asked
        yield


def rows(count: int = 12) -> list[dict[str, str]]:
    return [{"prompt": f"Say {n}.", "completion": f"{n} it is"} for n in range(count)]


def run(**settings: Any) -> RunResult:
    given = {"max_steps": 3, "per_device_train_batch_size": 4, "val_size": 2, **settings}
    given["gradient_accumulation_steps"] = 1
    given.setdefault("dataset", rows())
    return run_training(TrainConfig(model_name_or_path="zen-pico", **given))


def events(result: RunResult, kind: str) -> list[dict[str, Any]]:
    lines = (result.model.parent / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def plan_of(retain: float, rows_per_step: int) -> Plan:
    config = TrainConfig(model_name_or_path="zen-pico", dataset="d", retain=retain)
    return Plan(config, 8, rows_per_step, 0, ())


def test_retained_rows_have_their_share_of_every_few_steps() -> None:
    plan = plan_of(0.25, 4)  # 4 rows of the data and 4 / 3 others in a step
    assert [retained_until(plan, step) for step in range(7)] == [0, 1, 2, 4, 5, 6, 8]


def test_each_retained_row_is_used_before_one_is_used_again() -> None:
    import numpy as np

    ids = np.arange(3)
    units = alone(Example(ids, ids > 0, str(n), truncated=False) for n in range(4))
    plan = plan_of(0.5, 2)
    used = [unit.rows[0].source for step in (1, 2) for unit in retained_of_step(units, plan, step)]
    assert sorted(used) == ["0", "1", "2", "3"]


def test_the_share_is_chosen_only_for_an_adapter_on_a_model_that_answers_in_a_new_run() -> None:
    able, unable = Measured(("",) * 60, (True,) * 60, 3.0), Measured((), (), None)

    def share(before: Measured | None, *, resumes: bool = False, **settings: Any) -> float:
        config = TrainConfig(model_name_or_path="zen-pico", dataset="d", **settings)
        return share_of(config, before, resumes=resumes)

    assert share(able) > 0
    assert share(able, resumes=True) == 0
    assert share(able, finetuning_type="full") == 0
    assert share(unable) == 0
    assert share(None) == 0
    assert share(unable, resumes=True, retain=0.25) == 0.25
    assert share(able, finetuning_type="full", retain=0.25) == 0.25
    assert share(able, retain=0.0) == 0


@pytest.mark.slow
def test_a_model_that_answers_nothing_says_so_and_retains_nothing() -> None:
    result = run()
    [note] = events(result, "retention")
    assert "fewer than 10 of 60 questions are right" in note["message"]
    assert load_config([result.model.parent / "config.yaml"], [], {}).config.retain == 0  # type: ignore[attr-defined]
    assert not (result.model.parent / "retained.jsonl").exists()
    assert "retention" not in result.metrics


@pytest.mark.slow
def test_without_retention_nothing_is_asked() -> None:
    result = run(retention=False)
    assert events(result, "retention") == []
    assert not (result.model.parent / "retention.json").exists()


@pytest.mark.slow
def test_retained_rows_are_learned_beside_those_of_the_data() -> None:
    plain, retained = run(retain=0.0), run(retain=0.5)
    assert all("metrics" not in step for step in events(plain, "step"))
    first, *others = (step["metrics"]["retained_kl"] for step in events(retained, "step"))
    assert first == pytest.approx(0, abs=1e-5)  # nothing has changed yet
    assert min(others) > 1e-5
    assert plain.metrics["best_loss"] != retained.metrics["best_loss"]
    stored = (retained.model.parent / "retained.jsonl").read_text().splitlines()
    assert 1 < len(stored) <= 12  # 3 steps of 4 rows; an empty answer is left out
    assert {"prompt", "answer", "ids", "learned_from"} == json.loads(stored[0]).keys()


@pytest.mark.parametrize("value", [-0.1, 0.95, "half"])
def test_a_share_out_of_range_is_refused(value: object) -> None:
    with raises("config.invalid", "retain"):
        run(retain=value)


def test_a_method_that_retains_nothing_refuses_a_share() -> None:
    with raises("config.invalid", "retain"):
        run_training(
            TrainConfig(model_name_or_path="zen-pico", dataset=rows(), stage="rm", retain=0.1)
        )


@pytest.mark.slow
@pytest.mark.parametrize("stage", one_in(3, ["dpo", "tdpo", "kto", "orpo", "cpo", "simpo"]))
def test_methods_of_preference_retain_too(stage: str) -> None:
    pairs = [{**row, "chosen": row["completion"], "rejected": "no"} for row in rows()]
    for pair in pairs:
        del pair["completion"]
    result = run(stage=stage, dataset=pairs, retain=0.5, learning_rate=1e-3)
    assert retained(result)[-1] > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("stage", one_in(2, ["grpo", "gspo", "rloo", "ppo"]))
def test_methods_of_rewards_retain_too(stage: str) -> None:
    prompts = [{"prompt": f"Say {n}.", "answer": f"{n}"} for n in range(12)]
    few = {"group_size": 4, "max_completion_length": 4, "reward": letters}
    result = run(stage=stage, dataset=prompts, retain=0.5, learning_rate=1e-3, **few)
    assert retained(result)[-1] > 1e-6


def letters(query: str, response: str) -> float:
    return float(len(set(response)))


def retained(result: RunResult) -> list[float]:
    return [step["metrics"]["retained_kl"] for step in events(result, "step")]


@pytest.mark.slow
def test_what_a_run_lost_is_reported_with_its_answers() -> None:
    asked = tuple(Question(f"Say {n}.", (str(n),)) for n in range(12))
    with (
        patch("zoo.gym.retention.measurement.questions", return_value=asked),
        patch("zoo.gym.retention.compare.questions", return_value=asked),
        patch("zoo.gym.retention.measurement.LEAST_RIGHT", 0),
    ):
        result = run(max_steps=30, learning_rate=3e-3)
    before, after = events(result, "retention")
    assert before["right"] == sum(
        json.loads((result.model.parent / "retention.json").read_text())["right"]
    )
    assert after["right"] == before["right"]
    assert result.metrics["retention"]["loss_after"] > 0
    assert (result.model / "README.md").read_text().count("retention:") == 2
