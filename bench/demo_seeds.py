"""What the demo's 1-bit delta keeps of its fine-tune, for ten seeds of the run.

The recipe is the demo's, and so are the words, their unseen ones and the training of the scales.

usage: python -m bench demo_seeds [--isa avx2]    six minutes of one core
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.isas import kept_as
from bench.measure import Case

if TYPE_CHECKING:
    from zoo.gym.delta import Loadable

SEEDS = range(10)


def result_name() -> str:
    """Returns the name of the result file."""
    return kept_as("demo_seeds")


def run() -> Iterator[Case]:
    """Yields the share of the gain that each seed's delta keeps."""
    from zoo.gym import TrainConfig, run_training
    from zoo.gym.delta import delta_model, load_delta, tuned_model
    from zoo.gym.demo import run as demo
    from zoo.gym.demo.words import make_words
    from zoo.models import pico_folder

    base, words = pico_folder(), make_words(demo.TRAIN_WORDS, demo.UNSEEN_WORDS)
    for seed in SEEDS:
        with tempfile.TemporaryDirectory(prefix="zoo-gym-") as folder:
            os.environ["ZOO_GYM_HOME"] = folder
            data = demo.write_rows(Path(folder) / "rows.jsonl", words.train)
            settings = {**demo.SHARED, **demo.RECIPES["full"], "dataset": str(data), "seed": seed}
            config = TrainConfig.model_validate(settings | {"finetuning_type": "full"})
            result = run_training(config)
            out = Path(folder) / "delta.safetensors"
            delta = load_delta(demo.compress(result, base, out, distills=True).file)
            with tuned_model(result.model, base) as model:
                tuned = _right(model, words.unseen)
            with delta_model(delta, base) as model:
                share = _right(model, words.unseen) / tuned  # the base has none right
        yield Case(f"seed {seed}", tuned, "right", "the fine-tune", share, ">= 0.95")


def _right(model: "Loadable", words: Sequence[str]) -> float:
    """Returns the share of words that a model spells backward."""
    from zoo.backends import load_backend
    from zoo.gym.demo.run import ask
    from zoo.gym.demo.words import accuracy

    return accuracy(words, ask(load_backend("cpu").load(model.folder), model.folder, words))
