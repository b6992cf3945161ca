"""Writes a reward model for tests."""

import shutil
from pathlib import Path
from typing import Any

from zoo.models import pico_folder


def write_reward_model(path: Path) -> Path:
    """Writes a reward model with random weights, of zen-pico's shape and with its tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config: Any = AutoConfig.from_pretrained(pico_folder(), num_labels=1)
    kind: Any = AutoModelForSequenceClassification
    torch.manual_seed(0)
    kind.from_config(config).save_pretrained(path)
    for pattern in ("*token*", "chat_template*"):
        for file in pico_folder().glob(pattern):
            shutil.copy(file, path)
    return path
