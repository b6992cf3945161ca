"""AdamW over the trained parameters, keyed by their names (arXiv:1711.05101).

The update, its state and its file are those of the torch engine, so that a run may continue on
either.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx
import numpy as np

from zoo.backends.base import OptimizerSpec, ParameterGroup, StepInfo
from zoo.backends.mlx.language import Slot
from zoo.core.errors import InputError

STATE_FILE = "optimizer.safetensors"
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
EVALUATED_BYTES = 1 << 26
"""The new values that are computed at once: old and new ones are in memory together."""

MOMENTS = ("exp_avg", "exp_avg_sq")


class NamedAdamW:
    """AdamW with state keyed by parameter names.

    Args:
        slots: the parameters to train, by canonical name.
        spec: the weight decay, and groups with their own rates.

    Raises:
        InputError: a group matches no parameter.
    """

    def __init__(self, slots: Mapping[str, Slot], spec: OptimizerSpec) -> None:
        self.slots = dict(slots)
        self._rates = _rates(self.slots, spec)
        self._state: dict[str, tuple[mx.array, mx.array]] = {}
        self._steps = 0
        self._moved = False

    def step(self, gradients: Mapping[str, mx.array], lr: float, max_grad_norm: float) -> StepInfo:
        """Clips and steps; skips a gradient that is not finite."""
        if not gradients:
            return StepInfo(grad_norm=0.0, skipped=False, changed=False)
        squares = mx.stack([mx.square(grad).sum() for grad in gradients.values()])
        norm = float(mx.sqrt(squares.sum()).item())
        if not math.isfinite(norm):
            return StepInfo(grad_norm=norm, skipped=True, changed=False)
        share = min(1.0, max_grad_norm / (norm + 1e-6))
        self._steps += 1
        changed: list[mx.array] = []
        pending: list[mx.array] = []
        for name, grad in gradients.items():
            slot, current = self.slots[name], self.slots[name].get()
            updated = self._updated(name, current, grad * share, lr)
            slot.put(updated)
            pending += [updated, *self._state[name]]
            if not self._moved:
                changed.append(mx.any(updated != current))
            if sum(array.nbytes for array in pending) > EVALUATED_BYTES:
                mx.eval(pending)
                pending = []
        mx.eval(pending)
        # The comparison costs time, so it stops once a value has changed.
        self._moved = self._moved or any(bool(array.item()) for array in changed)
        return StepInfo(grad_norm=norm, skipped=False, changed=self._moved)

    def _updated(self, name: str, value: mx.array, grad: mx.array, lr: float) -> mx.array:
        lr_scale, decay = self._rates[name]
        rate = lr * lr_scale
        mean, square = self._state.get(name) or (mx.zeros_like(value), mx.zeros_like(value))
        mean = mean + (1 - BETA_1) * (grad - mean)
        square = BETA_2 * square + (1 - BETA_2) * mx.square(grad)
        self._state[name] = (mean, square)
        corrected = mx.sqrt(square) / math.sqrt(1 - BETA_2**self._steps) + EPSILON
        return value * (1 - rate * decay) - rate / (1 - BETA_1**self._steps) * mean / corrected

    def save(self, folder: Path) -> None:
        """Writes the state as safetensors: `<parameter>/exp_avg`, `/exp_avg_sq`, `/step`."""
        from safetensors.numpy import save_file

        tensors: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = {}
        for name, moments in self._state.items():
            for part, value in zip(MOMENTS, moments, strict=True):
                tensors[f"{name}/{part}"] = np.array(value)
            tensors[f"{name}/step"] = np.array(self._steps, dtype=np.float32)
        save_file(tensors, folder / STATE_FILE)

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote.

        Raises:
            InputError: the state belongs to other parameters.
        """
        from safetensors.numpy import load_file

        tensors = load_file(folder / STATE_FILE)
        odd = {key.rpartition("/")[0] for key in tensors} ^ self.slots.keys()
        if odd and tensors:
            raise InputError(
                f"{folder / STATE_FILE}: {min(odd)}: in only one of the checkpoint and this policy",
                code="backends.other_checkpoint",
            )
        self._state, self._steps = {}, 0
        for name in self.slots if tensors else ():
            mean, square = (mx.array(tensors[f"{name}/{part}"]) for part in MOMENTS)
            self._state[name] = (mean, square)
            self._steps = int(tensors[f"{name}/step"])


def _rates(slots: Mapping[str, Slot], spec: OptimizerSpec) -> dict[str, tuple[float, float]]:
    """Returns the factor of the learning rate and the weight decay of each parameter."""
    fitting = {name: _group_of(name, spec) for name in slots}
    for group in spec.groups:
        if slots and group not in fitting.values():
            raise InputError(
                f"optimizer: group {group.suffix!r}: expected the ending of a trained parameter's "
                f"name, such as {next(iter(slots))!r}",
                code="backends.no_such_group",
            )
    rates: dict[str, tuple[float, float]] = {}
    for name, group in fitting.items():
        usual = spec.weight_decay if slots[name].get().ndim > 1 else 0.0
        decay = usual if group.weight_decay is None else group.weight_decay
        rates[name] = (group.lr_scale, decay)
    return rates


def _group_of(name: str, spec: OptimizerSpec) -> ParameterGroup:
    fits = (group for group in spec.groups if name.endswith(group.suffix))
    return next(fits, ParameterGroup(suffix=""))
