"""Tests a model on a few tokens: may its rows come and go, each with its own adapter?"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.backends.base import Sampling, TokenEvent
from zoo.backends.batching import Factors, Request
from zoo.backends.torch.generation.decoding import Decoding, keeps_keys
from zoo.backends.torch.generation.prefix import layers_of
from zoo.backends.torch.generation.probes import (
    PADDED,
    difference,
    picks_keys,
    probe_prompts,
    row_refusal,
)
from zoo.backends.torch.generation.slots import Row, Slots, text_config
from zoo.backends.torch.loss import LossModule
from zoo.core.errors import InputError


def slots_refusal(module: LossModule) -> str | None:
    """Returns why a model's rows cannot come and go between tokens; None if they can."""
    abilities = module.abilities
    if abilities.slots is None:
        abilities.slots = _unable(module) or row_refusal(module) or _differs(module)
    return abilities.slots or None


def _unable(module: LossModule) -> str:
    config: Any = module.model.config
    kernel = getattr(config, "_attn_implementation", None)
    if kernel != "sdpa":
        return f"its attention ({kernel}) takes no masks of rows"
    if not keeps_keys(module) or picks_keys(module):
        return "it does not attend to all tokens before"
    text = text_config(module)
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    if any(kind in str(rope) for kind in ("longrope", "dynamic")):
        return "its positions depend on the longest row"
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    # a test on a few tokens would not see the end of a window
    windows = getattr(text, "sliding_window", None) and getattr(text, "use_sliding_window", True)
    if kinds != {"full_attention"} or (windows and not getattr(text, "layer_types", None)):
        return "some layers attend to a window"
    if layers_of(module, probe_prompts(module)[0]) is None:
        return "it keeps another state than keys and values"
    return ""


class _Watched(Slots):
    """Slots that keep the last logits `[1, V]` of each row."""

    def __init__(self, module: LossModule, *, rows: int, tokens: int) -> None:
        super().__init__(module, rows=rows, tokens=tokens)
        self.last: dict[int, Tensor] = {}

    def logits(self, prompts: Sequence[list[int]], names: Sequence[str | None]) -> Tensor:
        """Returns the logits of each prompt's third token, `[B, V]`, beside one that ends early."""
        self._kept.clear()
        self.add(Request(tuple(prompts[-1][:3]), Sampling(max_new_tokens=1)))
        sampling = Sampling(max_new_tokens=3)
        pairs = zip(prompts, names, strict=True)
        numbers = [self.add(Request(tuple(ids), sampling, 0, name)) for ids, name in pairs]
        while self.busy:
            self.step()
        return torch.cat([self.last[number] for number in numbers])

    def probe(self, seed: int) -> Factors:
        """Returns random factors, see `RowAdapters.probe`."""
        return self._adapters.probe(seed)

    def _draw(self, rows: Sequence[Row], logits_BV: Tensor) -> list[TokenEvent]:
        self.last |= {row.number: logits_BV[i : i + 1] for i, row in enumerate(rows)}
        return super()._draw(rows, logits_BV)


@torch.no_grad()
def _differs(module: LossModule) -> str:
    """Compares rows that come and go with the same rows read alone, without adapters and with."""
    first, second = probe_prompts(module)
    prompts = (first, second[:3], second)
    plain = []
    for prompt in prompts:
        text = Decoding(module, [prompt])
        logits_BV = text.read_prompts()
        for _ in range(2):
            logits_BV = text.read(logits_BV.argmax(-1))
        plain.append(logits_BV)
    slots = _Watched(module, rows=3, tokens=2 * PADDED)
    try:
        rows_SV = slots.logits(prompts, (None, None, None))
        if reason := difference(module, rows_SV, torch.cat(plain)):
            return reason
        for number in (1, 2):
            slots.add_adapter(f"{number}", slots.probe(number))
        names = ("1", None, "2")
        mixed_SV = slots.logits(prompts, names)
        pairs = zip(prompts, names, strict=True)
        alone_SV = torch.cat([slots.logits([prompt], [name]) for prompt, name in pairs])
        return difference(module, mixed_SV, alone_SV) or ""
    except (InputError, RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        return f"its rows cannot come and go ({type(error).__name__})"
    finally:
        slots.close()
