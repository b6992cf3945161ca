"""Reads what a model folder says about itself, without loading the model."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.core.errors import InputError
from zoo.models.checkpoint_files import INDEX_FILE, LFS_START, SINGLE_FILE
from zoo.models.registry import Geometry
from zoo.models.stored_weights import stored_weights
from zoo.models.tied_head import HEAD

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
"""The files other than weights that a model needs to read and write text."""


POSITION_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx")
"""Config keys of the longest supported input, by architecture."""

SMALL_PARAMETERS = 100_000_000
"""Models below this are small: held in float32, trained without checkpointing, measured on more."""


IN_BY_OUT = frozenset({"gpt2", "openai-gpt"})
"""The `model_type`s of causal models whose linear layers are stored as [in, out]."""


def stores_in_by_out(config: Mapping[str, Any]) -> bool:
    """Returns whether a model stores its linear layers, except the head, as [in, out]."""
    return config.get("model_type") in IN_BY_OUT


def count_parameters(folder: Path) -> int:
    """Returns the number of weights, counting tied ones once even if the files repeat the head.

    Codes of mlx-lm or bitsandbytes count as the weights that they stand for.

    Raises:
        InputError: the folder contains no readable safetensors model.
    """
    weights = stored_weights(folder, read_config(folder))
    if _config(folder).get("tie_word_embeddings"):
        weights.pop(HEAD, None)
    return sum(weight.count for weight in weights.values())


def holds_model(folder: Path) -> bool:
    """Returns whether a folder contains a whole model, by the names of its files."""
    weights = any((folder / name).is_file() for name in (SINGLE_FILE, INDEX_FILE))
    return weights and (folder / "config.json").is_file()


def is_reward_model(folder: Path) -> bool:
    """Returns whether a folder's config is that of a sequence classification model."""
    try:
        names = read_config(folder).get("architectures")
    except (InputError, OSError):
        return False
    first = names[0] if isinstance(names, list) and names else ""
    return str(first).endswith("ForSequenceClassification")


def model_positions(folder: Path) -> int | None:
    """Returns the longest supported input in tokens, if it is in the config."""
    config = _config(folder)
    values = (config.get(key) for key in POSITION_KEYS)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def rope_scaling(folder: Path) -> str:
    """Returns how a model's config scales rotary positions, as text; `unscaled` if it does not."""
    config = _config(folder)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    scaling = rope if isinstance(rope, dict) else {}
    kind, factor = scaling.get("rope_type", scaling.get("type", "default")), scaling.get("factor")
    if kind == "default" or not isinstance(factor, int | float):
        return "unscaled"
    return f"{kind} by {factor:g}"


def vocabulary_size(folder: Path) -> int | None:
    """Returns how many tokens the model has embeddings for, if it is in the config."""
    size = _config(folder).get("vocab_size")
    return size if isinstance(size, int) and size > 0 else None


def read_object(file: Path) -> dict[str, Any]:
    """Returns the JSON object in a file of a model folder.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: it is a Git LFS pointer, not JSON, or not an object.
    """
    content = file.read_bytes()
    if content.startswith(LFS_START):
        hint = f"git -C {shlex.quote(str(file.parent))} lfs pull"
        raise InputError(
            f"{file}: expected a JSON object, got a Git LFS pointer",
            hint=hint,
            code="models.lfs_pointer",
        )
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        msg = f"{file}: expected a JSON object, got a damaged file: {error}"
        raise InputError(msg, code="models.bad_json") from error
    if not isinstance(value, dict):
        raise InputError(
            f"{file}: expected a JSON object, got a {type(value).__name__}", code="models.bad_json"
        )
    return value


def model_geometry(folder: Path) -> Geometry | None:
    """Returns the shape according to the config, or None for another kind of model."""
    config = _config(folder)
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    values = [config.get(name) for name in (*names, "vocab_size")]
    if not all(isinstance(value, int) and value > 0 for value in values):
        return None
    hidden, layers, heads, ffn, vocab = (int(value) for value in values if value is not None)
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or hidden // heads
    tied = bool(config.get("tie_word_embeddings"))
    return Geometry(hidden, layers, heads, kv_heads, head_dim, ffn, vocab, tied)


def read_config(folder: Path) -> dict[str, Any]:
    """Returns a model folder's config.json.

    Raises:
        InputError: it is absent or no JSON object.
    """
    try:
        return read_object(folder / "config.json")
    except FileNotFoundError as error:
        raise InputError(
            f"no model in '{folder}': expected a 'config.json'", code="models.no_config"
        ) from error


def _config(folder: Path) -> dict[str, Any]:
    """Returns the configuration of the text model; raises InputError if there is none."""
    config = read_config(folder)
    text_config = config.get("text_config")
    return text_config if isinstance(text_config, dict) else config
