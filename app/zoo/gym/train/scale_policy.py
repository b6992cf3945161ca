"""A policy whose trained parameters are the scales and plain differences of a dense delta.

It wraps one in full training, whose weights are base plus delta. A step turns the gradient of the
weights into that of the scales, changes these by Adam, and computes the weights again. A rate is a
share: each scale moves by at most that share of what it was at the start, so one rate fits tensors
and models of any size.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.backends.base import Policy, StepInfo
from zoo.gym.delta.file.reader import Delta, load_delta, tensor_parts
from zoo.gym.delta.reading.weights import Weights, read_values
from zoo.gym.delta.scales import TrainableTensor
from zoo.gym.delta.write_scales import DELTA_FILE, with_scales
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Batch, MemoryInfo, Objective, Sampling, Scorer, Stat, TokenEvent

_SCALES, _STATE = "scales.safetensors", "moments.safetensors"
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


@dataclass
class _Slot:
    """A trained part: its values, what a rate of 1 moves them by, and Adam's moments."""

    tensor: TrainableTensor
    part: str
    unit: "NDArray[np.float32]"
    mean: "NDArray[np.float32]"
    square: "NDArray[np.float32]"

    @property
    def values(self) -> "NDArray[np.float32]":
        """The values; changed in place."""
        values: NDArray[np.float32] = self.tensor.parts[self.part]
        return values


class ScalePolicy(Policy):
    """Trains the scales of a delta through a policy that trains all weights.

    Args:
        inner: a policy in full training, loaded from the base; its weights are replaced.
        delta: a dense delta of that base.
        base: the base's files.
        parameters: the parameter of `inner` for each tensor of the files.

    Raises:
        InputError: the delta has nothing to train, or changes a tensor that the loaded model does
            not have as such.
    """

    def __init__(
        self, inner: Policy, delta: Delta, base: Weights, parameters: Mapping[str, str]
    ) -> None:
        self.inner, self.ranks = inner, inner.ranks
        self._delta, self._steps, self._moved = delta, 0, False
        self._tensors: dict[str, TrainableTensor] = {}
        self._slots: dict[str, _Slot] = {}
        self._gradients: dict[str, NDArray[np.float32]] = {}
        for tensor in delta.header.tensors:
            if not tensor.terms:
                continue
            if tensor.name not in parameters:
                raise InputError(
                    f"{delta.path}: tensor {tensor.name!r}: expected one that the loaded model has"
                    " as a parameter, got one that is joined or split on loading",
                    hint="--distill off",
                    code="train.scales_of_joined_tensor",
                )
            trainable = TrainableTensor(
                tensor, tensor_parts(delta, tensor), partial(read_values, base, tensor.name)
            )
            self._tensors[parameters[tensor.name]] = trainable
            for each in trainable.trainables:
                name = f"{tensor.name}.{each.part}"
                self._slots[name] = _slot(trainable, each.part, each.sharing == "value")
        if not self._slots:
            raise InputError(
                f"{delta.path}: expected a dense delta with scales, got none that can be trained",
                code="train.no_scales",
            )
        inner.send_gradients(self._receive)
        self._compute_weights()

    def _compute_weights(self) -> None:
        for name, tensor in self._tensors.items():
            self.inner.assign(name, tensor.weights())

    # ---- scoring, learning and sampling

    def parameter_count(self) -> int:
        """Returns the number of parameters of the base model."""
        return self.inner.parameter_count()

    def score(
        self,
        batch: "Batch",
        needs: "frozenset[Stat]",
        *,
        teacher: "Scorer | None" = None,
        key: int | None = None,
    ) -> "dict[Stat, NDArray[np.float32]]":
        """Returns each statistic of base plus delta."""
        return self.inner.score(batch, needs, teacher=teacher, key=key)

    def logits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Returns the logits of base plus delta."""
        return self.inner.logits(ids)

    def accumulate(
        self,
        objective: "Objective",
        batch: "Batch",
        *,
        key: int,
        teacher: "Scorer | None" = None,
    ) -> dict[str, float]:
        """Adds the gradient of the weights, of which a step makes that of the scales."""
        return self.inner.accumulate(objective, batch, key=key, teacher=teacher)

    def differentiate(
        self,
        objective: "Objective",
        stats: "Mapping[Stat, NDArray[np.float32]]",
        arrays: Mapping[str, Any],
    ) -> "tuple[dict[str, float], dict[Stat, NDArray[np.float32]]]":
        """Differentiates an objective by the statistics of a window."""
        return self.inner.differentiate(objective, stats, arrays)

    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: "Sampling",
        *,
        keys: Sequence[int],
        prefix: Any = None,  # noqa: ANN401 - what the inner policy read
    ) -> "Iterator[TokenEvent]":
        """Continues each prompt with base plus delta."""
        return self.inner.stream(prompts, sampling, keys=keys, prefix=prefix)

    def packs(self, longest: int) -> bool:
        """Returns whether batches are computed without padding."""
        return self.inner.packs(longest)

    @contextmanager
    def reference(self) -> "Generator[Scorer]":
        """Yields the base, which is a second model in memory."""
        with self.inner.reference() as base:
            yield base

    def optimizer_step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Takes a step of Adam on the scales, and computes the weights again.

        Args:
            lr: the share of its first value that a scale moves by at most.
            max_grad_norm: the bound of the norm of the gradient by these shares.
        """
        import numpy as np

        gradients = {name: self._slots[name].unit * gradient for name, gradient in self.gradients()}
        self._gradients = {}
        norm = math.sqrt(sum(float(np.square(g, dtype="f8").sum()) for g in gradients.values()))
        if not math.isfinite(norm):
            return StepInfo(grad_norm=norm, skipped=True, changed=False)
        clip = min(1.0, max_grad_norm / (norm + 1e-6)) if max_grad_norm else 1.0
        self._steps += 1
        for name, gradient in gradients.items():
            self._moved |= _step(self._slots[name], gradient * np.float32(clip), lr, self._steps)
        self._compute_weights()
        return StepInfo(grad_norm=norm, skipped=False, changed=self._moved)

    def _receive(self, name: str, gradient: "NDArray[np.float32]") -> None:
        """Adds the gradient of a parameter's scales to that of earlier passes."""
        if (tensor := self._tensors.get(name)) is None:
            return
        for part, values in tensor.gradients(gradient).items():
            key = f"{tensor.tensor.name}.{part}"
            self._gradients[key] = self._gradients.get(key, 0) + values

    # ---- state

    def gradients(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the gradient of each trained part since the last step."""
        import numpy as np

        for name, slot in self._slots.items():
            gradient = self._gradients.get(name)
            yield name, np.zeros_like(slot.mean) if gradient is None else gradient.copy()

    def send_gradients(self, receive: "Callable[[str, NDArray[np.float32]], None]") -> None:
        """Refused: the scales of a delta have no other scales beneath them.

        Raises:
            ValueError: always.
        """
        del receive
        raise ValueError("send_gradients: expected a policy of weights, got one of scales")

    def trained(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields each trained part by its name in the delta file."""
        for name, slot in self._slots.items():
            yield name, slot.values.copy()

    def assign(self, name: str, values: "NDArray[np.float32]") -> None:
        """Replaces one trained part, and computes the weights again."""
        slot = self._slots[name]
        slot.values[...] = values
        for parameter, tensor in self._tensors.items():
            if tensor is slot.tensor:
                self.inner.assign(parameter, tensor.weights())

    def load_trained(self, values: "Mapping[str, NDArray[np.float32]]") -> None:
        """Restores values from `trained`.

        Raises:
            InputError: the names or shapes are not those of this policy.
        """
        shapes = {name: slot.values.shape for name, slot in self._slots.items()}
        if {name: array.shape for name, array in values.items()} != shapes:
            raise InputError(
                "scales: expected those of this delta, got others", code="train.other_scales"
            )
        for name, slot in self._slots.items():
            slot.values[...] = values[name]
        self._compute_weights()

    def save_checkpoint(self, folder: Path) -> None:
        """Writes the scales and Adam's moments."""
        import numpy as np
        from safetensors.numpy import save_file

        save_file(dict(self.trained()), folder / _SCALES)
        moments = {f"{name}/mean": slot.mean for name, slot in self._slots.items()}
        moments |= {f"{name}/square": slot.square for name, slot in self._slots.items()}
        save_file(moments | {"steps": np.array([self._steps], np.int64)}, folder / _STATE)

    def load_checkpoint(self, folder: Path) -> None:
        """Restores what `save_checkpoint` wrote, bit for bit.

        Raises:
            InputError: it is of another delta.
        """
        from safetensors.numpy import load_file

        self.load_trained(load_file(folder / _SCALES))
        moments = load_file(folder / _STATE)
        for name, slot in self._slots.items():
            slot.mean[...] = moments[f"{name}/mean"]
            slot.square[...] = moments[f"{name}/square"]
        self._steps = int(moments["steps"][0])

    def save_result(self, folder: Path, *, base: str) -> None:
        """Writes the delta with its scales as they are now."""
        del base
        with_scales(self._delta, self._tensors.values(), folder / DELTA_FILE)

    def reopen(self, folder: Path) -> None:
        """Reads back the delta that `save_result` wrote."""
        delta = load_delta(folder / DELTA_FILE)
        for tensor in self._tensors.values():
            parts = tensor_parts(delta, tensor.tensor)
            for each in tensor.trainables:
                tensor.parts[each.part][...] = parts[each.part]
        self._compute_weights()

    def memory(self) -> "MemoryInfo":
        """Returns the peak memory so far."""
        return self.inner.memory()


def _slot(tensor: TrainableTensor, part: str, is_raw: bool) -> _Slot:
    import numpy as np

    start = np.abs(tensor.parts[part])
    # differences of a vector may be zero by chance; a row whose scale is zero has not changed
    unit = np.full_like(start, np.sqrt(np.mean(np.square(start)))) if is_raw else start
    return _Slot(tensor, part, unit, np.zeros_like(start), np.zeros_like(start))


def _step(slot: _Slot, gradient: "NDArray[np.float32]", lr: float, steps: int) -> bool:
    """Takes a step of Adam (arXiv:1412.6980, algorithm 1); returns whether a value changed.

    A scale ends at zero rather than with another sign.
    """
    import numpy as np

    first, second = (np.float32(beta) for beta in _BETAS)
    slot.mean += (1 - first) * (gradient - slot.mean)
    slot.square += (1 - second) * (gradient * gradient - slot.square)
    mean = slot.mean / np.float32(1 - _BETAS[0] ** steps)
    square = slot.square / np.float32(1 - _BETAS[1] ** steps)
    values = slot.values
    before = values.copy()
    values -= np.float32(lr) * slot.unit * mean / (np.sqrt(square) + np.float32(_EPSILON))
    if slot.part != "raw":
        np.maximum(values, 0, out=values)
    return not np.array_equal(before, values)
