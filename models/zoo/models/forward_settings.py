"""The settings in a model's config that decide what it computes from its weights.

Architecture, sizes, heads, rotary positions, epsilon of the norms, tied head, activation, sliding
window, multipliers and caps of attention and logits, routing of experts. In one spelling for all
families and for transformers 4 and 5, with the defaults that transformers writes out when it saves
a config again. Types, versions, names and token ids are left out.
"""

from collections.abc import Mapping
from typing import Any

_SPELLINGS = {
    "hidden_size": ("hidden_size", "n_embd"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer"),
    "num_attention_heads": ("num_attention_heads", "n_head"),
    "num_key_value_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "intermediate_size": ("intermediate_size", "n_inner"),
    "vocab_size": ("vocab_size",),
    "norm_eps": ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"),
    "hidden_act": ("hidden_activation", "hidden_act", "activation_function"),
    "sliding_window": ("sliding_window",),
    "tie_word_embeddings": ("tie_word_embeddings",),
    "model_type": ("model_type",),
}
_ROPE = "rope_parameters"

_OF_FAMILIES = (
    *("num_experts_per_tok", "norm_topk_prob", "logits_scaling", "residual_multiplier"),
    *("embedding_multiplier", "attention_multiplier", "attn_logit_softcapping"),
    *("final_logit_softcapping", "query_pre_attn_scalar", "layer_types", "no_rope_layers"),
    *("clip_qkv", "alibi"),
)
"""Settings with defaults that only the classes of their families know."""

_DEFAULT_THETA = 10_000.0


def forward_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a config states or implies, by name.

    Those of rotary positions are `rope_parameters.` and a name of transformers 5, with the type of
    layer between them where types differ.

    Args:
        config: the content of config.json.

    >>> forward_settings({"n_embd": 8, "rope_scaling": {"type": "linear", "factor": 2.0}})
    ... # doctest: +NORMALIZE_WHITESPACE
    {'hidden_size': 8, 'rope_parameters.factor': 2.0, 'rope_parameters.partial_rotary_factor': 1.0,
     'rope_parameters.rope_theta': 10000.0, 'rope_parameters.rope_type': 'linear'}
    """
    text = config.get("text_config")
    flat = _stated(config) | (_stated(text) if isinstance(text, dict) else {})
    settings = {name: _first(flat, keys) for name, keys in _SPELLINGS.items()}
    settings |= {name: flat.get(name) for name in _OF_FAMILIES}
    heads, hidden = settings["num_attention_heads"], settings["hidden_size"]
    if settings["num_key_value_heads"] is None:
        settings["num_key_value_heads"] = heads
    if (
        settings["head_dim"] is None
        and isinstance(heads, int)
        and isinstance(hidden, int)
        and heads
    ):
        settings["head_dim"] = hidden // heads
    if flat.get("use_sliding_window") is False:
        settings["sliding_window"] = None
    return _stated(settings) | _rope(flat)


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Returns the names of settings that are not the same.

    Those with defaults of a family differ only if both configs state them: transformers writes the
    default out when it saves a config again.

    >>> differing({"alibi": True, "hidden_size": 8}, {"hidden_size": 9})
    ['hidden_size']
    """
    names = sorted(first.keys() | second.keys())
    unstated = {name for name in _OF_FAMILIES if not (name in first and name in second)}
    return [name for name in names if first.get(name) != second.get(name) and name not in unstated]


def _rope(flat: Mapping[str, Any]) -> dict[str, Any]:
    stated = flat.get(_ROPE) or flat.get("rope_scaling")
    stated = stated if isinstance(stated, dict) else {}
    theta = _first(flat, ("rope_theta", "rotary_emb_base"))
    layers: dict[str, tuple[Any, Any]] = {"": (stated, theta)}
    if local := flat.get("rope_local_base_freq"):  # Gemma 3 in transformers 4
        layers = {"full_attention": (stated, theta), "sliding_attention": ({}, local)}
    if any(isinstance(value, dict) for value in stated.values()):
        layers = {n: (value, theta) for n, value in stated.items() if isinstance(value, dict)}
    return {
        ".".join(filter(None, (_ROPE, layer, name))): value
        for layer, (parameters, theta) in layers.items()
        for name, value in sorted(_rope_of_layer(_stated(parameters or {}), theta, flat).items())
    }


def _rope_of_layer(
    parameters: dict[str, Any], theta: float | None, flat: Mapping[str, Any]
) -> dict[str, Any]:
    kind = parameters.pop("type", "default")  # a name of older configs
    implied: dict[str, Any] = {
        "partial_rotary_factor": _first(flat, ("partial_rotary_factor", "rotary_pct")) or 1.0,
        "rope_theta": _DEFAULT_THETA if theta is None else theta,
        "rope_type": kind,
    }
    if parameters.get("rope_type", kind) not in ("default", "linear"):
        implied["original_max_position_embeddings"] = flat.get("max_position_embeddings")
    return _stated(implied) | parameters


def _stated(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if value is not None}


def _first(flat: Mapping[str, Any], keys: tuple[str, ...]) -> Any:  # noqa: ANN401 - of a config
    return next((flat[key] for key in keys if key in flat), None)
