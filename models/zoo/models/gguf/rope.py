"""Scaled rotary frequencies of Llama 3: a GGUF file has the factors, transformers the rule.

The rule is in `transformers.modeling_rope_utils` as `llama3`; its divisor is the largest factor,
and its other three numbers are the same in all published models.
"""

import math
from typing import Any

from zoo.core.errors import InputError
from zoo.models.gguf.parts import Source

FACTORS = "rope_freqs.weight"
LOW, HIGH, POSITIONS = 1.0, 4.0, 8192


def rope_rule(source: Source, theta: float, head_dim: int) -> dict[str, Any] | None:
    """Returns the `rope_parameters` for the factors in a file, or None if it has none.

    Args:
        source: the open file.
        theta: the base of the frequencies.
        head_dim: the width of a head; two of its dimensions rotate at each frequency.

    Raises:
        InputError: they are not those of this rule.
    """
    import numpy as np

    if FACTORS not in source.tensors:
        return None
    tensor = source.tensors[FACTORS][1]
    if tensor.type != "F32" or tensor.shape != (head_dim // 2,) or not head_dim // 2:
        raise InputError(
            f"'{source.path}': tensor '{FACTORS}': expected type F32 and shape [{head_dim // 2}], "
            f"half the {head_dim} dimensions of a head, got {tensor.type} and {list(tensor.shape)}",
            code="models.gguf_rope",
        )
    factors = source.read(FACTORS).view("<f4").astype(np.float64)
    if bool(np.all(factors == 1)):
        return None
    largest = float(factors.max())
    lengths = 2 * math.pi * theta ** (np.arange(len(factors)) / len(factors))
    share = np.clip((POSITIONS / lengths - LOW) / (HIGH - LOW), 0, 1)
    with np.errstate(all="ignore"):
        expected = 1 / ((1 - share) / largest + share)
    if not largest > 1 or not bool(np.allclose(factors, expected, rtol=1e-4)):
        raise InputError(
            f"'{source.path}': tensor '{FACTORS}': expected the factors of Llama 3's rule for "
            f"rotary frequencies, got others up to {largest:g}",
            code="models.gguf_rope",
        )
    return {
        "rope_type": "llama3",
        "rope_theta": theta,
        "factor": float(np.float32(largest)),
        "low_freq_factor": LOW,
        "high_freq_factor": HIGH,
        "original_max_position_embeddings": POSITIONS,
    }
