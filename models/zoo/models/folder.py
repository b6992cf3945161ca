"""What a model folder says of itself, read without loading it."""

import json
import math
from pathlib import Path
from typing import Any

from zoo.core import read_header
from zoo.core.errors import InputError
from zoo.models.checkpoint_files import checkpoint_files

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "generation_config.json",
)
"""The files beside the weights that a model needs in order to read and write text."""


def count_parameters(folder: Path) -> int:
    """Returns the number of weights, tied ones once even where the files repeat the head.

    Raises:
        InputError: the folder holds no readable safetensors model.
    """
    headers = [read_header(file) for file in checkpoint_files(folder)]
    tensors = {name: info for header in headers for name, info in header.tensors.items()}
    if _config(folder).get("tie_word_embeddings"):
        tensors.pop("lm_head.weight", None)
    return sum(math.prod(info.shape) for info in tensors.values())


def model_positions(folder: Path) -> int | None:
    """Returns the longest row that the model was made for, in tokens, if its config says so."""
    positions = _config(folder).get("max_position_embeddings")
    return positions if isinstance(positions, int) and positions > 0 else None


def _config(folder: Path) -> dict[str, Any]:
    """Returns the configuration of the text model; raises InputError where there is none."""
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"no model in '{folder}': expected a 'config.json'") from error
    except (ValueError, RecursionError) as error:
        msg = f"'{file}' is no configuration: expected JSON, got {type(error).__name__}: {error}"
        raise InputError(msg) from error
    if not isinstance(config, dict):
        raise InputError(f"'{file}' is no configuration: expected an object")
    text_config = config.get("text_config")
    return text_config if isinstance(text_config, dict) else config
