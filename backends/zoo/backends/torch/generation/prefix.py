"""A prefix that many prompts begin with, read once and kept once for all rows.

Legend: B rows, V vocabulary.

Only plain caches take part: keys and values of every token, in attention that takes any mask. What
a model does is tested once on a few tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zoo.backends.base import Prefix
from zoo.backends.torch.generation.decoding import Decoding, keeps_keys
from zoo.backends.torch.generation.probes import difference, picks_keys, probe_prompts, row_refusal
from zoo.backends.torch.loss import LossModule
from zoo.backends.torch.packing import attention
from zoo.backends.torch.packing.prefix_attention import Layers
from zoo.core.errors import InputError


@dataclass(frozen=True)
class KeptPrefix(Prefix):
    """A prefix on torch.

    Attributes:
        layers: the keys and values of each layer.
        module: the model that read it.
        version: how often its trained weights had been written then.
    """

    layers: Layers = field(repr=False)
    module: LossModule = field(repr=False)
    version: int


@torch.no_grad()
def read_prefix(module: LossModule, ids: Sequence[int]) -> KeptPrefix | None:
    """Reads a prefix and keeps its keys and values; None if the model cannot share them."""
    module.eval()
    if not ids or prefix_refusal(module) is not None:
        return None
    return _read(module, ids)


def check_prefix(
    module: LossModule, prefix: Prefix, prompts: Sequence[Sequence[int]]
) -> KeptPrefix:
    """Checks that a prefix is one of this model's weights and these prompts.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(prefix, KeptPrefix) or prefix.module is not module:
        raise ValueError("prefix: expected what this model has read, got that of another one")
    if prefix.version != written(module):
        raise ValueError("prefix: expected the same weights as it was read with, got others")
    count = len(prefix.ids)
    if any(tuple(prompt[:count]) != prefix.ids or len(prompt) <= count for prompt in prompts):
        raise ValueError("prefix: expected prompts that begin with it and go on, got others")
    return prefix


def written(module: LossModule) -> int:
    """Returns how often trained weights have been written."""
    return sum(parameter._version for parameter in module.parameters() if parameter.requires_grad)


def prefix_refusal(module: LossModule) -> str | None:
    """Returns why rows cannot share a prefix that is kept once; None if they can."""
    abilities = module.abilities
    if abilities.kept is None:
        abilities.kept = _unable(module) or row_refusal(module) or _differs(module)
    return abilities.kept or None


def _unable(module: LossModule) -> str:
    kernel = getattr(module.model.config, "_attn_implementation", None)
    if kernel != "sdpa":
        return f"its attention ({kernel}) cannot be computed in two parts"
    if not keeps_keys(module) or picks_keys(module):
        return "it does not attend to all tokens before"
    attention.install()
    return ""


def _read(module: LossModule, ids: Sequence[int]) -> KeptPrefix | None:
    layers = layers_of(module, ids)
    if layers is None:
        return None
    size = sum(part.nbytes for pair in layers for part in pair)
    return KeptPrefix(tuple(ids), size, layers, module, written(module))


def layers_of(module: LossModule, ids: Sequence[int]) -> Layers | None:
    """Returns keys and values of tokens in each layer; None if a layer keeps something else."""
    from transformers.cache_utils import DynamicLayer

    text = Decoding(module, [ids])
    text.read_prompts(grows=False)
    cache = getattr(text.state.get("past_key_values"), "layers", ())
    if not cache or any(type(layer) is not DynamicLayer for layer in cache):
        return None
    if any(layer.get_seq_length() != len(ids) for layer in cache):
        return None
    return [(layer.keys, layer.values) for layer in cache]


@torch.no_grad()
def _differs(module: LossModule) -> str:
    """Compares rows after a kept prefix with the same rows read in full, for two steps."""
    first, second = probe_prompts(module)
    shared, rests = first[:5], (first[5:], second[:1])
    plain = Decoding(module, [[*shared, *rest] for rest in rests])
    plain_SV = _two_steps(plain, second)
    try:
        cached = _read(module, shared)
        if cached is None:
            return "it keeps another state than keys and values"
        cached_SV = _two_steps(Decoding(module, rests, cached.layers), second)
    except (InputError, RuntimeError, ValueError, TypeError, AttributeError, IndexError):
        return "its attention cannot be computed in two parts"
    return difference(module, cached_SV, plain_SV) or ""


def _two_steps(text: Decoding, ids: Sequence[int]) -> Tensor:
    """Returns the logits after two prompts, after a token of each, and after one of the second."""
    device = text.ids_BP.device
    logits = [text.read_prompts(), text.read(torch.tensor(ids[:2], device=device))]
    text.select([1, 0])
    return torch.cat([*logits, text.read(torch.tensor(ids[2:4], device=device))])
