"""Small random models of the families that can be exported, and jobs to export them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.export.job import Job, Options
from zoo.gym.export.run import find_job
from zoo.gym.tuned.base import resolve_base
from zoo.models import pico_folder

COMMON: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 264,
    "max_position_embeddings": 256,
    "pad_token_id": 256,
    "bos_token_id": None,
    "eos_token_id": 258,
}
"""A width of 256, the least that K types have, and zen-pico's tokens."""

_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_GEMMA = {"head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 16}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256}

FAMILIES: dict[str, dict[str, Any]] = {
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA | {"num_hidden_layers": 6},
    "llama": {"tie_word_embeddings": False, "attention_bias": True},
    "llama with scaled positions": {"rope_parameters": _LLAMA3, "max_position_embeddings": 16_384},
    "mistral": {"sliding_window": None},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "phi3": {"num_key_value_heads": 4},
    "qwen2": {},
    "qwen3": {"head_dim": 64},
    "qwen3_moe": _EXPERTS | {"head_dim": 64, "norm_topk_prob": True, "decoder_sparse_step": 1},
}


def random_model(folder: Path, family: str, **settings: Any) -> Path:
    """Writes a random model with zen-pico's tokenizer, and returns its folder."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    kind = family.partition(" ")[0]
    config = AutoConfig.for_model(kind, **(COMMON | FAMILIES[family] | settings))
    model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.float()
    for weight in model.parameters():
        norm = 0.0 if kind.startswith("gemma") else 1.0
        torch.nn.init.normal_(weight, 0.0 if weight.ndim > 1 else norm, 0.1)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(pico_folder()).save_pretrained(folder)
    return folder


MakeJob = Callable[..., Job]
"""Returns the job of a source and the options of its export."""


@pytest.fixture
def job(place: Path) -> MakeJob:
    """Makes jobs as the command does, in an empty folder."""
    del place

    def make(source: str | Path, base: str | None = None, **options: Any) -> Job:
        return find_job(
            str(source),
            base=base,
            options=Options(**options),
            find_base=lambda given, recorded, check: resolve_base(given, recorded, "--base", check),
            say=lambda _: None,
        )

    return make
