"""The settings in a GGUF file as those of transformers, every one of them used or refused.

transformers' own reader translates most; what it leaves out is in the tables here. Its reader is
given a copy of the header without the vocabulary, which takes seconds to parse and is not needed.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.core.errors import InputError
from zoo.models.gguf.metadata import is_number, shown
from zoo.models.gguf.parts import Source
from zoo.models.gguf.rope import rope_rule
from zoo.models.refusals import refusals

ARCHITECTURES = (
    "gemma2",
    "gemma3",
    "gpt2",
    "llama",
    "mamba",
    "nemotron",
    "phi3",
    "qwen2",
    "qwen2moe",
    "qwen3",
    "qwen3moe",
    "stablelm",
    "starcoder2",
)
"""Values of `general.architecture` whose models give the same logits here as in llama.cpp."""

EMBEDDING = "token_embd.weight"

_NAMES = {"qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe"}
"""Names of transformers' tables that differ from those in the file."""

_ADDED: dict[str, dict[str, str]] = {
    "gemma2": {
        "attn_logit_softcapping": "attn_logit_softcapping",
        "final_logit_softcapping": "final_logit_softcapping",
    },
    "gpt2": {"context_length": "n_positions", "feed_forward_length": "n_inner"},
    "nemotron": {"attention.layer_norm_epsilon": "norm_eps"},
    "phi3": {"attention.sliding_window": "sliding_window"},
    "qwen2moe": {
        "expert_feed_forward_length": "moe_intermediate_size",
        "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    },
    "qwen3": {"attention.key_length": "head_dim"},
    "qwen3moe": {"expert_feed_forward_length": "moe_intermediate_size"},
    "stablelm": {"rope.freq_base": "rope_theta"},
    "starcoder2": {"rope.freq_base": "rope_theta"},
}
"""Settings that transformers' reader does not translate: the key and the name in the config."""

_PARTIAL_ROTARY = frozenset({"nemotron", "phi3", "stablelm"})
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (0, 1),
    "rope.scaling.original_context_length": (0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "tensor_data_layout": ("", "Meta AI original pth"),
    "ssm.dt_b_c_rms": (False,),
    "ssm.group_count": (0,),
}
"""Settings that change nothing with one of these values, and are refused with another."""

_COUNTS = (
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "context_length",
    "expert_count",
)
_REQUIRED = ("embedding_length", "context_length")
_MAY_BE_0 = frozenset({"expert_count", "feed_forward_length"})
_HEADS = "attention.head_count"
_MOST = 1 << 31


def architecture_of(source: Source) -> str:
    """Returns a file's `general.architecture`.

    Raises:
        InputError: it is none of `ARCHITECTURES`, or the file is an adapter or a projector.
    """
    metadata = source.metadata
    kind = metadata.text("general.type")
    if kind not in {None, "model"}:
        raise metadata.unlike("general.type", "'model'", kind)
    architecture = metadata.text("general.architecture")
    if architecture is None or architecture not in ARCHITECTURES:
        raise InputError(
            f"'{source.path}': general.architecture: expected one of "
            f"{', '.join(ARCHITECTURES)}, got {shown(architecture)}",
            hint="models of other architectures can be loaded from their safetensors: org/name",
            code="models.gguf_architecture",
        )
    return architecture


_EPSILONS = ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon")
"""A file has that of its architecture; models without one would get a default of transformers."""


def check_settings(source: Source) -> None:
    """Refuses an architecture that is not supported, and settings that no model has.

    Raises:
        InputError: a setting is missing, of the wrong type or impossible.
    """
    architecture = architecture_of(source)
    _check_counts(source, architecture)
    for key in sorted(_used(architecture)):
        source.metadata.number(f"{architecture}.{key}")
    _check_numbers(source, architecture)


def read_settings(source: Source, scratch: Path) -> Any:  # noqa: ANN401
    """Returns the transformers config of a file.

    Args:
        source: the open file; its settings were checked.
        scratch: a folder for a copy of the header.

    Raises:
        InputError: a setting cannot be used, or would be ignored.
    """
    from transformers import AutoConfig

    architecture = architecture_of(source)
    values = _translated(source, scratch, architecture)
    settings = _settings(source, architecture)
    for key, name in _ADDED.get(architecture, {}).items():
        if key in settings:
            values[name] = settings[key]
    for unused in ("_model_name_or_path", "feed_forward_length"):
        values.pop(unused, None)
    values = {name: _shortest(value) for name, value in values.items()}
    if "vocab_size" not in settings:
        values["vocab_size"] = source.tensors[EMBEDDING][1].shape[0]
    _complete(values, settings, architecture)
    theta, head_dim = values.get("rope_theta", 10_000.0), _head_dim(values, settings)
    if architecture == "llama" and head_dim and (rule := rope_rule(source, theta, head_dim)):
        values["rope_parameters"] = rule
    kind = values.pop("model_type")
    with refusals(f"'{source.path}': these settings cannot be used"):
        config = AutoConfig.for_model(kind, **values)
    _refuse_ignored(source, settings, architecture, config)
    return config


def _check_counts(source: Source, architecture: str) -> None:
    """Refuses sizes that are not positive, and sizes that differ from the tensors'."""
    settings = _settings(source, architecture)
    has_heads = architecture != "mamba"
    for key in _COUNTS:
        value = settings.get(key)
        low = 0 if key in _MAY_BE_0 or (key == _HEADS and not has_heads) else 1
        absent = value is None and key not in _REQUIRED and (key != _HEADS or not has_heads)
        if not absent and not (type(value) is int and low <= value < _MOST):
            raise source.metadata.unlike(
                f"{architecture}.{key}", f"a whole number from {low}", value
            )
    blocks = {name.split(".")[1] for name in source.tensors if name.startswith("blk.")}
    if settings.get("block_count") != len(blocks):
        expected = f"{len(blocks)}, as many as there are tensors of"
        raise source.metadata.unlike(
            f"{architecture}.block_count", expected, settings.get("block_count")
        )
    if EMBEDDING not in source.tensors or len(source.tensors[EMBEDDING][1].shape) != 2:
        raise InputError(
            f"'{source.path}': expected a matrix '{EMBEDDING}', got none",
            code="models.gguf_missing_tensor",
        )
    rows = source.tensors[EMBEDDING][1].shape[0]
    size = source.metadata.integer(f"{architecture}.vocab_size")
    if size not in {None, rows}:
        expected = f"{rows:,}, as many as rows of the embedding"
        raise source.metadata.unlike(f"{architecture}.vocab_size", expected, size)
    _check_divisible(source, settings, architecture)


def _check_numbers(source: Source, architecture: str) -> None:
    """Refuses numbers with which all logits would be NaN, and a missing epsilon."""
    settings = _settings(source, architecture)
    for key, value in settings.items():
        if not is_number(value):
            continue
        expected = None
        if key in _EPSILONS and not value >= 0:  # nor is NaN
            expected = "a number from 0"
        elif key == "rope.freq_base" and not value >= 1:  # each frequency is at most the one before
            expected = "a number from 1"
        elif not math.isfinite(value):
            expected = "a finite number"
        if expected:
            raise source.metadata.unlike(f"{architecture}.{key}", expected, value)
    if not any(key in settings for key in _EPSILONS):
        raise source.metadata.unlike(f"{architecture}.{_EPSILONS[0]}", "a number", None)


def _check_divisible(source: Source, settings: Mapping[str, Any], architecture: str) -> None:
    heads = settings.get("attention.head_count")
    if not heads:
        return
    kv_heads = settings.get("attention.head_count_kv", heads)
    if heads % kv_heads:
        raise source.metadata.unlike(
            f"{architecture}.attention.head_count_kv", f"a divisor of {heads} heads", kv_heads
        )


def _translated(source: Source, scratch: Path, architecture: str) -> dict[str, Any]:
    """Returns the config according to transformers' reader."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    copy = scratch / "header.gguf"
    _write_header(source, copy, architecture)
    with refusals(f"'{source.path}': these settings cannot be read"):
        content: Any = load_gguf_checkpoint(str(copy))  # type: ignore[no-untyped-call]
    values: dict[str, Any] = content["config"]
    copy.unlink()
    return values


def _write_header(source: Source, copy: Path, architecture: str) -> None:
    """Writes a GGUF file with the plain settings and the names of the tensors alone."""
    import numpy as np
    from gguf import GGUFValueType, GGUFWriter

    types = {bool: GGUFValueType.BOOL, int: GGUFValueType.INT64, float: GGUFValueType.FLOAT64}
    writer = GGUFWriter(copy, architecture)
    for key, value in source.metadata.values.items():
        is_kept = key.startswith((f"{architecture}.", "tokenizer.ggml."))
        if is_kept and _is_plain(value):
            writer.add_key_value(key, value, types[type(value)])
    writer.add_array("tokenizer.ggml.tokens", ["", ""])  # only their number would be used
    for name in source.tensors:
        writer.add_tensor(name, np.zeros(1, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _is_plain(value: object) -> bool:
    """Returns whether a value goes into the copy of the header."""
    return isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 63)


def _settings(source: Source, architecture: str) -> dict[str, Any]:
    start = f"{architecture}."
    pairs = source.metadata.values.items()
    return {key.removeprefix(start): value for key, value in pairs if key.startswith(start)}


def _complete(values: dict[str, Any], settings: Mapping[str, Any], architecture: str) -> None:
    """Adds what llama.cpp computes from other settings."""
    head_dim = _head_dim(values, settings)
    if head_dim is None:
        return
    heads, width = settings["attention.head_count"], settings["embedding_length"]
    if architecture in {"gemma2", "gemma3"}:  # the 27B models scale by the width of the residual
        largest = settings["block_count"] == (46 if architecture == "gemma2" else 62)
        values["query_pre_attn_scalar"] = width // heads if largest else head_dim
    rotated = settings.get("rope.dimension_count")
    if architecture in _PARTIAL_ROTARY and rotated is not None:
        values["partial_rotary_factor"] = rotated / head_dim


def _head_dim(values: Mapping[str, Any], settings: Mapping[str, Any]) -> int | None:
    """Returns the width of a head, or None for a model without heads."""
    heads = settings.get("attention.head_count")
    width: int = settings["embedding_length"]
    return values.get("head_dim") or width // heads if heads else None


def _refuse_ignored(
    source: Source,
    settings: Mapping[str, Any],
    architecture: str,
    config: Any,  # noqa: ANN401
) -> None:
    """Refuses a setting that the config does not have."""
    used = _used(architecture)
    expected = _NEUTRAL | _implied(architecture, config)
    for key, value in settings.items():
        if key in used:
            continue
        name = f"{architecture}.{key}"
        if key not in expected:
            raise InputError(
                f"'{source.path}': {name}: this setting is not supported, got {shown(value)}",
                code="models.gguf_not_supported",
            )
        if not any(_is_same(value, each) for each in expected[key]):
            accepted = " or ".join(map(repr, expected[key]))
            raise source.metadata.unlike(name, accepted, value)


def _used(architecture: str) -> frozenset[str]:
    """Returns the settings that the config gets, which are all numbers."""
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

    tables: Mapping[str, Any] = GGUF_CONFIG_MAPPING
    table: Mapping[str, str | None] = tables[_NAMES.get(architecture, architecture)]
    translated = {key for key, name in table.items() if name is not None}
    return frozenset(translated | _ADDED.get(architecture, {}).keys())


def _is_same(value: object, other: object) -> bool:
    """Returns whether two values are equal, where true is not 1, nor false 0."""
    is_same_kind = type(value) is type(other) or (is_number(value) and is_number(other))
    return is_same_kind and value == other


def _implied(architecture: str, config: Any) -> dict[str, tuple[Any, ...]]:  # noqa: ANN401
    """Returns the values that settings must have beside the config."""
    heads = getattr(config, "num_attention_heads", None)
    if not heads:
        return {}
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    implied: dict[str, tuple[Any, ...]] = {
        "attention.key_length": (head_dim,),
        "attention.value_length": (head_dim,),
        "rope.dimension_count": (head_dim,),
    }
    if architecture in _PARTIAL_ROTARY:
        rope: Any = config.rope_parameters or {}
        share = rope.get("partial_rotary_factor", 1)
        implied["rope.dimension_count"] = (round(head_dim * share),)
        implied["rope.scaling.original_context_length"] = (config.max_position_embeddings,)
    if architecture == "stablelm":
        implied["use_parallel_residual"] = (bool(config.use_parallel_residual),)
    return implied


def _shortest(value: Any) -> Any:  # noqa: ANN401
    """Returns a number of 32 bits as it was written: 1e-05 for 9.999999747378752e-06."""
    import numpy as np

    if (
        not isinstance(value, float)
        or not math.isfinite(value)
        or float(np.float32(value)) != value
    ):
        return value
    return float(str(np.float32(value)))
