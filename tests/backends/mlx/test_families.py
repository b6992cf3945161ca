"""Each architecture of the engine computes what transformers computes, on tiny random models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, Sampling
from zoo.backends.mlx.files.families import FAMILIES, ROTARY, WINDOWED

SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 256,
    "vocab_size": 97,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "head_dim": 16,
}
OTHER: dict[str, dict[str, Any]] = {
    "cohere": {"logit_scale": 0.3},
    "gemma3_text": {"sliding_window": 8, "sliding_window_pattern": 2, "query_pre_attn_scalar": 16},
    "granite": {"logits_scaling": 3.0, "embedding_multiplier": 2.0, "residual_multiplier": 0.7},
    "mistral": {"sliding_window": None},
}
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 2.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
}


def written(folder: Path, family: str, rotary: dict[str, Any] | None = None, **more: Any) -> Path:
    """A model whose predictions are far from uniform, with a rotary base of its own."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from zoo.backends.torch.quiet import quiet

    config = AutoConfig.for_model(family, **(SHAPE | OTHER.get(family, {}) | more))
    if isinstance(config.rope_parameters, dict) and "rope_theta" in config.rope_parameters:
        config.rope_parameters |= {"rope_theta": 3000.0} | (rotary or {})
    torch.manual_seed(0)
    with quiet():
        auto: Any = AutoModelForCausalLM
        model: Any = auto.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(3)
                else:
                    parameter.add_(0.1 * torch.randn_like(parameter))
        model.save_pretrained(folder)
    return folder


def compare(folder: Path) -> None:
    ids = [i * 7 % 97 for i in range(1, 25)]
    spec = LoadSpec(dtype="f32")
    mine, plain = (load_backend(e).load(folder, spec).logits(ids) for e in ("mlx", "cpu"))
    np.testing.assert_allclose(mine, plain, atol=1e-4 * float(np.abs(plain).max()))


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_computes_what_transformers_computes(family: str, tmp_path: Path) -> None:
    compare(written(tmp_path, family))


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_answers_after_a_kept_prefix_as_after_whole_prompts(
    family: str, tmp_path: Path
) -> None:
    policy = load_backend("mlx").load(written(tmp_path, family), LoadSpec(dtype="f32"))
    shared = [i * 7 % 97 for i in range(1, 25)]
    prompts = [[*shared, *rest] for rest in ([5], [6, 7, 8], [9, 10])]
    kept = policy.read_prefix(shared)
    assert (kept is None) == (family in WINDOWED)
    how = Sampling(6)
    ours, whole = (policy.generate(prompts, how, keys=range(3), prefix=p) for p in (kept, None))
    assert [one.ids for one in ours] == [one.ids for one in whole]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(ROTARY - {"default"}))
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_rotary_scaling_is_that_of_transformers(family: str, kind: str, tmp_path: Path) -> None:
    rotary = {"rope_type": kind, **SCALINGS[kind]}
    compare(written(tmp_path, family, rotary))


@pytest.mark.parametrize(
    ("family", "rotary", "more", "said"),
    [
        ("gpt2", None, {}, "model_type: expected one of cohere, .*, got 'gpt2'"),
        ("mistral", None, {"sliding_window": 8}, "sliding_window: expected none on MLX"),
        ("qwen3", {"rope_type": "dynamic", "factor": 2.0}, {}, "rope_type: expected one of"),
    ],
    ids=str,
)
def test_what_would_be_computed_otherwise_is_refused(
    family: str, rotary: dict[str, Any] | None, more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    from tests.backends.families import write_family

    folder = write_family(tmp_path, family) if family == "gpt2" else None
    with raises("mlx.model_not_supported", said):
        load_backend("mlx").load(folder or written(tmp_path, family, rotary, **more))
