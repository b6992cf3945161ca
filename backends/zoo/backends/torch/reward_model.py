"""Loads and runs a reward model: a sequence classification model with one label."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zoo.backends.base import RewardModel
from zoo.backends.torch.load import NOWHERE, check_weights, read_config_of
from zoo.backends.torch.quiet import quiet
from zoo.core.errors import InputError
from zoo.models import checkpoint_files
from zoo.models.refusals import refusals


class TorchRewardModel(RewardModel):
    """A reward model on one device; rows are scored one by one, so that padding plays no part."""

    def __init__(self, model: nn.Module) -> None:
        self._model: Any = model

    def score(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """Returns the score of each row of token ids."""
        return [self._score(row) for row in rows]

    @torch.inference_mode()
    def _score(self, row: Sequence[int]) -> float:
        ids = torch.tensor([list(row)], device=self._model.device)
        logits = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        return float(logits.float().flatten()[0])


def load_reward_model(folder: Path, device: str) -> TorchRewardModel:
    """Loads a reward model for inference.

    On a CPU its weights are float32, elsewhere as stored.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: it is no sequence classification model with one label, or lacks weights.
    """
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as KNOWN
    from transformers import AutoModelForSequenceClassification

    config = read_config_of(folder)
    names = getattr(config, "architectures", None) or ["no architecture"]
    if type(config) not in KNOWN or not str(names[0]).endswith("ForSequenceClassification"):
        raise InputError(
            f"{folder / 'config.json'}: architectures: expected a model for sequence "
            f"classification, got {names[0]}",
        )
    if config.num_labels != 1:
        raise InputError(
            f"{folder / 'config.json'}: num_labels: expected a reward model with 1 label, got "
            f"{config.num_labels}"
        )
    checkpoint_files(folder)
    with refusals(f"{folder}: this reward model cannot be loaded", folder), quiet():
        model, report = AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32 if device == "cpu" else "auto",
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            adapter_kwargs={"subfolder": NOWHERE},
        )
    check_weights(folder, model, report)
    return TorchRewardModel(model.to(device).eval().requires_grad_(requires_grad=False))
