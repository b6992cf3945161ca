"""A model that learns from texts learns where they end."""

from pathlib import Path

import numpy as np
import pytest

from zoo.backends.base import LoadSpec
from zoo.gym import TrainConfig, run_training
from zoo.gym.data import load_tokenizer
from zoo.gym.data.tokenizer import tokenise
from zoo.gym.engine import engine_for
from zoo.models import PICO, resolve

SAYS = ("The fox is red.", "The owl is grey.", "The bear is brown.", "The hare is white.")


def end_probability(base: Path, adapter: Path) -> float:
    """Returns the mean probability of the end-of-text token after the texts."""
    tokenizer = load_tokenizer(base)
    policy = engine_for(base, adapter).load(base, LoadSpec(adapter=adapter))
    found: list[float] = []
    for text in SAYS:
        logits = policy.logits(tokenise(tokenizer, text).ids)[-1].astype(np.float64)
        found.append(float(np.exp(logits[tokenizer.eos_token_id] - np.logaddexp.reduce(logits))))
    return float(np.mean(found))


@pytest.mark.slow
@pytest.mark.parametrize(("append_eos", "ends"), [(True, True), (False, False)])
def test_texts_end_as_the_key_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, append_eos: bool, ends: bool
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    base = resolve(PICO, offline=True).folder
    rows = [{"text": text} for text in SAYS * 10]
    result = run_training(
        TrainConfig(
            model_name_or_path=PICO,
            dataset=rows,
            max_steps=40,
            learning_rate=3e-3,
            val_size=0,
            append_eos=append_eos,
        )
    )
    probability = end_probability(base, result.model)
    print(f"append_eos={append_eos}: P(end) {probability:.3f}")
    assert (probability > 0.5) is ends
