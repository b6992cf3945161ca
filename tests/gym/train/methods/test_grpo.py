"""Methods that learn from rewards, on zen-pico: samples, groups, guards and exact resumes."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.codes import raises
from tests.gym.train.methods.rollout_runs import (
    PPO,
    digest,
    events,
    samples,
    script,
    start,
    stopped,
)
from zoo.gym.train import loop
from zoo.gym.train.method import Method, Window
from zoo.gym.train.run_folder.settings import stored_settings
from zoo.gym.train.session import run_session
from zoo.models import pico_folder

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"num_iterations": 3, "beta": 0.1, "epsilon_high": 0.3},
        {"dynamic_sampling": True},
    ],
)
@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_same_bytes(sums: Path, given: dict[str, Any]) -> None:
    whole = start(sums, **given)
    run = stopped(sums, 2, **given)
    run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    assert digest(run) == digest(whole)
    assert samples(run) == samples(whole)


@pytest.mark.slow
def test_dynamic_sampling_learns_groups_with_a_spread_and_keeps_the_others(sums: Path) -> None:
    run = start(sums, dynamic_sampling=True, max_steps=3)
    stored = samples(run)
    for step in (1, 2, 3):
        mine = [one for one in stored if one["step"] == step]
        groups = [mine[at : at + 4] for at in range(0, len(mine), 4)]
        assert all(len({one["source"] for one in group}) == 1 for group in groups)
        mixed = [len({one["reward"] for one in group}) > 1 for group in groups]
        learned = [any(one["advantage"] for one in group) for group in groups]
        assert learned.count(True) == min(6, mixed.count(True))
        assert all(
            is_mixed for is_mixed, is_learned in zip(mixed, learned, strict=True) if is_learned
        )
        assert 6 <= len(groups) <= 3 * 6


@pytest.mark.slow
def test_a_prompt_whose_answers_earn_the_same_rests(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(
        monkeypatch,
        lambda one: ord(one.response[-1]) if str(one.task.answer)[-1] in "13579" else 0.0,
    )
    run = start(sums, max_samples=10, max_steps=2)  # an epoch has six prompts, as a step
    found: dict[str, set[float]] = {}
    for one in samples(run):
        found.setdefault(f"{one['step']} {one['source']}", set()).add(one["reward"])
    groups = list(found)
    assert len(groups) == 12
    mixed = {group[2:] for group in groups[:6] if len(found[group]) > 1}
    assert 0 < len(mixed) < 6
    assert {group[2:] for group in groups[6 : 6 + len(mixed)]} == mixed


@pytest.mark.slow
def test_several_steps_on_the_same_answers_sample_once(sums: Path) -> None:
    run = start(sums, num_iterations=2)
    assert sorted({one["step"] for one in samples(run)}) == [1, 3]
    first, second = events(run, "step")[:2]
    assert first["metrics"]["reward"] == second["metrics"]["reward"]
    assert first["metrics"]["clip_high"] == 0  # the ratio is 1
    assert digest(run) != digest(start(sums))


@pytest.mark.slow
def test_another_seed_samples_other_answers(sums: Path) -> None:
    runs = [start(sums, seed=seed, max_steps=2) for seed in (1, 2)]
    first, second = ([one["completion"] for one in samples(run)] for run in runs)
    assert first != second


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reward", "own"), [(0.5, {"beta": 0.1}), (0.5, {"top_entropy_quantile": 0.5}), (0.0, PPO)]
)
def test_a_run_whose_first_answers_are_equally_good_waits_for_others(
    sums: Path, monkeypatch: pytest.MonkeyPatch, reward: float, own: dict[str, Any]
) -> None:
    script(monkeypatch, lambda _: reward)
    run = start(sums, max_steps=2, val_size=0, eval_steps=None, **own)
    assert [event["grad_norm"] for event in events(run, "step")] == [0.0] * 2


@pytest.mark.slow
def test_64_groups_of_equal_rewards_in_a_row_stop_the_run(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, lambda _: 1.0)
    with raises("train.equal_rewards", r"66 groups in a row have equal rewards: .* got 1 for"):
        start(sums, max_steps=20)


@pytest.mark.slow
def test_a_run_stopped_at_its_highest_reward_says_that_the_answers_are_good(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = itertools.count()
    script(monkeypatch, lambda _: float(next(scored) > 40))  # the first answers get less
    with raises("train.equal_rewards", r"which are the highest of this run: .* got 1") as caught:
        start(sums, max_steps=20, early_stopping_steps=0)
    assert str(caught.value.hint).startswith("the answers are all as good as the reward can tell")


@pytest.mark.slow
def test_equal_rewards_of_all_answers_stop_ppo(sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, lambda _: 0.0)
    with raises("train.equal_rewards", r"66 groups in a row have equal rewards: .* got 0 for"):
        start(sums, max_steps=20, val_size=0, eval_steps=None, **PPO)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_reward_for_no_answer_stops_the_run(sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, lambda _: math.nan)
    with raises("train.no_rewards", "a reward for at least one answer, got none: no number"):
        start(sums)


def test_rows_without_a_prompt_are_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a"}\n')
    with raises("data.no_usable_row", "expected a prompt to answer"):
        start(rows)


@pytest.mark.parametrize("own", [{"stage": "rloo"}, {"stage": "ppo", "num_mini_batches": 2}])
@pytest.mark.slow
def test_each_method_resumes_to_the_same_bytes(sums: Path, own: dict[str, Any]) -> None:
    given: dict[str, Any] = {**own, "num_iterations": 3, "max_steps": 4}
    run = stopped(sums, 2, **given)
    run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    assert digest(run) == digest(start(sums, **given))


@pytest.mark.slow
def test_ppo_compares_no_groups_and_warns_of_none(sums: Path) -> None:
    run = start(sums, **PPO, max_steps=12, eval_steps=12, save_steps=12)
    assert not [event for event in events(run, "warn") if "the last 10 steps" in event["message"]]


@pytest.mark.slow
def test_ppo_learns_values_and_leaves_their_head_out_of_the_result(sums: Path) -> None:
    run = start(sums, stage="ppo", num_iterations=8, max_steps=8, learning_rate=1e-3)
    losses = [event["metrics"]["value_loss"] for event in events(run, "step")]
    assert losses[-1] < losses[0]
    assert not any("value" in name for name in load_file(run.result / "adapter_model.safetensors"))


@pytest.mark.slow
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


@pytest.mark.slow
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
