"""A loaded model with its adapter: hidden states, trained parameters, and the backbone's gradient.

Legend: B rows, T positions, N scored tokens, D hidden size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from zoo.backends.mlx.files.load import Loaded
from zoo.backends.mlx.layers.state import PassState
from zoo.backends.mlx.vocabulary.head import Head, find_head


@dataclass(frozen=True)
class Slot:
    """The place of a parameter: a module and the name in it."""

    module: Any
    key: str

    def get(self) -> mx.array:
        """Returns the value."""
        value: mx.array = self.module[self.key]
        return value

    def put(self, value: mx.array) -> None:
        """Replaces the value."""
        self.module[self.key] = value


class Language:
    """A causal language model, and which of its parameters are trained.

    Args:
        loaded: the model and its config.
        state: what its adapted layers read in each pass.
        slots: the trained parameters by canonical name: those of peft and transformers.
        value_head: the slot of the weight `[1, D]` from hidden states to values.
    """

    def __init__(
        self,
        loaded: Loaded,
        state: PassState,
        slots: Mapping[str, Slot],
        value_head: Slot | None = None,
    ) -> None:
        self.loaded, self.state, self.value_head = loaded, state, value_head
        self.slots = dict(slots)
        self.model = loaded.model

    @property
    def head(self) -> Head:
        """The output layer."""
        return find_head(self.model, self.loaded.config, self.state)

    def hidden(self, ids_BT: mx.array, cache: Any = None) -> mx.array:  # noqa: ANN401
        """Returns the backbone's last hidden states, `[B, T, D]`.

        Padding is on the right and attention is causal, so real tokens never attend to it.
        """
        hidden_BTD: mx.array = self.model.model(ids_BT, cache=cache)
        return hidden_BTD

    def head_slots(self) -> dict[str, str]:
        """Returns the canonical names of the output layer's trained parameters, by their keys."""
        layer = self.head.layer
        return {slot.key: name for name, slot in self.slots.items() if slot.module is layer}

    def backbone_slots(self) -> dict[str, Slot]:
        """Returns the trained parameters that hidden states depend on.

        A head that is tied to the embedding is one of them.
        """
        layer, tied = self.head.layer, "lm_head" not in self.model
        return {n: s for n, s in self.slots.items() if tied or s.module is not layer}

    def forward(
        self, hidden: Callable[[], mx.array], tokens: int
    ) -> tuple[mx.array, Callable[[mx.array], dict[str, mx.array]]]:
        """Computes hidden states once, for the output layer and for the backbone's gradient.

        The graph of the gradient is built before its cotangent is known: that is an array of zeros,
        whose memory is filled later. So the hidden states are evaluated outside of any trace, and
        those activations that the gradient needs are kept, not computed again.

        Args:
            hidden: computes hidden states `[N, D]` from the current parameters.
            tokens: N.

        Returns:
            The hidden states, float32, evaluated, and a function to call once: it takes the
            gradient by them and returns that by each parameter of the backbone, not evaluated.
        """
        slots = self.backbone_slots()
        originals = {name: slot.get() for name, slot in slots.items()}
        slope_ND = mx.zeros((tokens, self.loaded.config["hidden_size"]))
        mx.eval(slope_ND)

        def trace(*values: mx.array) -> mx.array:
            for slot, value in zip(slots.values(), values, strict=True):
                slot.put(value)
            return hidden().astype(mx.float32)

        try:
            (hidden_ND,), grads = mx.vjp(trace, list(originals.values()), [slope_ND])
        finally:
            for name, slot in slots.items():
                slot.put(originals[name])
        mx.eval(hidden_ND)

        def backward(dhidden_ND: mx.array) -> dict[str, mx.array]:
            if tokens:
                np.array(slope_ND, copy=False)[...] = np.array(dhidden_ND, copy=False)
            return dict(zip(slots, grads, strict=True))

        return hidden_ND, backward
