"""An optimizer over the trained parameters, whose state is keyed by their names.

Each step checks the gradient for finite values and clips it; state is restored bit for bit.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from zoo.backends.base import OptimizerSpec, StepInfo
from zoo.backends.torch.optimizers.axes import NO_AXES, Axes
from zoo.backends.torch.optimizers.library_adamw import CONSTANT, is_librarys, restore
from zoo.backends.torch.optimizers.one_block import OneBlockAdamW
from zoo.backends.torch.optimizers.table import Inputs, make_optimizers, notes_of
from zoo.core.errors import GuardError, InputError

STATE_FILE = "optimizer.safetensors"

PLAIN = "adamw"
"""The optimizer whose state files do not name it, as in checkpoints of earlier versions."""


STEPS = "optimizer/steps"
"""The steps of an optimizer whose parameters take turns; no parameter has this name."""


class NamedOptimizer:
    """An optimizer with state keyed by parameter names.

    Args:
        parameters: the parameters to train, by canonical name.
        spec: which optimizer, the weight decay, and groups with their own rates.
        axes: where outputs, experts and heads are.

    Attributes:
        notes: a sentence about the tensors that another optimizer steps.

    Raises:
        InputError: a group matches no parameter.
        NotAvailableError: this device or installation lacks the optimizer.
        GuardError: a parameter has 16 bits, in which small updates would be lost.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        spec: OptimizerSpec,
        axes: Axes = NO_AXES,
    ) -> None:
        self.parameters = dict(parameters)
        for name, parameter in self.parameters.items():
            if parameter.dtype.itemsize < 4:
                kind = str(parameter.dtype).removeprefix("torch.")
                raise GuardError(
                    f"{name}: expected a trained parameter in float32, got {kind}",
                    code="torch.not_in_single_precision",
                )
        self.name = spec.name
        inputs = Inputs(self.parameters, spec, axes)
        self.optimizers, self.notes = make_optimizers(inputs), notes_of(inputs)
        self._moved = False

    def step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Clips, steps and clears the gradient; skips a gradient that is not finite."""
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        if not gradients:
            return StepInfo(grad_norm=0.0, skipped=False, changed=False)
        norm = self.norm_of(gradients)
        if not bool(torch.isfinite(norm)):
            self.clear()
            return StepInfo(grad_norm=float(norm), skipped=True, changed=False)
        torch.nn.utils.clip_grads_with_norm_(self.parameters.values(), max_grad_norm, norm)
        fingerprint = None if self._moved else self._fingerprint()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr * group["lr_scale"]
            optimizer.step()
        self.clear()
        # The comparison costs more than the step, so it stops once a value has changed.
        if fingerprint is not None:
            self._moved = self.has_changed(fingerprint)
        return StepInfo(grad_norm=float(norm), skipped=False, changed=self._moved)

    def norm_of(self, gradients: Sequence[Tensor]) -> Tensor:
        """Returns the norm of the whole gradient."""
        return torch.nn.utils.get_total_norm(gradients)

    def has_changed(self, fingerprint: Tensor) -> bool:
        """Returns whether a value is another than when `fingerprint` was taken."""
        return not torch.equal(fingerprint, self._fingerprint())

    def own_state(self, value: Tensor) -> Tensor:
        """Returns what this process keeps of a part of a saved state."""
        return value

    def clear(self) -> None:
        """Drops the gradient."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def _fingerprint(self) -> Tensor:
        """Returns one checksum per parameter, which changes if a single value does."""
        return torch.stack(
            [p.detach().view(torch.int32).sum(dtype=torch.int64) for p in self.parameters.values()]
        )

    def _states(self) -> dict[str, dict[str, Any]]:
        """Returns the state of each parameter that an optimizer steps, by name."""
        of = {
            parameter: optimizer.state[parameter]
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        return {name: of[parameter] for name, parameter in self.parameters.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Returns the state by name, such as `<parameter>/exp_avg`; counts as whole numbers."""
        steps = [(STEPS, torch.tensor(optimizer.steps)) for optimizer in self._by_turns()]
        return dict(steps) | {
            f"{name}/{part}": torch.as_tensor(value).detach().cpu().contiguous()
            for name, state in self._states().items()
            for part, value in state.items()
            if part not in CONSTANT
        }

    def _by_turns(self) -> list[OneBlockAdamW]:
        """Returns the optimizers that train blocks in turns."""
        return [optimizer for optimizer in self.optimizers if isinstance(optimizer, OneBlockAdamW)]

    def save(self, folder: Path) -> None:
        """Writes the state as safetensors."""
        from safetensors.torch import save_file

        header = None if self.name == PLAIN else {"optimizer": self.name}
        save_file(self.tensors(), folder / STATE_FILE, header)

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote.

        Raises:
            InputError: the state is of another optimizer, or belongs to other parameters.
        """
        from safetensors import safe_open
        from safetensors.torch import load_file

        file = folder / STATE_FILE
        with safe_open(file, "pt") as opened:
            written = (opened.metadata() or {}).get("optimizer", PLAIN)
        if written != self.name:
            raise InputError(
                f"{file}: optimizer: expected the state of {self.name}, got {written}",
                code="backends.other_checkpoint",
            )
        tensors = load_file(file)
        for optimizer in self._by_turns():
            if STEPS not in tensors:
                raise InputError(
                    f"{file}: {STEPS}: expected the number of steps, got none",
                    code="torch.damaged_checkpoint",
                )
            optimizer.resume_at(int(tensors.pop(STEPS)))
        for name, parts in _by_parameter(tensors).items():
            if name not in self.parameters:
                raise InputError(
                    f"{file}: {name}: in only one of the checkpoint and this policy",
                    code="backends.other_checkpoint",
                )
            parameter = self.parameters[name]
            owner = self._owner(parameter)
            if is_librarys(owner):
                restore(owner, parameter, parts)
                continue
            for part, value in parts.items():
                state = self.own_state(value)
                owner.state[parameter][part] = _restored(state, parameter.device)

    def _owner(self, parameter: Tensor) -> Optimizer:
        """Returns the optimizer that steps a parameter."""
        for optimizer in self.optimizers:
            if any(
                parameter is candidate
                for group in optimizer.param_groups
                for candidate in group["params"]
            ):
                return optimizer
        raise AssertionError("every parameter has an optimizer")


def _by_parameter(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Returns the parts of states by the names of their parameters."""
    state: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        state.setdefault(name, {})[part] = value
    return state


def _restored(value: Tensor, device: torch.device) -> Tensor | int:
    """Returns one part of a state as its optimizer keeps it."""
    if value.dtype is torch.int64 and value.dim() == 0:
        return int(value)
    # The fused step requires all state on the parameter's device, the step count too.
    # A view would keep the file mapped, which Windows then cannot move.
    return value.to(device, copy=True)
