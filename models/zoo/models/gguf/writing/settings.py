"""The settings of a transformers config as keys of a GGUF file.

llama.cpp has one fixed way to compute each architecture. A config that says otherwise has no key,
so it is refused here: the file would load, and answer something else.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from zoo.core.errors import InputError
from zoo.models.gguf.rope import HIGH, LOW, POSITIONS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Config: TypeAlias = Any
"""A config of transformers."""

_SILU = ("silu", "swish")
_GELU = ("gelu_pytorch_tanh",)


@dataclass(frozen=True)
class Family:
    """How models of one `model_type` are written.

    Attributes:
        architecture: `general.architecture`, also the name of gguf's table of tensors.
        permutes: whether the rows of queries and keys are interleaved: llama.cpp rotates pairs of
            neighbours there, transformers the first half with the second.
        adds_one: whether norms multiply by 1 + weight in transformers; the file has the sum.
        allowed: settings that must have one of these values, as llama.cpp computes nothing else.
        further: returns the keys beside those of all architectures, without the prefix.
    """

    architecture: str
    permutes: bool = False
    adds_one: bool = False
    allowed: Mapping[str, tuple[object, ...]] | None = None
    further: Callable[[Config], dict[str, Any]] = lambda _: {}


def _experts(config: Config) -> dict[str, Any]:
    return {
        "expert_count": config.num_local_experts,
        "expert_used_count": config.num_experts_per_tok,
    }


def _small_experts(config: Config) -> dict[str, Any]:
    return {
        "expert_count": config.num_experts,
        "expert_used_count": config.num_experts_per_tok,
        "expert_feed_forward_length": config.moe_intermediate_size,
    }


def _soft_caps(config: Config) -> dict[str, Any]:
    for name in ("attn_logit_softcapping", "final_logit_softcapping", "sliding_window"):
        if getattr(config, name) is None:  # llama.cpp would take Gemma's own
            raise InputError(
                f"config: {name}: expected a number, got none", code="models.bad_config"
            )
    return {
        "attn_logit_softcapping": config.attn_logit_softcapping,
        "final_logit_softcapping": config.final_logit_softcapping,
        "attention.sliding_window": config.sliding_window,
    }


def _window(config: Config) -> dict[str, Any]:
    if config.sliding_window is None:
        raise InputError(
            "config: sliding_window: expected a number of tokens, got none",
            code="models.bad_config",
        )
    return {"attention.sliding_window": config.sliding_window}


def _phi_window(config: Config) -> dict[str, Any]:
    # the key is required; one as long as the context changes nothing
    return {"attention.sliding_window": config.sliding_window or config.max_position_embeddings}


FAMILIES: dict[str, Family] = {
    "gemma2": Family(
        "gemma2", adds_one=True, allowed={"hidden_activation": _GELU}, further=_soft_caps
    ),
    "gemma3_text": Family(
        "gemma3",
        adds_one=True,
        allowed={
            "hidden_activation": _GELU,
            "attn_logit_softcapping": (None,),
            "final_logit_softcapping": (None,),
            "use_bidirectional_attention": (None, False),
        },
        further=_window,
    ),
    "llama": Family("llama", permutes=True, allowed={"hidden_act": _SILU}),
    "mistral": Family("llama", permutes=True, allowed={"hidden_act": _SILU}),
    "mixtral": Family("llama", permutes=True, allowed={"hidden_act": _SILU}, further=_experts),
    "phi3": Family("phi3", allowed={"hidden_act": _SILU}, further=_phi_window),
    "qwen2": Family("qwen2", allowed={"hidden_act": _SILU}),
    "qwen3": Family("qwen3", allowed={"hidden_act": _SILU}),
    "qwen3_moe": Family(
        "qwen3moe",
        allowed={
            "hidden_act": _SILU,
            "norm_topk_prob": (True,),
            "decoder_sparse_step": (1,),
            "mlp_only_layers": ([], None),
        },
        further=_small_experts,
    ),
}
"""Families by `model_type`."""


def family_of(config: Config) -> Family:
    """Returns how a model is written.

    Raises:
        InputError: its family has no table here, or one of its settings no key in the file.
    """
    kind = str(config.model_type)
    if kind not in FAMILIES:
        raise InputError(
            f"model type {kind!r}: expected one that can be written as GGUF: "
            f"{', '.join(sorted(FAMILIES))}",
            hint="--format hf writes a folder that transformers loads",
            code="models.not_for_gguf",
        )
    family = FAMILIES[kind]
    for name, values in (family.allowed or {}).items():
        if (value := getattr(config, name, None)) not in values:
            accepted = " or ".join(map(repr, values))
            raise InputError(
                f"config: {name}: expected {accepted}, which is what llama.cpp computes for "
                f"{family.architecture}, got {value!r}",
                code="models.not_for_gguf",
            )
    return family


def settings_of(config: Config, family: Family) -> dict[str, Any]:
    """Returns the keys of the architecture.

    Raises:
        InputError: a setting has no key.
    """
    head_dim = head_width(config)
    heads = config.num_attention_heads
    values: dict[str, Any] = {
        "block_count": config.num_hidden_layers,
        "context_length": _positions(config, family),
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": heads,
        "attention.head_count_kv": getattr(config, "num_key_value_heads", None) or heads,
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "vocab_size": config.vocab_size,
    }
    values |= family.further(config) | _rope(config, family, head_dim)
    values = {name: value for name, value in values.items() if value is not None}
    _check_numbers(values)
    _check_gemma(config, family, head_dim)
    return {f"{family.architecture}.{name}": value for name, value in values.items()}


def _check_numbers(values: Mapping[str, Any]) -> None:
    """Refuses numbers with which llama.cpp would end the process, or that it cannot store.

    Raises:
        InputError: there is one.
    """
    for name, value in values.items():
        if isinstance(value, float) and not 0 < value < math.inf:
            raise InputError(
                f"config: {name}: expected a number above 0, got {value!r}",
                code="models.bad_config",
            )
        if isinstance(value, int) and not isinstance(value, bool) and not 0 < value < 1 << 31:
            raise InputError(
                f"config: {name}: expected a whole number above 0, got {value!r}",
                code="models.bad_config",
            )


def head_width(config: Config) -> int:
    """Returns the width of a head."""
    stated: int | None = getattr(config, "head_dim", None)
    return stated or config.hidden_size // config.num_attention_heads


def rope_factors(config: Config) -> "NDArray[np.float32] | None":
    """Returns the divisors of Llama 3's rotary frequencies, or None if they are not scaled so.

    As `transformers.modeling_rope_utils` computes them; a GGUF file has no rule, but the factors.
    """
    import numpy as np

    rope = _parameters(config)
    if rope.get("rope_type") != "llama3":
        return None
    width, theta = head_width(config), float(rope["rope_theta"])
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    positions = float(rope["original_max_position_embeddings"])
    if (low, high, positions) != (LOW, HIGH, POSITIONS):
        raise InputError(
            f"config: rope_parameters: expected Llama 3's {LOW:g}, {HIGH:g} and {POSITIONS}, got "
            f"{low:g}, {high:g} and {positions:g}",
            code="models.not_for_gguf",
        )
    lengths = 2 * math.pi * theta ** (np.arange(0, width, 2) / width)
    share = np.clip((positions / lengths - low) / (high - low), 0, 1)
    return (1 / ((1 - share) / float(rope["factor"]) + share)).astype(np.float32)


def _positions(config: Config, family: Family) -> int:
    """Returns the context, cut to a window that llama.cpp would not slide."""
    positions: int = config.max_position_embeddings
    if family.architecture in {"gemma2", "gemma3"}:  # the others' windows do not slide there
        return positions
    window: int | None = getattr(config, "sliding_window", None)
    layers = getattr(config, "layer_types", None)
    if layers is not None and "sliding_attention" not in layers:
        window = None
    if window is not None and getattr(config, "use_sliding_window", True):
        return min(positions, window)
    return positions


def _parameters(config: Config) -> Mapping[str, Any]:
    """Returns the settings of the rotary embedding, of layers with full attention."""
    parameters: Mapping[str, Any] = getattr(config, "rope_parameters", None) or {}
    full: Mapping[str, Any] = parameters.get("full_attention", parameters)
    return full


def _rope(config: Config, family: Family, head_dim: int) -> dict[str, Any]:
    rope = _parameters(config)
    kind = rope.get("rope_type", "default")
    share = float(rope.get("partial_rotary_factor", 1.0))
    values: dict[str, Any] = {"rope.freq_base": float(rope.get("rope_theta", 10_000.0))}
    if family.architecture in {"llama", "phi3"}:
        values["rope.dimension_count"] = round(head_dim * share)
    elif share != 1:
        raise InputError(
            f"config: partial_rotary_factor: expected 1, got {share:g}", code="models.not_for_gguf"
        )
    _check_local_rope(config, family)
    if kind == "linear":
        scaling = {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
        return values | scaling
    if kind not in {"default", "llama3"} or (kind == "llama3" and family.architecture != "llama"):
        raise InputError(
            f"config: rope_type: expected default, linear or Llama's llama3, got {kind!r}, which "
            "llama.cpp computes in another way",
            code="models.not_for_gguf",
        )
    return values


def _check_local_rope(config: Config, family: Family) -> None:
    """Refuses rotary embeddings of sliding layers that are not as llama.cpp has them."""
    nested: Mapping[str, Any] = getattr(config, "rope_parameters", None) or {}
    local: Mapping[str, Any] | None = nested.get("sliding_attention")
    if family.architecture == "gemma3" and local is not None:
        found = local.get("rope_type", "default"), float(local.get("rope_theta", 10_000.0))
        if found != ("default", 10_000.0):
            raise InputError(
                f"config: rope_parameters: expected 10000 for sliding layers, got {found[1]:g}",
                code="models.not_for_gguf",
            )


def _check_gemma(config: Config, family: Family, head_dim: int) -> None:
    """Refuses a scale of attention, or a pattern of layers, that llama.cpp does not derive."""
    if family.architecture not in {"gemma2", "gemma3"}:
        return
    largest = config.num_hidden_layers == (46 if family.architecture == "gemma2" else 62)
    scalar = config.hidden_size // config.num_attention_heads if largest else head_dim
    if config.query_pre_attn_scalar != scalar:
        raise InputError(
            f"config: query_pre_attn_scalar: expected {scalar}, got {config.query_pre_attn_scalar}",
            code="models.not_for_gguf",
        )
    period = 2 if family.architecture == "gemma2" else 6
    expected = [
        "sliding_attention" if (layer + 1) % period else "full_attention"
        for layer in range(config.num_hidden_layers)
    ]
    if list(config.layer_types) != expected:
        raise InputError(
            f"config: layer_types: expected full attention in each layer number {period}, got "
            "another pattern",
            code="models.not_for_gguf",
        )
