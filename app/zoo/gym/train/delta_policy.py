"""A policy whose trained parameters are numbers of a delta: scales, differences, latent factors.

It wraps one that trains the weights or the adapter that the delta changes. A step turns their
gradient into that of the delta's numbers, changes these by Adam, and computes the parameters
again. A rate is a share: a number moves by at most that share of its size at the start, so one rate
fits tensors and models of any size.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.backends.base import Policy, StepInfo
from zoo.gym.delta.distilled import DELTA_FILE, with_trained
from zoo.gym.delta.file.reader import Delta, load_delta, tensor_parts
from zoo.gym.delta.trainable import TrainableTensor
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Batch, MemoryInfo, Objective, Sampling, Scorer, Stat, TokenEvent
    from zoo.gym.delta.codecs.values import Parts

_VALUES, _STATE = "trained.safetensors", "moments.safetensors"
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


@dataclass
class _Slot:
    """A trained part: its values, changed in place, their units, and Adam's moments."""

    values: "NDArray[np.float32]"
    unit: "NDArray[np.float32]"
    mean: "NDArray[np.float32]"
    square: "NDArray[np.float32]"
    is_scale: bool


class DeltaPolicy(Policy):
    """Trains numbers of a delta through a policy that trains what they change.

    Args:
        inner: a policy in training, loaded from the base; its parameters are replaced.
        delta: a delta of that base.
        tensors: the tensors of the delta that are trained.
        on_use: whether the weights of linear layers are computed when they are used, and not kept;
            the policy is then one for inference whose base stays in its files.

    Raises:
        InputError: there is nothing to train.
    """

    def __init__(
        self,
        inner: Policy,
        delta: Delta,
        tensors: Iterable[TrainableTensor],
        *,
        on_use: bool = False,
    ) -> None:
        self.inner, self.ranks = inner, inner.ranks
        self._delta, self._steps, self._moved = delta, 0, False
        self._tensors = list(tensors)
        self._slots = {
            f"{tensor.tensor.name}.{part}": _slot(values, tensor.units[part], part)
            for tensor in self._tensors
            for part, values in tensor.trained.items()
        }
        if not self._slots:
            raise InputError(
                f"{delta.path}: expected a delta with numbers to train, got one of exact values",
                code="train.nothing_to_train",
            )
        self._gradients: dict[str, NDArray[np.float32]] = {}
        self._of_parameter = {
            name: tensor for tensor in self._tensors for name in tensor.parameter_names
        }
        self._stored: Delta | None = None
        self._on_use: frozenset[str] = frozenset()
        if on_use:
            self._on_use = inner.compute_weights(self._weight, self._receive)
        else:
            inner.send_gradients(self._receive)
        self._compute_parameters()

    def _compute_parameters(self) -> None:
        self._stored = None
        self._assign_parameters()

    def _assign_parameters(self) -> None:
        for tensor in self._tensors:
            if not self._on_use.issuperset(tensor.parameter_names):
                for name, values in tensor.parameters(self._parts(tensor)):
                    self.inner.assign(name, values)

    def _weight(self, name: str) -> "NDArray[np.float32] | None":
        """Returns a parameter with its change; None if the delta does not change it."""
        if (tensor := self._of_parameter.get(name)) is None:
            return None
        return dict(tensor.parameters(self._parts(tensor)))[name]

    def _parts(self, tensor: TrainableTensor) -> "Parts | None":
        return None if self._stored is None else tensor_parts(self._stored, tensor.tensor)

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
        """Adds the gradient, by the delta's numbers."""
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
        """Yields what the inner policy began with: the base, or the adapter as it was."""
        with self.inner.reference() as base:
            yield base

    def optimizer_step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Takes a step of Adam on the numbers, and computes the parameters again.

        Args:
            lr: the share of its size at the start that a number moves by at most.
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
        self._compute_parameters()
        return StepInfo(grad_norm=norm, skipped=False, changed=self._moved)

    def _receive(self, name: str, gradient: "NDArray[np.float32]") -> None:
        """Adds the gradient by parts that a parameter's gradient gives."""
        if (tensor := self._of_parameter.get(name)) is None:
            return
        for part, values in tensor.gradients(name, gradient).items():
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
        """Replaces one trained part, and computes the model's parameters again."""
        self._slots[name].values[...] = values
        self._compute_parameters()

    def load_trained(self, values: "Mapping[str, NDArray[np.float32]]") -> None:
        """Restores values from `trained`.

        Raises:
            InputError: the names or shapes are not those of this policy.
        """
        shapes = {name: slot.values.shape for name, slot in self._slots.items()}
        if {name: array.shape for name, array in values.items()} != shapes:
            raise InputError(
                "delta: expected its trained numbers, got others", code="train.other_delta"
            )
        for name, slot in self._slots.items():
            slot.values[...] = values[name]
        self._compute_parameters()

    def save_checkpoint(self, folder: Path) -> None:
        """Writes the scales and Adam's moments."""
        import numpy as np
        from safetensors.numpy import save_file

        save_file(dict(self.trained()), folder / _VALUES)
        moments = {f"{name}/mean": slot.mean for name, slot in self._slots.items()}
        moments |= {f"{name}/square": slot.square for name, slot in self._slots.items()}
        save_file(moments | {"steps": np.array([self._steps], np.int64)}, folder / _STATE)

    def load_checkpoint(self, folder: Path) -> None:
        """Restores what `save_checkpoint` wrote, bit for bit.

        Raises:
            InputError: it is of another delta.
        """
        from safetensors.numpy import load_file

        self.load_trained(load_file(folder / _VALUES))
        moments = load_file(folder / _STATE)
        for name, slot in self._slots.items():
            slot.mean[...] = moments[f"{name}/mean"]
            slot.square[...] = moments[f"{name}/square"]
        self._steps = int(moments["steps"][0])

    def save_result(self, folder: Path, *, base: str) -> None:
        """Writes the delta with its numbers as they are now."""
        del base
        with_trained(self._delta, self._tensors, folder / DELTA_FILE)

    def reopen(self, folder: Path) -> None:
        """Computes the model's parameters from the delta that `save_result` wrote."""
        self._stored = load_delta(folder / DELTA_FILE)
        self._assign_parameters()

    def memory(self) -> "MemoryInfo":
        """Returns the peak memory so far."""
        return self.inner.memory()


def _slot(values: "NDArray[np.float32]", unit: "NDArray[np.float32]", part: str) -> _Slot:
    import numpy as np

    return _Slot(values, unit, np.zeros_like(values), np.zeros_like(values), "scale" in part)


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
    if slot.is_scale:
        np.maximum(values, 0, out=values)
    return not np.array_equal(before, values)
