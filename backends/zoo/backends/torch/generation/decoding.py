"""Token by token: what a model keeps of the tokens it has read, row by row.

Legend: B rows, P positions so far (padded on the left), V vocabulary, Q new tokens, T tokens of a
row after the shared prefix.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from zoo.backends.torch.generation.growing import grow_in_place
from zoo.backends.torch.loss import LossModule
from zoo.backends.torch.packing.attention import PREFIX_LAYERS
from zoo.backends.torch.packing.prefix_attention import Layers
from zoo.models.refusals import refusals


def keeps_keys(module: LossModule) -> bool:
    """Returns whether the model has a key-value cache, and so accepts masks and positions."""
    return "past_key_values" in signature(type(module.model).forward).parameters


class Decoding:
    """A batch of texts that a model continues; a model without a state reads each text again.

    Args:
        module: the model.
        prompts: the texts so far, at least one token each; padded on the left to one length.
        before: keys and values of a prefix that all texts begin with; `prompts` are without it.
    """

    def __init__(
        self, module: LossModule, prompts: Sequence[Sequence[int]], cached: Layers | None = None
    ) -> None:
        self.module, self.keyed = module, keeps_keys(module)
        self.before = cached
        self.state: dict[str, Any] = {}
        device = next(module.parameters()).device
        width = max(map(len, prompts))
        ids = [[0] * (width - len(p)) + list(p) for p in prompts]
        mask = [[0] * (width - len(p)) + [1] * len(p) for p in prompts]
        self.ids_BP = torch.tensor(ids, device=device)
        self.mask_BP = torch.tensor(mask, device=device)

    def read_prompts(self, *, grows: bool = True) -> Tensor:
        """Returns the logits after each prompt, float32 `[B, V]`.

        Args:
            grows: whether tokens will follow.

        Raises:
            InputError: the model cannot run with a cache; the message has transformers' reason.
        """
        logits_BV = self._logits(self.ids_BP)
        for state in self.state.values() if grows else ():
            grow_in_place(state)
        return logits_BV

    def read(self, ids_B: Tensor) -> Tensor:
        """Appends a token to each text and returns the logits after it, float32 `[B, V]`."""
        ids_B1 = ids_B[:, None]
        self.ids_BP = torch.cat([self.ids_BP, ids_B1], -1)
        self.mask_BP = torch.cat([self.mask_BP, torch.ones_like(ids_B1)], -1)
        return self._logits(ids_B1 if self.state else self.ids_BP)

    def select(self, rows: Sequence[int]) -> None:
        """Keeps the texts of these rows, in this order; a row may occur several times.

        Raises:
            AttributeError: the model's state has no such operation.
        """
        rows_B = torch.tensor(rows, device=self.ids_BP.device)
        self.ids_BP, self.mask_BP = self.ids_BP[rows_B], self.mask_BP[rows_B]
        for state in self.state.values():
            state.batch_select_indices(rows_B)

    def _logits(self, ids_BP: Tensor) -> Tensor:
        inputs: dict[str, Any] = {}
        if self.keyed:
            positions_BP = (self.mask_BP.cumsum(-1) - 1).clamp(min=0)
            inputs["attention_mask"] = self.mask_BP
            inputs["position_ids"] = positions_BP[:, -ids_BP.shape[1] :]
        if self.before is not None:
            inputs["position_ids"] = inputs["position_ids"] + self.before[0][0].shape[2]
            inputs["attention_mask"] = self._seen(ids_BP.shape[1])
            inputs[PREFIX_LAYERS] = self.before
        with refusals(f"{type(self.module.model).__name__} cannot be sampled"):
            logits_BV, self.state = self.module.next_logits(ids_BP, **inputs, **self.state)
        return logits_BV

    def _seen(self, new: int) -> Tensor:
        """Returns which tokens of its row each new token sees, `[B, 1, Q, T]`."""
        width = self.mask_BP.shape[1]
        places_T = torch.arange(width, device=self.mask_BP.device)
        earlier_QT = places_T[None] <= places_T[width - new :, None]
        return (self.mask_BP.bool()[:, None] & earlier_QT)[:, None]
