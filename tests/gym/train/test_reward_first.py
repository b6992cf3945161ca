"""A method with rewards on pairs: a reward model learns from them first."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym import TrainConfig, run_training
from zoo.gym.jobs import list_runs, open_run
from zoo.gym.train.reward_first import doubt_of_scores, reward_model_first

PAIRS: list[dict[str, Any]] = [
    {"prompt": f"Say {n}.", "chosen": f"{n}", "rejected": f"not {n}"} for n in range(12)
]


def settings(rows: list[dict[str, Any]], **others: object) -> TrainConfig:
    return TrainConfig(model_name_or_path="zen-pico", dataset=rows, **{"stage": "grpo", **others})


@pytest.mark.parametrize("stage", ["grpo", "gspo", "rloo", "ppo"])
def test_pairs_need_a_reward_model_on_the_same_rows_model_and_machine(
    tmp_path: Path, stage: str
) -> None:
    others = {"seed": 7, "cutoff_len": 64, "backend": "cpu", "learning_rate": 1e-3}
    found = reward_model_first(settings(PAIRS, stage=stage, **others))
    assert found is not None
    assert (found.stage, found.model_name_or_path, found.rows) == ("rm", "zen-pico", tuple(PAIRS))
    assert (found.seed, found.cutoff_len, found.backend) == (7, 64, "cpu")
    assert found.learning_rate is None  # that of a policy
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    of_file = TrainConfig(
        model_name_or_path="zen-pico", dataset=tmp_path / "pairs.jsonl", stage=stage
    )
    assert reward_model_first(of_file) is not None


@pytest.mark.parametrize(
    ("rows", "others"),
    [
        ([row | {"answer": "1"} for row in PAIRS], {}),
        ([{"prompt": "Say 1.", "answer": "1"}], {}),
        ([{"prompt": "Say 1."}], {}),  # refused where rewards are chosen
        (PAIRS, {"reward": "rewards.py:score"}),
        (PAIRS, {"stage": "dpo"}),
        (PAIRS, {"stage": "rm"}),
    ],
)
def test_no_other_run_needs_one(rows: list[dict[str, Any]], others: dict[str, object]) -> None:
    assert reward_model_first(settings(rows, **others)) is None


@pytest.mark.parametrize("order", [1, -1])
def test_pairs_beside_answers_are_refused_in_any_order(order: int) -> None:
    rows = [*PAIRS, {"prompt": "1+1=", "answer": 2}][::order]
    with raises("train.mixed_rows", "1 of 13 rows with an answer, and 12 pairs"):
        reward_model_first(settings(rows))


def evaluated(**metrics: float) -> dict[str, Any]:
    return {"kind": "eval", "metrics": metrics}


@pytest.mark.parametrize(("base", "doubted"), [(3.9, True), (2.5, True), (0.0, False), (-4, False)])
def test_scores_of_the_base_s_answers_like_those_of_better_ones_are_doubted(
    base: float, doubted: bool
) -> None:
    model = [evaluated(loss=0.7), evaluated(chosen_reward=4.0, rejected_reward=-4.0)]
    run = [{"kind": "plan"}, evaluated(reward=base), evaluated(reward=9.0)]
    assert (doubt_of_scores(model, run) is not None) == doubted
    assert doubt_of_scores([], run) is None
    assert doubt_of_scores(model, []) is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:before training")  # one step teaches a reward model little
def test_the_second_run_is_scored_by_the_result_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    done = run_training(settings(PAIRS, max_steps=1))
    second, first = (open_run(row.id) for row in list_runs())  # newest first
    stored = json.loads((second.folder / "env.json").read_text())["settings"]
    assert done.run == second.id
    assert stored["reward"] == str(first.result)
    assert "best_reward" in done.metrics
