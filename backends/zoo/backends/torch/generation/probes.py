"""Tests a model on a few tokens: may its texts be padded, and its rows repeated and removed?

Legend: B rows, V vocabulary.

Decoders of translation models count positions from the padding, state-space models process it, and
some states cannot be split into rows. Each test runs once; `LossModule.abilities` has its result.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from zoo.backends.memory import DRAW_BYTES_A_TOKEN, SAMPLING_WIDTHS, score_bytes
from zoo.backends.torch.generation.decoding import Decoding, keeps_keys
from zoo.backends.torch.loss import LossModule
from zoo.core.errors import InputError

PADDED, SHORT = 8, 3
"""Lengths of the prompts that the tests compare."""

PICKED_KEYS = ("index_topk", "index_topk_blocks", "indexer_budget")
"""Config keys of models that attend to a selection of keys, which may include padding or another
row; a test on a few tokens cannot detect that."""

TOLERANCE = {torch.float32: 1e-4}
TOLERANCE_16_BITS = 2e-2
"""How much padding or other rows may change a logit, relative to the largest one."""


def takes_padding(module: LossModule) -> bool:
    """Returns whether padding on the left does not change the model's logits."""
    abilities = module.abilities
    if abilities.padding is None:
        long, _ = probe_prompts(module)
        abilities.padding = (
            keeps_keys(module) and not picks_keys(module) and _same_padded(module, long)
        )
    return abilities.padding


def picks_keys(module: LossModule) -> bool:
    """Returns whether the model attends to a selection of earlier tokens."""
    config: Any = getattr(module.model.config, "text_config", None) or module.model.config
    return any(getattr(config, name, None) for name in PICKED_KEYS)


def row_refusal(module: LossModule) -> str | None:
    """Returns why rows of the model's state cannot be repeated and removed; None if they can."""
    abilities = module.abilities
    if abilities.rows is None:
        abilities.rows = _rows_differ(module)
    return abilities.rows or None


def bytes_of_row(module: LossModule, tokens: int) -> int:
    """Returns the memory that a row of this many tokens takes in a batch that is sampled."""
    row_refusal(module)
    embedding: Any = module.model.get_input_embeddings()  # type: ignore[operator]
    vocabulary, width = (int(size) for size in embedding.weight.shape)
    a_token = max(module.abilities.token_bytes, 4 * SAMPLING_WIDTHS * width)
    return module.abilities.row_bytes + tokens * a_token + DRAW_BYTES_A_TOKEN * vocabulary


def bytes_of_prompt(module: LossModule, tokens: int) -> int:
    """Returns what attention by whole matrices takes besides while a prompt is read."""
    config: Any = getattr(module.model.config, "text_config", None) or module.model.config
    heads = getattr(config, "num_attention_heads", None)
    if getattr(module.model.config, "_attn_implementation", None) != "eager":
        return 0
    return score_bytes(heads, tokens**2, kept_blocks=0) if isinstance(heads, int) else 0


def probe_prompts(module: LossModule) -> tuple[list[int], list[int]]:
    """Returns two prompts of eight tokens."""
    embedding: Any = module.model.get_input_embeddings()  # type: ignore[operator]
    vocabulary = embedding.weight.shape[0]
    first = [i * 7919 % vocabulary for i in range(1, PADDED + 1)]
    return first, first[::-1]


@torch.no_grad()
def _same_padded(module: LossModule, long: list[int]) -> bool:
    """Compares the logits of a prompt alone and in a batch with a longer one, for two steps."""
    short = long[:SHORT]
    alone, padded = Decoding(module, [short]), Decoding(module, [short, long])
    ends_B = torch.tensor([short[-1], long[-1]], device=padded.ids_BP.device)
    alone_SV = torch.cat([alone.read_prompts(), alone.read(ends_B[:1])])
    padded_SV = torch.cat([padded.read_prompts()[:1], padded.read(ends_B)[:1]])
    return difference(module, padded_SV, alone_SV) is None


@torch.no_grad()
def _rows_differ(module: LossModule) -> str:
    """Compares a prompt's repeated state with that of the prompt read twice, for two steps."""
    first, second = probe_prompts(module)
    plain, shared = Decoding(module, [first, second, second]), Decoding(module, [first, second])
    ids_B = torch.tensor([second[0], first[1], first[2]], device=plain.ids_BP.device)
    plain_SV = [plain.read_prompts()[1:]]
    state_bytes = _state_bytes(plain)
    plain_SV += [plain.read(ids_B)[1:]]
    a_token = (_state_bytes(plain) - state_bytes) // 3
    plain_SV += [plain.read(ids_B)[1:]]
    module.abilities.token_bytes = a_token
    module.abilities.row_bytes = max(0, state_bytes // 3 - PADDED * a_token)
    prompts_BV = shared.read_prompts()
    try:
        shared.select([0, 1, 1])
        after_BV = shared.read(ids_B)
        shared.select([1, 2])
        shared_SV = [prompts_BV[[1, 1]], after_BV[1:], shared.read(ids_B[1:])]
    except (AttributeError, NotImplementedError):
        return "its state cannot be split into rows"
    except (InputError, RuntimeError, IndexError, ValueError):
        return "its state cannot be repeated"
    return difference(module, torch.cat(shared_SV), torch.cat(plain_SV)) or ""


def difference(module: LossModule, logits_SV: Tensor, expected_SV: Tensor) -> str | None:
    """Returns how logits differ, in words; None if they do by rounding alone."""
    exact = TOLERANCE.get(next(module.parameters()).dtype, TOLERANCE_16_BITS)
    tolerance = TOLERANCE_16_BITS if module.autocast else exact
    moved = float((logits_SV - expected_SV).abs().max())
    if moved <= tolerance * float(expected_SV.abs().max()):
        return None
    return f"its logits would differ by {moved:.2g}"


def _state_bytes(text: Decoding) -> int:
    """Returns the memory of a state's tensors."""
    layers = [layer for state in text.state.values() for layer in getattr(state, "layers", ())]
    return sum(tensor.nbytes for layer in layers for tensor in _tensors(vars(layer).values()))


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, dict):
            yield from _tensors(value.values())
