"""Methods that learn from rewards, on zen-pico: exact resumes, and settings that take effect."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from zoo.gym import rewards
from zoo.gym.config import TrainConfig, dump_config, load_values
from zoo.gym.errors import GuardError, InputError, InterruptedRunError
from zoo.gym.jobs import tail_events
from zoo.gym.jobs.run import Run, create_run
from zoo.gym.rewards import Reward, Sample, Score
from zoo.gym.train import loop
from zoo.gym.train.method import Method, Window
from zoo.gym.train.run_folder.settings import stored_settings
from zoo.gym.train.session import run_session
from zoo.models import pico_folder

SETTINGS: dict[str, Any] = {
    "model_name_or_path": "zen-pico",
    "stage": "grpo",
    "max_steps": 4,
    "per_device_train_batch_size": 3,
    "gradient_accumulation_steps": 2,
    "group_size": 4,
    "max_completion_length": 8,
    "save_steps": 2,
    "eval_steps": 2,
    "val_size": 4,
    "date": "2026-01-01",
}


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        {"prompt": f"What is {a}+{b}?", "answer": a + b}
        for a in range(12, 18)
        for b in range(81, 89)
    ]
    path = tmp_path_factory.mktemp("data") / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))


PPO: dict[str, Any] = {"stage": "ppo", "num_iterations": 1}


def start(sums: Path, leaving: Callable[[Run], str | None] = lambda _: None, **given: Any) -> Run:
    config = TrainConfig.model_validate({"dataset": str(sums), **SETTINGS, **given})
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    run_session(config, run, lambda: leaving(run))
    return run


def stopped(sums: Path, step: int, **given: Any) -> Run:
    """Returns a run that was stopped after a step."""
    kept: list[Run] = []

    def leaving(run: Run) -> str | None:
        kept[:] = [run]
        return "stopped" if len(events(run, "step")) == step else None

    with pytest.raises(InterruptedRunError):
        start(sums, leaving, **given)
    return kept[0]


def events(run: Run, kind: str) -> list[dict[str, Any]]:
    return [event for event in tail_events(run.events.path)[0] if event["kind"] == kind]


def samples(run: Run) -> list[dict[str, Any]]:
    return list(map(json.loads, (run.folder / "samples.jsonl").read_text().splitlines()))


def digest(run: Run) -> str:
    return hashlib.sha256((run.result / "adapter_model.safetensors").read_bytes()).hexdigest()


class Scripted(Reward):
    """Scores by a function of the sample's text."""

    name, description = "scripted", "for tests"

    def __init__(self, value: Callable[[Sample], float]) -> None:
        self.value, self.closed = value, False

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        values = [self.value(sample) for sample in samples]
        return [Score(value, "no number" if math.isnan(value) else "") for value in values]

    def close(self) -> None:
        self.closed = True


def script(monkeypatch: pytest.MonkeyPatch, value: Callable[[Sample], float]) -> Scripted:
    reward = Scripted(value)
    monkeypatch.setattr(rewards, "load", lambda *_: reward)
    return reward


def test_a_run_reports_rewards_and_stores_its_samples(sums: Path) -> None:
    run = start(sums)
    steps, evaluations = events(run, "step"), events(run, "eval")
    assert steps[0]["metrics"].keys() >= {"reward", "equal_groups", "completion_length"}
    assert [event["step"] for event in evaluations] == [0, 2, 4]
    assert all(0 <= event["metrics"]["reward"] <= 1 for event in evaluations)
    assert "loss" not in evaluations[0]
    stored = samples(run)
    assert len(stored) == 4 * 6 * 4  # steps, prompts, answers
    assert (run.folder / "samples.jsonl").stat().st_mode & 0o077 == 0
    group = [one for one in stored if one["step"] == 1][:4]
    assert len({one["source"] for one in group}) == 1
    assert sum(one["advantage"] for one in group) == pytest.approx(0, abs=1e-6)
    mean = np.mean([one["reward"] for one in stored if one["step"] == 1])
    assert steps[0]["metrics"]["reward"] == pytest.approx(mean)
    (plan,) = events(run, "plan")
    chosen = {choice["key"]: choice["value"] for choice in plan["choices"]}
    assert chosen["reward"] == "numeric"


def test_each_reward_of_a_sum_is_reported(sums: Path) -> None:
    reward = {"numeric": 1.0, "length": {"most": 3, "weight": 0.5}}
    run = start(sums, reward=reward, max_steps=2)
    first = [one for one in samples(run) if one["step"] == 1]
    assert all(
        one["reward"] == one["parts"]["numeric"] + 0.5 * one["parts"]["length"] for one in first
    )
    metrics = events(run, "step")[0]["metrics"]
    for name in reward:
        mean = np.mean([one["parts"][name] for one in first])
        assert metrics[f"rewards/{name}"] == pytest.approx(mean)
    assert events(run, "eval")[0]["metrics"].keys() >= {"rewards/numeric", "rewards/length"}


@pytest.mark.parametrize("given", [{}, {"num_iterations": 3, "beta": 0.1, "epsilon_high": 0.3}])
def test_a_stopped_run_resumes_to_the_same_bytes(sums: Path, given: dict[str, Any]) -> None:
    whole = start(sums, **given)
    run = stopped(sums, 2, **given)
    run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    assert digest(run) == digest(whole)
    assert samples(run) == samples(whole)


def test_several_steps_on_the_same_answers_sample_once(sums: Path) -> None:
    run = start(sums, num_iterations=2)
    assert sorted({one["step"] for one in samples(run)}) == [1, 3]
    first, second = events(run, "step")[:2]
    assert first["metrics"]["reward"] == second["metrics"]["reward"]
    assert first["metrics"]["clip_high"] == 0  # the ratio is 1
    assert digest(run) != digest(start(sums))


def test_another_seed_samples_other_answers(sums: Path) -> None:
    runs = [start(sums, seed=seed, max_steps=2) for seed in (1, 2)]
    first, second = ([one["completion"] for one in samples(run)] for run in runs)
    assert first != second


def test_groups_of_equal_rewards_change_no_byte(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reward = script(monkeypatch, lambda _: 0.5)
    run = start(sums, finetuning_type="full")
    base, trained = (
        load_file(pico_folder() / "model.safetensors"),
        load_file(run.result / "model.safetensors"),
    )
    assert all(torch.equal(values, base[name].float()) for name, values in trained.items())
    assert [event["grad_norm"] for event in events(run, "step")] == [0.0] * 4
    assert events(run, "step")[0]["metrics"]["equal_groups"] == 1
    assert reward.closed


@pytest.mark.parametrize(
    ("reward", "own"), [(0.5, {"beta": 0.1}), (0.5, {"top_entropy_quantile": 0.5}), (0.0, PPO)]
)
def test_a_run_whose_first_answers_are_equally_good_waits_for_others(
    sums: Path, monkeypatch: pytest.MonkeyPatch, reward: float, own: dict[str, Any]
) -> None:
    script(monkeypatch, lambda _: reward)
    run = start(sums, max_steps=2, val_size=0, eval_steps=None, **own)
    assert [event["grad_norm"] for event in events(run, "step")] == [0.0] * 2


def test_64_groups_of_equal_rewards_in_a_row_stop_the_run(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, lambda _: 1.0)
    with pytest.raises(GuardError, match=r"66 groups in a row have equal rewards: .* got 1 for"):
        start(sums, max_steps=20)


def test_an_answer_without_a_reward_is_left_out_and_reported(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, lambda s: math.nan if sum(s.response.encode()) % 3 else len(s.response))
    run = start(sums, max_steps=2)
    lost = [one for one in samples(run) if one["reward"] is None]
    assert lost
    assert all(one["advantage"] == 0 for one in lost)
    warnings = [event["message"] for event in events(run, "warn")]
    assert any("have no reward and are not learned" in text for text in warnings)
    assert events(run, "step")[0]["metrics"]["unscored"] > 0


def test_a_reward_for_no_answer_stops_the_run(sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, lambda _: math.nan)
    with pytest.raises(GuardError, match="a reward for at least one answer, got none: no number"):
        start(sums)


def test_rows_without_a_prompt_are_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a"}\n')
    with pytest.raises(InputError, match="expected a prompt to answer"):
        start(rows)


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0.5},
        {"group_size": 3},
        {"max_completion_length": 1},
        {"scale_rewards": "none"},
        {"loss_type": "grpo"},
        {"beta": 1.0, "num_iterations": 2},
        {"entropy_coef": 1.0},
        {"top_entropy_quantile": 0.3},
        {"num_iterations": 2},
    ],
)
def test_each_setting_changes_the_result(sums: Path, given: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"max_steps": 2, "val_size": 0, "eval_steps": None}
    plain |= {key: 2 for key in ("num_iterations",) if len(given) > 1}
    assert digest(start(sums, **{**plain, **given})) != digest(start(sums, **plain))


PLAIN: dict[str, Any] = {"max_steps": 4, "num_iterations": 2, "val_size": 0, "eval_steps": None}
SETTINGS_OF: dict[str, list[dict[str, Any]]] = {
    "gspo": [{"epsilon": 0.5, "epsilon_high": 0.5}, {"importance_sampling_level": "token"}],
    "rloo": [
        {"beta": 2.0},
        {"epsilon": 0.001},
        {"normalize_advantages": True, "beta": 1.0},
        {"reward_clip_range": "0.25,0.5"},
    ],
    "ppo": [
        {"beta": 2.0},
        {"beta": 2.0, "kl_estimator": "k3"},
        {"epsilon": 1e-3},
        {"cliprange_value": 1e-3},
        {"vf_coef": 3.0},
        {"gamma": 0.5},
        {"lam": 0.1},
        {"whiten_rewards": True},
        {"group_size": 2},
        {"num_mini_batches": 2},
    ],
}
KEYED = [(stage, given) for stage, listed in SETTINGS_OF.items() for given in listed]


@pytest.fixture(scope="module")
def plain(sums: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digest of a run of each stage with its defaults."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("plain")))
        return {stage: digest(start(sums, **{**PLAIN, "stage": stage})) for stage in SETTINGS_OF}


@pytest.mark.parametrize(("stage", "given"), KEYED, ids=str)
def test_each_setting_of_a_method_changes_the_result(
    sums: Path, plain: dict[str, str], stage: str, given: dict[str, Any]
) -> None:
    assert digest(start(sums, **{**PLAIN, "stage": stage, **given})) != plain[stage]


@pytest.mark.parametrize("own", [{"stage": "rloo"}, {"stage": "ppo", "num_mini_batches": 2}])
def test_each_method_resumes_to_the_same_bytes(sums: Path, own: dict[str, Any]) -> None:
    given: dict[str, Any] = {**own, "num_iterations": 3, "max_steps": 4}
    run = stopped(sums, 2, **given)
    run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    assert digest(run) == digest(start(sums, **given))


def test_ppo_learns_values_and_leaves_their_head_out_of_the_result(sums: Path) -> None:
    run = start(sums, stage="ppo", num_iterations=8, max_steps=8, learning_rate=1e-3)
    losses = [event["metrics"]["value_loss"] for event in events(run, "step")]
    assert losses[-1] < losses[0]
    assert not any("value" in name for name in load_file(run.result / "adapter_model.safetensors"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"use_bias_correction_kl": False}, "has no effect with beta 0"),
        ({"loss_type": "sapo", "num_iterations": 2, "delta": 2}, "no effect with loss_type sapo"),
        ({"num_iterations": 2, "delta": 1.1}, "delta: expected more than 1 . epsilon_high, 1.2"),
        ({"reward": "nothing"}, "reward: 'nothing': no such reward"),
        ({"max_completion_length": 4000}, "expected less than cutoff_len 2048, got 4000"),
        ({"stage": "rloo", "reward_clip_range": "1"}, "reward_clip_range: expected two rising"),
        ({"stage": "rloo", "reward_clip_range": [1, -1]}, "such as '-1,1', got '1,-1'"),
        ({"stage": "ppo", "loss_type": "dapo"}, "loss_type"),
        ({"group_size": 1}, "group_size"),
    ],
)
def test_settings_without_effect_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        TrainConfig(**{"model_name_or_path": "m", "dataset": "d", "stage": "grpo", **given})


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"stage": "grpo", "epsilon_high": 0.28}, "epsilon_high"),
        ({"stage": "grpo", "delta": 2}, "delta"),
        ({"stage": "gspo", "epsilon": 0.3}, "epsilon"),
        ({"stage": "rloo", "epsilon": 0.3}, "epsilon"),
        ({"stage": "ppo", "num_iterations": 1, "cliprange_value": 0.3}, "cliprange_value"),
    ],
)
def test_the_clip_of_single_steps_is_accepted_and_reported(given: dict[str, Any], key: str) -> None:
    loaded = load_values({"model_name_or_path": "m", "dataset": "d", **given})
    [found] = loaded.ignored
    assert (found.key, found.origin) == (key, "Python")
    assert found.reason.startswith("with num_iterations 1 nothing has changed")
    several = {"num_mini_batches": 2} if given["stage"] == "ppo" else {"num_iterations": 2}
    assert not loaded.config.model_copy(update=several).idle_settings()


def test_each_pass_over_the_answers_learns_each_of_its_parts(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[bytes]] = []
    real = loop.accumulate

    def noted(method: Method, step: int, window: Window) -> dict[str, float]:
        rows = [
            ids_T[:length].tobytes()
            for batch in window.batches
            for ids_T, length in zip(batch.ids_BT, batch.lengths_B, strict=True)
        ]
        seen.append(rows)
        return real(method, step, window)

    monkeypatch.setattr(loop, "accumulate", noted)
    run = start(sums, stage="ppo", num_mini_batches=2, num_iterations=2, max_steps=6)
    assert [len(rows) for rows in seen] == [12] * 6  # 6 prompts, 4 answers, 2 parts
    first, second, third = (sorted(seen[i] + seen[i + 1]) for i in (0, 2, 4))
    assert first == second != third
    assert sorted(seen[0]) != sorted(seen[2])  # each pass has its own order
    assert {one["step"] for one in samples(run)} == {1, 5}


def test_an_answer_that_did_not_end_costs_the_penalty(sums: Path) -> None:
    given: dict[str, Any] = {**PLAIN, "stage": "ppo", "max_completion_length": 3}
    plain, run = start(sums, **given), start(sums, **given, missing_eos_penalty=0.5)
    pairs = [
        (one["advantage"], one["reward"] - 0.5 * one["truncated"])
        for one in samples(run)
        if one["step"] == 1
    ]
    assert all(counted == expected for counted, expected in pairs)
    assert {one["truncated"] for one in samples(run)} == {True, False}
    assert digest(run) != digest(plain)


def test_more_parts_than_prompts_are_refused(sums: Path) -> None:
    with pytest.raises(InputError, match="num_mini_batches: expected at most the 6 prompts"):
        start(sums, stage="ppo", num_mini_batches=7)


def test_a_range_that_makes_all_rewards_equal_stops_the_run(sums: Path) -> None:
    with pytest.raises(GuardError, match=r"groups in a row have equal rewards: .* got 2 for"):
        start(sums, stage="rloo", reward_clip_range="2,3", max_steps=20)


def test_answers_are_learned_at_the_temperature_they_were_sampled_at(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    real = loop.accumulate

    def noted(method: Method, step: int, window: Window) -> dict[str, float]:
        seen.extend(batch.temperature for batch in window.batches)
        return real(method, step, window)

    monkeypatch.setattr(loop, "accumulate", noted)
    start(sums, temperature=1.3, max_steps=2, eval_steps=1000)
    assert set(seen) == {1.3}
