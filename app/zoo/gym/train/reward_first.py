"""`reward: auto` on pairs: a reward model is trained on them first, by a run of its own.

Of a row with a better and a worse answer, a method with rewards can use the prompt alone; what
scores the model's own answers is then learned from the pairs.
"""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.gym.config import load_values
from zoo.gym.config.rollouts import RolloutConfig
from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.data.reading.dataset import early_records
from zoo.gym.errors import GymError, InputError
from zoo.gym.rewards.auto import has_choice
from zoo.gym.train.rollouts import task_of_record
from zoo.gym.train.run_folder.pinned import dataset_files, layout_of

SHARED = (
    *("model_name_or_path", "dataset", "eval_dataset", "dataset_dir", "columns", "me"),
    *("cutoff_len", "max_samples", "val_size", "think", "date", "split_special_tokens", "seed"),
    *("backend", "dtype", "quantization_bit", "quantization_method", "quantization_type"),
    *("mix_strategy", "interleave_probs", "num_processes", "sharding", "offline", "template"),
    *("rope_scaling", "gradient_checkpointing", "activation_offloading", "stream_layers"),
    *("flash_attn", "enable_liger_kernel"),
)
"""Settings of the run that are those of its reward model, too: data, model and machine."""

SIDES = ("chosen_reward", "rejected_reward")
FAR = 0.25
"""Of the distance between worse and better answers: the base's that score higher are doubted."""

PHASES = "reward: auto: 1. a reward model learns from the pairs, 2. it scores answers"


def reward_model_first(config: TrainConfig) -> TrainConfig | None:
    """Returns the settings of the reward model that a run needs first; None if it needs none.

    It needs one if `reward` is auto, the rows have a better and a worse answer, and no reward fits
    them otherwise.

    Raises:
        InputError: that is so for some of the rows alone.
    """
    if not isinstance(config, RolloutConfig) or config.reward != "auto":
        return None
    with tempfile.TemporaryDirectory() as folder:
        if config.rows:
            file = Path(folder) / "rows.jsonl"
            lines = (json.dumps(row, default=str) + "\n" for row in config.rows)
            file.write_text("".join(lines), encoding="utf-8")
            files: Sequence[Path] = [file]
        else:
            files = dataset_files(config).train
        if not _needs_model(files, config):
            return None
    values = {key: getattr(config, key) for key in SHARED if key in config.given}
    rows = {"dataset": config.rows} if config.rows else {}
    return load_values({**values, **rows, "stage": "rm"}).config


def scored_by(config: TrainConfig, model: Path) -> TrainConfig:
    """Returns the settings with a reward model."""
    return config.model_copy(update={"reward": str(model)})


def doubt_of_scores(
    model_events: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]
) -> str | None:
    """Returns a warning if a reward model hardly tells the base's answers from better ones.

    A reward model has learned nothing of text that is like neither answer of its pairs, such as
    that of a model that cannot converse, and may score it highest.

    Args:
        model_events: those of the reward model's run; its last held-out scores count.
        events: those of the run whose answers it scores.
    """
    scores = [each["metrics"] for each in model_events if each["kind"] == "eval"]
    first: dict[str, Any] = next((e["metrics"] for e in events if e["kind"] == "eval"), {})
    if not scores:
        return None
    base, better, worse = (
        metrics.get(key)
        for metrics, key in ((first, "reward"), *((scores[-1], key) for key in SIDES))
    )
    if base is None or better is None or worse is None:
        return None
    if base < better - FAR * (better - worse):
        return None
    return (
        f"before training, the model's own answers scored {base:.2f}, the pairs' better ones "
        f"{better:.2f} and the worse ones {worse:.2f}: the reward model hardly tells them from "
        "better ones, so read what the model answers now"
    )


def _needs_model(files: Sequence[Path], config: TrainConfig) -> bool:
    """Returns whether the rows are pairs without anything else that a response is compared with.

    Raises:
        InputError: some are, and others are not.
    """
    layout = layout_of(config)
    try:
        pairs, prompts = (
            list(early_records(files, load_method(stage).reads, layout))[: config.max_samples]
            for stage in ("rm", config.stage)
        )
    except GymError:
        return False  # refused where the rows of the run are read
    fits = [has_choice(task_of_record(record)) for record in prompts]
    if not pairs or all(fits):
        return False
    if any(fits) or len(pairs) < len(prompts):
        raise InputError(
            f"reward: auto: expected pairs alone or prompts with answers alone, got "
            f"{sum(fits):,} of {len(prompts):,} rows with an answer, and {len(pairs):,} pairs",
            hint="train with one of them, or choose the reward",
            code="train.mixed_rows",
        )
    return True
