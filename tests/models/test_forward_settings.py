"""Two configs have the same settings if and only if the same weights compute the same with them."""

import json
from typing import Any

import pytest

from zoo.models.forward_settings import differing, forward_settings

QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "intermediate_size": 20,
    "vocab_size": 41,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "rope_theta": 1e6,
    "sliding_window": 8,
    "use_sliding_window": True,
    "tie_word_embeddings": True,
}
SCALED = {"rope_type": "yarn", "factor": 4.0}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((name, 4) for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")),
        *((name, 4) for name in ("num_key_value_heads", "head_dim", "intermediate_size")),
        *(("vocab_size", 40), ("rms_norm_eps", 1e-5), ("hidden_act", "gelu")),
        *(("rope_theta", 1e4), ("rope_scaling", SCALED), ("partial_rotary_factor", 0.5)),
        *(("sliding_window", 4), ("use_sliding_window", False), ("tie_word_embeddings", False)),
    ],
)
def test_a_setting_that_counts_makes_a_difference(key: str, value: object) -> None:
    assert forward_settings(QWEN3 | {key: value}) != forward_settings(QWEN3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dtype", "float32"),
        ("torch_dtype", "float16"),
        ("transformers_version", "4.1.0"),
        ("_name_or_path", "elsewhere"),
        ("use_cache", False),
        ("max_position_embeddings", 99),
    ],
)
def test_a_setting_that_does_not_count_makes_none(key: str, value: object) -> None:
    assert forward_settings(QWEN3 | {key: value}) == forward_settings(QWEN3)


RAW: dict[str, dict[str, Any]] = {
    "qwen3": QWEN3,
    "qwen3 without its window": QWEN3 | {"use_sliding_window": False},
    "llama": {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "vocab_size": 50,
        "tie_word_embeddings": False,
        "max_position_embeddings": 512,
        "rope_scaling": {"type": "yarn", "factor": 4.0},
    },
    "gemma3": {
        "model_type": "gemma3_text",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_hidden_layers": 2,
        "vocab_size": 50,
        "intermediate_size": 96,
        "hidden_activation": "gelu_pytorch_tanh",
        "sliding_window": 8,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "tie_word_embeddings": True,
    },
    "gpt_neox": {
        "model_type": "gpt_neox",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "vocab_size": 50,
        "intermediate_size": 96,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "rotary_pct": 0.5,
        "rotary_emb_base": 5000.0,
        "tie_word_embeddings": False,
    },
}


@pytest.mark.parametrize("name", RAW)
def test_a_config_means_the_same_after_transformers_saved_it_again(name: str) -> None:
    """The configs are as transformers 4 wrote them; 5 has other names and writes defaults out."""
    from transformers import AutoConfig

    raw = RAW[name]
    kind = {key: value for key, value in raw.items() if key != "model_type"}
    saved = json.loads(AutoConfig.for_model(raw["model_type"], **kind).to_json_string())
    assert "rope_parameters" in saved
    assert differing(forward_settings(saved), forward_settings(raw)) == []


def test_the_settings_of_a_model_for_images_are_those_of_its_text_part() -> None:
    nested = {"text_config": QWEN3, "hidden_size": 99, "vision_config": {"hidden_size": 7}}
    assert forward_settings(nested) == forward_settings(QWEN3)


@pytest.mark.parametrize(
    ("theirs", "name"),
    [
        ({"n_embd": 16}, "hidden_size"),
        ({"n_layer": 16}, "num_hidden_layers"),
        ({"n_head": 16}, "num_attention_heads"),
        ({"n_inner": 16}, "intermediate_size"),
        ({"layer_norm_eps": 16}, "norm_eps"),
        ({"layer_norm_epsilon": 16}, "norm_eps"),
        ({"activation_function": 16}, "hidden_act"),
        ({"hidden_activation": 16, "hidden_act": 8}, "hidden_act"),
    ],
)
def test_other_families_spell_the_same_settings(theirs: dict[str, int], name: str) -> None:
    assert forward_settings(theirs)[name] == 16


def test_scaled_positions_are_relative_to_those_of_training() -> None:
    """Without a length of their own, `max_position_embeddings` is it."""
    scaled = QWEN3 | {"rope_scaling": SCALED, "max_position_embeddings": 512}
    stated = {"rope_scaling": SCALED | {"original_max_position_embeddings": 512}}
    assert forward_settings(scaled) == forward_settings(scaled | stated)
    assert forward_settings(scaled) != forward_settings(scaled | {"max_position_embeddings": 64})
    linear = scaled | {"rope_scaling": {"type": "linear", "factor": 4.0}}
    assert forward_settings(linear) == forward_settings(linear | {"max_position_embeddings": 64})


@pytest.mark.parametrize(
    "changed",
    [{"model_type": "gemma"}, {"final_logit_softcapping": 30.0}, {"num_experts_per_tok": 2}],
)
def test_what_a_family_computes_with_is_compared_where_both_state_it(
    changed: dict[str, Any],
) -> None:
    stated = {"final_logit_softcapping": 20.0, "num_experts_per_tok": 4}
    before, after = (forward_settings(QWEN3 | stated | part) for part in ({}, changed))
    assert differing(before, after) == list(changed)
    assert differing(forward_settings(QWEN3 | stated), forward_settings(QWEN3)) == []


def test_rotary_settings_of_some_layers_beside_others_are_read() -> None:
    odd = {"rope_type": "default", "full_attention": {"rope_theta": 5.0}}
    found = forward_settings({"rope_parameters": odd})
    assert found["rope_parameters.full_attention.rope_theta"] == 5
