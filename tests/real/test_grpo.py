"""A real model learns from rewards to form plurals, also of nouns that it did not train on.

The base ends a third of its answers with the right plural. Prints the figures.

Legend: N prompts, G answers of each.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.real.intervals import interval, line
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, Sampling
from zoo.gym import TrainConfig, rewards, run_training
from zoo.gym.data import Message
from zoo.gym.retention.answer import Asker

NOUNS = """
cat tree river book garden horse pencil school apple letter door lamp king queen bird song stone
cloud road farm doctor teacher lawyer farmer painter writer driver singer player hunter island
forest desert mountain valley ocean planet rocket camera computer table chair carpet mirror curtain
kettle spoon plate bowl bucket tiger rabbit monkey donkey spider eagle parrot turtle camel lizard
"""
HELD_OUT = """
dog car window bottle flower ship boat train plane street finger hand arm leg nose shoe shirt jacket
button pocket banana carrot lemon orange onion pepper cookie egg nut engineer student artist soldier
sailor hammer ladder ticket number color
"""

REWARD = {"kind": "regex", "pattern": r"\b(\w+)\W*$"}
"""The last word of an answer is compared with the plural."""

ANSWERS, ANSWER_TOKENS = 4, 12


def question(noun: str) -> str:
    return f"What is the plural of {noun}?"


def mean_rewards(folder: Path, adapter: Path | None) -> NDArray[np.float64]:
    """Returns the mean reward of the sampled answers to each held-out prompt."""
    policy = load_backend("cpu").load(folder, LoadSpec(adapter=adapter, dtype="f32"))
    asker = Asker(policy, folder)
    nouns = [noun for noun in HELD_OUT.split() for _ in range(ANSWERS)]
    sampling = Sampling(ANSWER_TOKENS, temperature=1.0, stop_ids=asker.stop_ids)
    prompts = [asker.prompt(question(noun)) for noun in nouns]
    rollouts = policy.generate(prompts, sampling, keys=range(len(prompts)))
    tasks = [rewards.Task((Message("user", question(noun)),), f"{noun}s") for noun in nouns]
    reward = rewards.load(REWARD, tasks)
    texts = [asker.text(rollout) for rollout in rollouts]
    scores = reward.score(list(map(rewards.Sample, tasks, texts)))
    reward.close()
    values_NG = np.array([score.value for score in scores]).reshape(-1, ANSWERS)
    return np.asarray(values_NG.mean(1), dtype=np.float64)


@pytest.mark.real
@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_rewards_teach_what_unseen_prompts_show(
    smollm2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    base_N = mean_rewards(smollm2_folder, None)
    result = run_training(
        TrainConfig(
            model_name_or_path=smollm2_folder,
            dataset=[{"prompt": question(noun), "answer": f"{noun}s"} for noun in NOUNS.split()],
            stage="grpo",
            reward=REWARD,
            max_completion_length=ANSWER_TOKENS,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=1,
            max_steps=30,
            val_size=0,
            offline=True,
        )
    )
    figures = result.metrics["retention"]
    tuned_N = mean_rewards(smollm2_folder, result.model)
    print(line("base", base_N), line("tuned", tuned_N), line("gain", tuned_N - base_N), figures)
    assert interval(tuned_N - base_N)[0] >= 0.15
    assert figures["kept"] >= 0.85 * figures["right"]
    assert figures["loss_after"] <= 1.03 * figures["loss_before"]
