"""Seven speakers of Shakespeare, each with an adapter for smollm2, and what others say."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from zoo.backends.base import LoadSpec
from zoo.gym import TrainConfig, run_training
from zoo.gym.data import load_tokenizer
from zoo.gym.engine import engine_for
from zoo.gym.measure.text import bits_per_byte

SPEAKERS = "data/federated/shakespeare_by_speaker.jsonl"
USERS, UNSEEN = slice(0, 7), slice(7, 13)
"""Of the speakers, those with the longest texts first."""

CHARACTERS_LEARNED, CHARACTERS_READ = 16_000, 1000
SETTINGS: dict[str, Any] = {
    "max_steps": 8,
    "cutoff_len": 128,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "learning_rate": 1e-3,
    "val_size": 0.02,
    "eval_steps": 8,
    "save_steps": 8,
    "retain": 0,
    "retention": False,
    "offline": True,
}
"""Eight steps of 512 tokens, a minute of one core."""


@dataclass(frozen=True)
class Speakers:
    """What seven users have.

    Attributes:
        base: the folder of smollm2.
        adapters: of each user, trained on its own text.
        unseen: the beginnings of texts of speakers that are no users.
        before: bits per byte of the base on these.
        alone: bits per byte of each adapter on these.
    """

    base: Path
    adapters: list[Path]
    unseen: list[str]
    before: float
    alone: list[float]


def measured(base: Path, texts: list[str], folder: Path, adapter: Path | None = None) -> float:
    """Returns the mean bits per byte of texts, read by a model with the base's tokenizer."""
    policy = engine_for(folder, adapter).load(folder, LoadSpec(adapter=adapter))
    tokenizer = load_tokenizer(base)
    return sum(bits_per_byte(policy, tokenizer, text) for text in texts) / len(texts)


def fine_tuned(base: Path, text: str) -> Path:
    rows = [{"text": text[:CHARACTERS_LEARNED]}]
    return run_training(TrainConfig(model_name_or_path=base, dataset=rows, **SETTINGS)).model


@pytest.fixture(scope="module")
def speakers(
    shared: Callable[[str], Path], smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Speakers:
    lines = shared(SPEAKERS).read_text(encoding="utf-8").splitlines()
    by_length = sorted(map(json.loads, lines), key=lambda one: -sum(map(len, one["texts"])))
    texts = ["\n\n".join(one["texts"]) for one in by_length]
    unseen = [text[:CHARACTERS_READ] for text in texts[UNSEEN]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_GYM_HOME", str(tmp_path_factory.mktemp("runs")))
        adapters = [fine_tuned(smollm2_folder, text) for text in texts[USERS]]
    before = measured(smollm2_folder, unseen, smollm2_folder)
    alone = [measured(smollm2_folder, unseen, smollm2_folder, one) for one in adapters]
    return Speakers(smollm2_folder, adapters, unseen, before, alone)
