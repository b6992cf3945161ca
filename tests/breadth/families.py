"""A tiny random model of every causal family of the installed transformers.

A family is an entry of `MODEL_FOR_CAUSAL_LM_MAPPING`. Its config is the class's own default with
every size that is known by name made small, in sub-configs too; what a family needs beyond that
stands in `SPECIAL`. Structure (number of experts, windows, layer types) stays as varied as it can:
windows are shorter than the prompts, every kind of layer is there at least once.
"""

import dataclasses
from pathlib import Path
from typing import Any

VOCABULARY = 160
"""Tokens of every tiny model; prompts use `FIRST_ID` to `LAST_ID`, the rest stand for images."""

FIRST_ID, LAST_ID = 8, 119

_MARKERS = 120
"""Ids of images, sounds and other markers start here."""

_SIZES: dict[int, str] = {
    0: "first_k_dense_replace num_dense_layers layerdrop decoder_layerdrop encoder_layerdrop "
    "residual_dropout hidden_dropout_prob attention_probs_dropout_prob dropout resid_pdrop "
    "embd_pdrop attn_pdrop local_attention_probs_dropout_prob lsh_attention_probs_dropout_prob "
    "attention_dropout activation_dropout num_nextn_predict_layers num_mtp_layers",
    1: "n_group topk_group n_shared_experts num_shared_experts moe_num_shared_experts "
    "mamba_n_groups n_groups mamba_ngroups",
    2: "num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers "
    "num_encoder_layers num_decoder_layers num_key_value_heads num_kv_heads "
    "num_experts_per_tok moe_topk moe_k top_k_experts swa_num_key_value_heads",
    4: "num_attention_heads n_head n_heads num_heads attention_heads decoder_attention_heads "
    "encoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads "
    "num_experts n_routed_experts num_local_experts moe_num_experts swa_num_attention_heads "
    "linear_num_key_heads linear_num_value_heads index_n_heads linear_num_heads n_mamba_heads "
    "linear_num_attention_heads",
    8: "mamba_d_state state_size ssm_state_size d_state index_topk chunk_size "
    "sliding_window attention_window_size window_size local_attention sliding_window_size "
    "mamba_chunk_size mamba_d_head mamba_head_dim rotary_dim block_size attention_chunk_size "
    "indexer_budget",
    16: "head_dim qk_rope_head_dim linear_key_head_dim linear_value_head_dim v_head_dim "
    "qk_nope_head_dim q_lora_rank "
    "kv_lora_rank index_head_dim swa_head_dim kv_channels linear_head_dim d_head dim_head "
    "attention_head_size mamba_num_heads mamba_n_heads o_lora_rank",
    64: "hidden_size d_model n_embd emb_dim embedding_size input_embedding_size emb_pdrop "
    "output_embedding_size backbone_hidden_size lru_width word_embed_proj_dim dim_model_base "
    "pronunciation_embed_dim shape_embed_dim pronunciation_vocab_size shape_vocab_size",
    96: "intermediate_size decoder_ffn_dim encoder_ffn_dim ffn_dim n_inner dff dim_ff d_inner "
    "feed_forward_size moe_intermediate_size intermediate_size_mlp dense_intermediate_size "
    "shared_expert_intermediate_size shared_intermediate_size ffn_hidden_size "
    "expert_ffn_hidden_size prefix_dense_intermediate_size shared_experts_intermediate_size "
    "moe_shared_expert_intermediate_size",
    128: "max_position_embeddings n_positions n_ctx max_seq_len max_target_positions "
    "context_length original_max_position_embeddings",
    VOCABULARY: "vocab_size decoder_vocab_size vocab_size_per_layer_input unpadded_vocab_size",
}
SMALL: dict[str, int] = {name: size for size, names in _SIZES.items() for name in names.split()}
"""What a setting of this name becomes, wherever a family has it as a number."""

GIVEN = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "is_decoder": True,
}
"""What every family that has the setting is given."""

_HYBRID = {"layer_types": ["linear_attention", "full_attention"]}

_INDEXER = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 16,
    "indexer_budget": 8,
    "indexer_compress_ratio": 2,
    "hc_lowrank": 16,
    "ngram_vocab_size_base": 97,
    "split_ngram_parts": 1,
}

SPECIAL: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"layer_group_size": 2},
    "bamba": {"attn_layer_indices": [1]},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm3": {"layer_types": ["conv", "full_attention"]},
    "qwen3_5": {"text_config": _HYBRID},
    "qwen3_5_moe": {"text_config": _HYBRID},
    "qwen3_5_moe_text": _HYBRID,
    "qwen3_5_text": _HYBRID,
    "qwen3_next": _HYBRID,
    "qwen4_exp": {"text_config": _HYBRID | _INDEXER},
    "qwen4_exp_text": _HYBRID | _INDEXER,
    "kimi_linear": _HYBRID,
    "xmod": {"default_language": "en_XX"},
    "blt": {
        "encoder_hash_byte_group_vocab": 512,
        "encoder_config": {"hidden_size_global": 64},
        "decoder_config": {"hidden_size_global": 64},
    },
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 1e4},
        "ffn_config": {"hidden_size": 64},
    },
    "dots1": {
        "n_shared_experts": 1,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "max_window_layers": 1,
    },
    "dots3_note": {
        "vision_config": {
            "mlp_layer_types": ["dense", "sparse"],
            "adapter_in_dim": 64,
            "adapter_out_dim": 64,
        },
        "audio_config": {"adapter_input_size": 64, "adapter_out_dim": 64},
    },
    "fuyu": {"text_config": {"model_type": "persimmon"}},
    "gemma3": {
        "vision_config": {"model_type": "siglip_vision_model", "image_size": 16, "patch_size": 8},
        "mm_tokens_per_image": 4,
    },
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "gemma4_assistant": {
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
            "num_kv_shared_layers": 2,
        }
    },
    "gemma4_unified_assistant": {
        "text_config": {"model_type": "gemma4_unified_text", "num_kv_shared_layers": 2}
    },
    "emu3": {
        "vocabulary_map": {"<|extra_200|>": 121, "<image>": 122},
        "vq_config": {"base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1},
    },
    "llama4": {
        "vision_config": {
            "projector_input_dim": 64,
            "projector_output_dim": 64,
            "vision_output_dim": 64,
        }
    },
    "mllama": {"vision_config": {"image_size": 16, "patch_size": 8, "vision_output_dim": 64}},
    "got_ocr2": {"text_config": {"model_type": "qwen2"}},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "lfm2_moe": {"num_dense_layers": 1, "layer_types": ["conv", "full_attention"]},
    "longcat_flash": {"zero_expert_num": 2},
    "mamba2": {"head_dim": 32},
    "ministral": {"head_dim": 16},
    "moshi": {"audio_vocab_size": 64, "depth_decoder_config": {"audio_vocab_size": 64}},
    "moss_transcribe_diarize": {"text_config": {"model_type": "qwen3"}},
    "nemotron": {"num_key_value_heads": 2},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {
        "is_decoder": True,
        "attn_layers": ["local", "lsh"],
        "axial_pos_embds": False,
        "axial_pos_shape": [8, 16],
        "axial_pos_embds_dim": [32, 32],
    },
    "zamba": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "hybrid"],
    },
    "zamba2": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "hybrid"],
    },
    "zaya": {
        "num_experts_per_tok": 1,
        "router_hidden_size": 32,
        "sliding_window": 8,
        "layer_types": ["hybrid", "hybrid_sliding"],
    },
}
"""What a family needs beyond `SMALL`; a dictionary is merged into the sub-config of that name."""


def names() -> list[str]:
    """Returns the model types of every causal family, sorted."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def tiny_config(name: str) -> Any:
    """Returns the family's config, made small."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = CONFIG_MAPPING[name]
    return kind(**_settings(kind, SPECIAL.get(name, {})))


def _settings(kind: Any, special: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    parts = getattr(kind, "sub_configs", {})
    for field in dataclasses.fields(kind):
        if field.name in parts and isinstance(parts[field.name], type):
            part = _part(parts[field.name], special.get(field.name, {}))
            settings |= {field.name: part} if part else {}
        else:
            settings |= _small(field)
    if "kv_lora_rank" in settings and settings.get("num_key_value_heads"):
        settings["num_key_value_heads"] = SMALL["num_attention_heads"]  # latent attention has all
    plain = {key: value for key, value in special.items() if key not in parts}
    return settings | plain


def _part(kind: Any, special: dict[str, Any]) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if kind.__name__ != "AutoConfig":
        return kind(**_settings(kind, special))
    if "model_type" not in special:
        return None
    found = CONFIG_MAPPING[special["model_type"]]
    return found(**_settings(found, special))


def _small(field: Any) -> dict[str, Any]:
    """Returns the setting's small value; nothing where the family leaves it open or has none."""
    if field.name in GIVEN:
        return {field.name: GIVEN[field.name]}
    if "drop" in field.name and isinstance(field.default, float):
        return {field.name: 0.0}
    if field.name.endswith(("_token_id", "_token_index")):
        return {field.name: _MARKERS + sum(map(ord, field.name)) % (VOCABULARY - _MARKERS)}
    small, default = SMALL.get(field.name), field.default
    if small is None or isinstance(default, bool | str | list | tuple):
        return {}
    if default is None or default is dataclasses.MISSING or default == 0:
        return {}
    return {field.name: type(default)(small) if isinstance(default, float) else small}


def model_class(config: Any) -> Any:
    """Returns the class whose checkpoints carry such a config: the whole model, images and all."""
    from transformers.models.auto import modeling_auto as auto

    causal: Any = auto.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    if causal.config_class is type(config):
        return causal
    for mapping in (
        auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
        auto.MODEL_FOR_MULTIMODAL_LM_MAPPING,
        auto.MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING,
    ):
        if type(config) in mapping:
            return mapping[type(config)]
    return causal


def build(name: str, folder: Path) -> None:
    """Writes the family's tiny model as a folder.

    Weights are larger than a fresh model's, so that predictions are far from uniform and every
    part of the model has a say in them. Where transformers cannot make the model here, the folder
    has its config and a lone tensor: what is said of it is what a user with the real model hears.
    """
    import torch
    from safetensors.torch import save_file
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    config = tiny_config(name)
    torch.manual_seed(0)
    try:
        model = model_class(config)(config)
    except (ImportError, ValueError):
        config.save_pretrained(folder)
        save_file({"none": torch.zeros(1)}, folder / "model.safetensors", {"format": "pt"})
        return
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    model.save_pretrained(folder)
