"""Decides whether rows are computed in fewer tokens, as `groups` and `lines` do.

Legend: N learned tokens, D hidden size.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.backends.base import Batch, SharedPrefix
from zoo.backends.torch.compat import whole_number
from zoo.backends.torch.generation.probes import picks_keys, row_refusal
from zoo.backends.torch.loss import LossModule, to_device
from zoo.backends.torch.packing import attention
from zoo.backends.torch.packing.groups import Packed, pack
from zoo.backends.torch.packing.lines import Line, line_up
from zoo.backends.torch.probe import find_backbone, probe_ids
from zoo.core.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MASKED = ("sdpa", "eager")
"""The attention kernels that take any mask."""

TOLERANCE = {torch.float32: 1e-4}
TOLERANCE_16_BITS = 2e-2
"""How much packing may change a hidden state, relative to the largest one."""

WINDOW = re.compile(r"window|local|chunk|block_size|span|context_length")
"""Names of config keys that may limit how far a token sees, which few tokens do not show."""

COUNTED = re.compile(r"layers|pattern|experts")
"""Those among them that count layers or experts."""

PAIR_COST = 1.5
"""The time of an operation of attention relative to one of a product of weights: 1.05 measured on a
CPU, and a margin."""


LEAST_SAVING = 0.05
"""The share of padding from which a line of rows takes less time than padded rows: attention is
computed row by row in it."""


def packed(module: LossModule, batch: Batch, *, learning: bool) -> Packed | Line | None:
    """Returns the rows with shared prompts or without padding; None to compute each row in full.

    Args:
        module: the model.
        batch: the rows.
        learning: whether dropout is on.
    """
    return _shared(module, batch, learning=learning) or _lined_up(module, batch)


def packs(module: LossModule, longest: int) -> bool:
    """Returns whether rows of up to this many tokens are computed without padding."""
    if not module.packing or line_refusal(module) is not None:
        return False
    limit = window(module)
    return limit is None or longest <= limit


def _lined_up(module: LossModule, batch: Batch) -> Line | None:
    if not packs(module, int(batch.lengths_B.max())):
        return None
    if float(batch.lengths_B.sum()) > (1 - LEAST_SAVING) * batch.ids_BT.size:
        return None
    return line_up(batch, next(module.parameters()).device)


def _shared(module: LossModule, batch: Batch, *, learning: bool) -> Packed | None:
    if batch.prefix is None or prefix_refusal(module) is not None:
        return None
    if learning and noise_refusal(module) is not None:
        return None
    limit = window(module)
    if limit is not None and int(batch.lengths_B.max()) > limit:
        return None
    packed = pack(batch, next(module.parameters()).device)
    shape = tuple(packed.ids_RL.shape)
    lined_up = batch.lengths_B - 1 if packs(module, int(batch.lengths_B.max())) else None
    return packed if pays(module, batch.ids_BT.shape, shape, lined_up) else None


def notes(module: LossModule, *, sampling: bool, prefix: bool) -> tuple[str, ...]:
    """Returns a sentence about each thing that rows with a common prompt do not share.

    With packing, also why rows are padded.
    """
    notes = _notes_on_prompts(module, sampling=sampling) if prefix else []
    limit = window(module)
    if module.packing and (refusal := line_refusal(module)):
        notes.append(f"computes rows with padding: {refusal}")
    elif module.packing and limit is not None:
        notes.append(f"computes rows without padding if they have at most {limit} tokens")
    return tuple(f"{type(module.model).__name__} {text}" for text in notes)


def require_packing(module: LossModule) -> None:
    """Refuses a model whose rows must be padded.

    Raises:
        InputError: the message says why.
    """
    if (refusal := line_refusal(module)) is not None:
        raise InputError(
            f"packing: {type(module.model).__name__} computes rows with padding: {refusal}",
            hint="packing: false",
            code="torch.cannot_pack",
        )


def _notes_on_prompts(module: LossModule, *, sampling: bool) -> list[str]:
    rows = row_refusal(module) if sampling else None
    prefix = prefix_refusal(module)
    noise, limit = noise_refusal(module), window(module)
    notes: list[str] = []
    if rows is not None:
        notes.append(f"reads a prompt again for each of its answers: {rows}")
    if prefix or noise:
        notes.append(f"computes a shared prompt again in each row of an update: {prefix or noise}")
    elif limit is not None:
        notes.append(f"shares prompts in an update if rows have at most {limit} tokens")
    return notes


def pays(
    module: LossModule,
    plain: tuple[int, ...],
    packed: tuple[int, ...],
    lined_up: "NDArray[np.int64] | None" = None,
) -> bool:
    """Returns whether packed rows take less time: fewer tokens, but more pairs of tokens.

    Args:
        module: the model.
        plain: the shape of the separate rows, whose later tokens a kernel skips.
        packed: that of the packed rows.
        lined_up: the tokens of each row if they would be computed in a line, without padding.
    """
    lengths_B = np.full(plain[0], plain[1]) if lined_up is None else lined_up
    saved_tokens = int(lengths_B.sum()) - packed[0] * packed[1]
    more_pairs = packed[0] * packed[1] ** 2 - float((lengths_B**2).sum()) / 2
    a_pair = 2 * _attention_width(module)
    backbone = find_backbone(module.model)
    embedding = module.model.get_input_embeddings()  # type: ignore[operator]
    weights = sum(p.numel() for p in backbone.parameters())
    a_token = weights - sum(p.numel() for p in embedding.parameters())
    return bool(saved_tokens * a_token > PAIR_COST * more_pairs * a_pair)


def _attention_width(module: LossModule) -> int:
    """Returns the size of the queries of a token in all layers; estimated for an odd config."""
    config: Any = getattr(module.model.config, "text_config", None) or module.model.config
    hidden = module.model.get_input_embeddings().weight.shape[1]  # type: ignore[operator]
    heads, layers, width = (
        whole_number(config, name)
        for name in ("num_attention_heads", "num_hidden_layers", "head_dim")
    )
    a_layer = heads * width if heads and width else int(hidden)
    return a_layer * (layers or 1)


def window(module: LossModule) -> int | None:
    """Returns the smallest number in the config that may limit how far a token sees."""
    config: Any = module.model.config
    settings = {**vars(config), **vars(getattr(config, "text_config", None) or config)}
    refusals = [
        value
        for name, value in settings.items()
        if WINDOW.search(name) and not COUNTED.search(name) and type(value) is int and value > 0
    ]
    return min(refusals, default=None)


def prefix_refusal(module: LossModule) -> str | None:
    """Returns why rows cannot share their first tokens; None if they can.

    It is tested once on a few tokens.
    """
    abilities = module.abilities
    if abilities.prefix is None:
        abilities.prefix = _unable(module) or _differs(module, pack)
    return abilities.prefix or None


def noise_refusal(module: LossModule) -> str | None:
    """Returns why rows cannot share their first tokens in training; None if they can."""
    abilities = module.abilities
    if abilities.noise is None:
        abilities.noise = "rows with dropout are computed in full" if _is_noisy(module) else ""
        if module.router is not None:
            abilities.noise = "its router loss counts the tokens of each row"
    return abilities.noise or None


def line_refusal(module: LossModule) -> str | None:
    """Returns why rows cannot be computed one after the other; None if they can.

    It is tested once on a few tokens.
    """
    abilities = module.abilities
    if abilities.line is None:
        abilities.line = _no_line(module)
    return abilities.line or None


def _no_line(module: LossModule) -> str:
    if module.router is not None:
        return "its router loss counts the tokens of each row"
    kernel = getattr(module.model.config, "_attn_implementation", None)
    if kernel != "sdpa":
        return f"its attention ({kernel}) cannot be computed row by row"
    if picks_keys(module):
        return "it attends to a selection of tokens"
    attention.install()
    return _differs(module, line_up)


def _unable(module: LossModule) -> str:
    kernel = getattr(module.model.config, "_attn_implementation", None)
    if kernel not in MASKED:
        return f"its attention ({kernel}) takes no mask for each pair of tokens"
    inputs = signature(type(find_backbone(module.model)).forward).parameters
    if not {"attention_mask", "position_ids"} <= inputs.keys():
        return "it takes no positions or no masks"
    return "it attends to a selection of tokens" if picks_keys(module) else ""


@torch.no_grad()
def _differs(module: LossModule, pack: Callable[[Batch, torch.device], Packed | Line]) -> str:
    """Compares hidden states of packed rows with those of separate rows."""
    batch = _probe_batch(module)
    device = next(module.parameters()).device
    plain = to_device(batch, device)
    packed = replace(plain, packed=pack(batch, device))
    try:
        together_ND = _evaluated(module, lambda: module.learned_hidden(packed))
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
        return "it takes no mask for each pair of tokens"
    apart_ND = _evaluated(module, lambda: module.learned_hidden(plain))
    moved = float((together_ND - apart_ND).abs().max())
    exact = TOLERANCE.get(next(module.parameters()).dtype, TOLERANCE_16_BITS)
    tolerance = TOLERANCE_16_BITS if module.autocast else exact
    if moved <= tolerance * float(apart_ND.abs().max()):
        return ""
    return f"its hidden states would differ by {moved:.2g}"


def _evaluated(module: LossModule, work: Callable[[], Tensor]) -> Tensor:
    learning = module.training
    module.eval()
    try:
        return work()
    finally:
        module.train(learning)


def _probe_batch(module: LossModule) -> Batch:
    """Returns two prompts of different lengths, of two rows each."""
    ids_T = probe_ids(module.model)[0].cpu().numpy()
    starts, ends = ((0, 5), (0, 5), (2, 3), (2, 3)), ((0, 3), (4, 2), (1, 1), (3, 4))
    rows = [
        np.concatenate([np.roll(ids_T, -first)[:shared], np.roll(ids_T, -later)[:later_ids]])
        for (first, shared), (later, later_ids) in zip(starts, ends, strict=True)
    ]
    lengths_B = np.array([len(row) for row in rows])
    width = int(lengths_B.max())
    ids_BT = np.stack([np.pad(row, (0, width - len(row))) for row in rows])
    places_T = np.arange(width)[None]
    mask_BT = (places_T > 0) & (places_T < lengths_B[:, None])
    prefix = SharedPrefix(np.array([0, 0, 1, 1]), np.array([5, 3]))
    return Batch(ids_BT, lengths_B, mask_BT, prefix=prefix)


@torch.no_grad()
def _is_noisy(module: LossModule) -> bool:
    """Returns whether the model draws random numbers in training."""
    if any(isinstance(part, nn.Dropout) and part.p > 0 for part in module.modules()):
        return True
    learning, ids_BT = module.training, probe_ids(module.model)
    devices = [ids_BT.get_device()] if ids_BT.is_cuda else []
    with torch.random.fork_rng(devices):
        module.train()
        first, second = (module.hidden(ids_BT) for _ in range(2))
        module.train(learning)
    return not torch.equal(first, second)
