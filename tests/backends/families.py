"""Tiny random models of a few architectures that are unlike Qwen3, as folders."""

from pathlib import Path
from typing import Any

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 97,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GATED = {**SIZES, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {**SIZES, "intermediate_size": 48, "max_position_embeddings": 64},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 97},
    "laguna": {
        **GATED,
        "head_dim": 8,
        "num_experts": 4,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "num_experts_per_tok": 2,
    },
    "granitemoe": {**GATED, "num_local_experts": 2},
    "llama4_text": {**GATED, "head_dim": 8, "intermediate_size_mlp": 48, "num_local_experts": 2},
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 97, "state_size": 8},
    "mixtral": {**GATED, "num_local_experts": 2},
    "modernbert-decoder": {**SIZES, "intermediate_size": 48, "cls_token_id": 1, "sep_token_id": 2},
    "openai-gpt": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 97},
    "phimoe": {**GATED, "num_local_experts": 2},
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "vocab_size": 97},
}


def write_family(folder: Path, model_type: str, **settings: object) -> Path:
    """Writes a model of this architecture whose predictions are far from uniform."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from zoo.backends.torch.quiet import quiet

    torch.manual_seed(0)
    with quiet():
        config = AutoConfig.for_model(model_type, **(FAMILIES[model_type] | settings))
        auto: Any = AutoModelForCausalLM
        model = auto.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(3 if parameter.dim() > 1 else 1)
        model.save_pretrained(folder)
    return folder
