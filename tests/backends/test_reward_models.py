"""A language model that becomes a reward model: written, read back, and scored by transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.backends.families import write_family
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Stat

LORA = LoraSpec(rank=4, alpha=8.0)
SCORING = LoadSpec(train=LORA, dtype="f32", value_head=True, reward_model=True)
IDS = [5, 3, 8, 2, 9, 11]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
@pytest.mark.parametrize("family", ["gpt2", "mixtral", "qwen3"])
def test_the_written_model_has_the_scores_of_the_trained_one(
    family: str, tied: Path, tmp_path: Path
) -> None:
    folder = tied if family == "qwen3" else write_family(tmp_path / "base", family)
    engine = load_backend("cpu")
    policy = engine.load(folder, SCORING)
    torch.manual_seed(0)
    trained = dict(policy.trained())
    policy.load_trained(
        {
            name: 0.1 * np.random.default_rng(1).standard_normal(value.shape).astype(np.float32)
            for name, value in trained.items()
        }
    )
    # the value of the last token is the score of those before it
    ids, mask = np.array([[*IDS, 0]]), np.arange(len(IDS) + 1)[None] == len(IDS)
    batch = Batch(ids, np.array([len(IDS) + 1]), mask)
    score = policy.score(batch, frozenset({Stat.VALUES}))[Stat.VALUES][0, -1]
    terms = policy.logits(IDS)
    assert terms[-1].sum() == pytest.approx(score, rel=1e-4)
    policy.save_result(tmp_path / "result", base="base")
    assert engine.load_reward_model(tmp_path / "result").score([IDS])[0] == pytest.approx(
        score, rel=1e-4
    )
    policy.reopen(tmp_path / "result")
    assert policy.logits(IDS) == pytest.approx(terms, rel=1e-3, abs=1e-4)


def test_a_model_without_a_scoring_counterpart_is_refused(tmp_path: Path) -> None:
    folder = write_family(tmp_path / "mamba", "mamba")
    with raises("torch.cannot_score", "MambaForCausalLM cannot become a reward model"):
        load_backend("cpu").load(folder, SCORING)


def test_a_reward_model_needs_a_value_head() -> None:
    with pytest.raises(ValueError, match="value_head: expected True for a reward model, got False"):
        LoadSpec(reward_model=True)
