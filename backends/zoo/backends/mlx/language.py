"""A loaded model with its adapter: hidden states, trained parameters, and the backbone's gradient.

Legend: B rows, T positions, N scored tokens, D hidden size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from zoo.backends.mlx.head import Head, find_head
from zoo.backends.mlx.load import Loaded
from zoo.backends.mlx.state import PassState


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

    def backward(self, hidden: Callable[[], mx.array], slope: mx.array) -> dict[str, mx.array]:
        """Returns the gradient of `sum(hidden() * slope)` by each parameter of the backbone.

        Args:
            hidden: computes hidden states from the current parameters.
            slope: the gradient by those hidden states.
        """
        slots = self.backbone_slots()
        if not slots:
            return {}
        kept = {name: slot.get() for name, slot in slots.items()}

        def trace(*values: mx.array) -> mx.array:
            for slot, value in zip(slots.values(), values, strict=True):
                slot.put(value)
            return hidden()

        try:
            out, grads = mx.vjp(trace, list(kept.values()), [slope])
        finally:
            for name, slot in slots.items():
                slot.put(kept[name])
        del out
        return dict(zip(slots, grads, strict=True))
