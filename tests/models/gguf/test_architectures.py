"""A tiny random model of each architecture gives the same log-probabilities as in llama.cpp."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.models.gguf.files import (
    LLAMA,
    TOKENS,
    llama_tensors,
    random_tensors,
    settings,
    write_gguf,
)
from tests.models.gguf.llama_cpp import LlamaCpp
from zoo.core.errors import InputError
from zoo.models.gguf import import_gguf
from zoo.models.gguf.architecture import ARCHITECTURES, read_settings
from zoo.models.gguf.metadata import Metadata
from zoo.models.gguf.parts import Source

BASE = {
    "block_count": 2,
    "context_length": 64,
    "embedding_length": 32,
    "feed_forward_length": 64,
}
GROUPED = {"attention.head_count": 4, "attention.head_count_kv": 2}
EQUAL = {"attention.head_count": 4, "attention.head_count_kv": 4}
RMS = {"attention.layer_norm_rms_epsilon": 1e-5}
MEAN = {"attention.layer_norm_epsilon": 1e-5}
ROPE = {"rope.freq_base": 20_000.0}
WIDE = {"attention.key_length": 16, "attention.value_length": 16}

CASES: dict[str, dict[str, Any]] = {
    "gemma2": BASE
    | GROUPED
    | RMS
    | WIDE
    | {
        "attention.sliding_window": 8,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    "gemma3": BASE | GROUPED | RMS | ROPE | WIDE | {"attention.sliding_window": 8},
    "gpt2": BASE | MEAN | {"attention.head_count": 4, "feed_forward_length": 128},
    "llama": LLAMA,
    "mamba": {key: BASE[key] for key in ("block_count", "context_length", "embedding_length")}
    | RMS
    | {"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 8, "ssm.time_step_rank": 2},
    "nemotron": BASE | GROUPED | MEAN | ROPE | {"rope.dimension_count": 4},
    "phi3": BASE | EQUAL | RMS | ROPE | {"rope.dimension_count": 8, "attention.sliding_window": 64},
    "qwen2": BASE | GROUPED | RMS | ROPE,
    "qwen2moe": BASE
    | GROUPED
    | RMS
    | ROPE
    | {
        "expert_count": 4,
        "expert_used_count": 4,
        "expert_feed_forward_length": 32,
        "expert_shared_feed_forward_length": 64,
    },
    "qwen3": BASE | GROUPED | RMS | ROPE | WIDE,
    "qwen3moe": BASE
    | GROUPED
    | RMS
    | ROPE
    | WIDE
    | {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32},
    "stablelm": BASE
    | EQUAL
    | MEAN
    | ROPE
    | {"rope.dimension_count": 4, "use_parallel_residual": False},
    "starcoder2": BASE | GROUPED | MEAN | ROPE | {"rope.dimension_count": 8},
}

WITH_HEAD = frozenset({"nemotron", "qwen2moe", "stablelm"})
"""Architectures that llama.cpp wants an output matrix of."""

ROUNDED = frozenset({"gemma2", "gemma3", "gpt2", "starcoder2"})
"""Those with GELU, which llama.cpp looks up in a table of float16."""


def test_every_architecture_is_compared() -> None:
    assert set(CASES) == set(ARCHITECTURES)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", CASES)
def test_an_imported_model_gives_llama_cpps_logprobs(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    metadata = settings(architecture, CASES[architecture])
    tensors = random_tensors(file_shapes(architecture, metadata, tmp_path), 1)
    for name in tensors:
        if name.endswith("ssm_a"):  # minus the exponential of a parameter
            tensors[name] = -np.abs(tensors[name]) - 0.1
        elif tensors[name].ndim > 1:
            tensors[name] *= 10
    file = write_gguf(tmp_path / "model.gguf", metadata, tensors)
    assert furthest(file) <= (3e-3 if architecture in ROUNDED else 1e-5)


def llama3_factors() -> np.ndarray:
    """Returns the factors of Llama 3.1's rule for four frequencies of base 500,000.

    Their wavelengths are 6.3, 167, 4443 and 118,143 tokens: the first two are above none of
    the limits 2048 and 8192, the last is; the third is between: (8192 / 4443 - 1) / 3 = 0.28 of
    the way, so 1 / (0.72 / 8 + 0.28).
    """
    lengths = 2 * np.pi * 500_000.0 ** (np.arange(4) / 4)
    share = np.clip((8192 / lengths - 1) / 3, 0, 1)
    return (1 / ((1 - share) / 8 + share)).astype(np.float32)


@pytest.mark.slow
def test_llama_3_has_its_scaled_frequencies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    metadata = settings("llama", LLAMA | {"rope.freq_base": 500_000.0})
    tensors = {
        name: values * (10 if values.ndim > 1 else 1) for name, values in llama_tensors().items()
    }
    tensors["rope_freqs.weight"] = llama3_factors()
    file = write_gguf(tmp_path / "model.gguf", metadata, tensors)
    assert furthest(file) <= 1e-5


def test_no_line_of_the_library_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    tensors = llama_tensors() | {"rope_freqs.weight": llama3_factors()}
    metadata = settings("llama", LLAMA | {"rope.freq_base": 500_000.0})

    log = logging.getLogger("transformers")  # it warns: 64 positions are fewer than the rule's 8192
    monkeypatch.setattr(log, "handlers", [caplog.handler])
    monkeypatch.setattr(log, "level", logging.WARNING)
    import_gguf(write_gguf(tmp_path / "model.gguf", metadata, tensors))
    assert (caplog.messages, log.level) == ([], logging.WARNING)


@pytest.mark.slow
def test_other_factors_of_frequencies_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    tensors = llama_tensors() | {"rope_freqs.weight": np.array([1, 2, 3, 9], np.float32)}
    file = write_gguf(tmp_path / "model.gguf", settings("llama", LLAMA), tensors)
    with pytest.raises(InputError, match="expected the factors of Llama 3's rule"):
        import_gguf(file)


def furthest(file: Path) -> float:
    """Returns the largest difference of log-probabilities after thirty tokens."""
    import torch
    from transformers import AutoModelForCausalLM

    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(import_gguf(file).folder, dtype=torch.float32)
    ids = list(range(10, 40))
    with torch.no_grad():
        ours_V = torch.log_softmax(model(torch.tensor([ids])).logits[0, -1].double(), -1)
    theirs = LlamaCpp(file, 64).logprobs(ids, TOKENS, plain=70)
    assert len(theirs) == TOKENS
    return max(abs(float(ours_V[token]) - value) for token, value in theirs.items())


def file_shapes(
    architecture: str, metadata: dict[str, Any], scratch: Path
) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a file's tensors: those of transformers' model, as they are stored."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import (
        TENSOR_PROCESSORS,
        TensorProcessor,
        get_gguf_hf_weights_map,
    )

    loader: Any = AutoModelForCausalLM
    processors: Any = TENSOR_PROCESSORS
    config = read_settings(_header(architecture, metadata), scratch)
    with torch.device("meta"):
        model = loader.from_config(config)
    processor = processors.get(architecture, TensorProcessor)(config=config.to_dict())
    names: Any = get_gguf_hf_weights_map(model, processor)
    weights = model.state_dict()
    tied = set(model._tied_weights_keys or ()) if config.tie_word_embeddings else set()
    return dict(
        _stored(architecture, key, tuple(weights[name].shape))
        for key, name in names.items()
        if name in weights and name not in tied
    )


def _header(architecture: str, metadata: dict[str, Any]) -> Source:
    """Returns a file without bytes, which has just the tensors that say what the model is."""
    tensors = {"token_embd.weight": (TOKENS, 32), "blk.0.x": (1,), "blk.1.x": (1,)}
    if architecture in WITH_HEAD:
        tensors["output.weight"] = (TOKENS, 32)
    if architecture == "stablelm":  # its blocks are not parallel
        tensors["blk.0.ffn_norm.weight"] = (32,)
    entries = {
        name: (None, SimpleNamespace(shape=shape, type="F32")) for name, shape in tensors.items()
    }
    file = Path("model.gguf")
    return Source(file, (), Metadata(file, metadata), cast("Any", entries))


def _stored(architecture: str, key: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    turned = ("attn_qkv.weight", "ffn_down.weight", "ffn_up.weight", "attn_output.weight")
    if architecture == "gpt2" and key.endswith(turned):
        shape = shape[::-1]
    if "gate_exps" in key or "up_exps" in key:  # two halves of one weight
        shape = (shape[0], shape[1] // 2, shape[2])
    if "gate_inp_shexp" in key:
        shape = shape[1:]
    if "ssm_conv1d.weight" in key:
        shape = (shape[0], shape[2])
    return key + (".weight" if key.endswith("_exps") else ""), shape
