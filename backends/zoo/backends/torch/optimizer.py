"""AdamW over the trained parameters, keyed by their names (arXiv:1711.05101).

Each step checks the gradient for finite values and clips it; state is restored bit for bit.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.base import OptimizerSpec, ParameterGroup, StepInfo
from zoo.core.errors import InputError

STATE_FILE = "optimizer.safetensors"
BETAS = (0.9, 0.999)


class NamedAdamW:
    """AdamW with state keyed by parameter names.

    Args:
        parameters: the parameters to train, by canonical name.
        spec: the weight decay, and groups with their own rates.

    Raises:
        InputError: a group matches no parameter.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec) -> None:
        self.parameters = dict(parameters)
        # A policy for inference has no parameters to train; torch requires at least one group.
        groups = _groups(self.parameters, spec) or [
            {"params": [], "weight_decay": 0.0, "lr_scale": 1.0}
        ]
        self.adamw = torch.optim.AdamW(groups, lr=0.0, betas=BETAS, fused=True)
        self._moved = False

    def step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Clips, steps and clears the gradient; skips a gradient that is not finite."""
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        if not gradients:
            return StepInfo(grad_norm=0.0, skipped=False, changed=False)
        norm = torch.nn.utils.get_total_norm(gradients)
        if not bool(torch.isfinite(norm)):
            self.adamw.zero_grad()
            return StepInfo(grad_norm=float(norm), skipped=True, changed=False)
        torch.nn.utils.clip_grads_with_norm_(self.parameters.values(), max_grad_norm, norm)
        before = None if self._moved else self._fingerprint()
        for group in self.adamw.param_groups:
            group["lr"] = lr * group["lr_scale"]
        self.adamw.step()
        self.adamw.zero_grad()
        # The comparison costs more than the step, so it stops once a value has changed.
        if before is not None:
            self._moved = not torch.equal(before, self._fingerprint())
        return StepInfo(grad_norm=float(norm), skipped=False, changed=self._moved)

    def _fingerprint(self) -> Tensor:
        """Returns one checksum per parameter, which changes if a single value does."""
        return torch.stack(
            [p.detach().view(torch.int32).sum(dtype=torch.int64) for p in self.parameters.values()]
        )

    def tensors(self) -> dict[str, Tensor]:
        """Returns the state by name: `<parameter>/exp_avg`, `/exp_avg_sq`, `/step`."""
        state = self.adamw.state
        return {
            f"{name}/{part}": torch.as_tensor(value).detach().cpu().contiguous()
            for name, parameter in self.parameters.items()
            for part, value in state.get(parameter, {}).items()
        }

    def save(self, folder: Path) -> None:
        """Writes the state as safetensors."""
        from safetensors.torch import save_file

        save_file(self.tensors(), folder / STATE_FILE)

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote.

        Raises:
            InputError: the state belongs to other parameters.
        """
        from safetensors.torch import load_file

        tensors = load_file(folder / STATE_FILE)
        odd = {key.rpartition("/")[0] for key in tensors} ^ self.parameters.keys()
        if odd and tensors:
            raise InputError(
                f"{folder / STATE_FILE}: {min(odd)}: in only one of the checkpoint and this policy"
            )
        for key, value in tensors.items():
            name, _, part = key.rpartition("/")
            parameter = self.parameters[name]
            # The fused step requires all state on the parameter's device, the step count too.
            # A view would keep the file mapped, which Windows then cannot move.
            self.adamw.state[parameter][part] = value.to(parameter.device, copy=True)


def _groups(parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec) -> list[dict[str, Any]]:
    """Groups parameters by rate and decay; each belongs to the first group that matches it."""
    fitting = {name: _group_of(name, spec) for name in parameters}
    for group in spec.groups:
        if parameters and group not in fitting.values():
            raise InputError(
                f"optimizer: group {group.suffix!r}: expected the ending of a trained parameter's "
                f"name, such as {next(iter(parameters))!r}"
            )
    found: dict[tuple[float, float], list[nn.Parameter]] = {}
    for matrices in (True, False):
        for name, parameter in parameters.items():
            if (parameter.dim() > 1) is matrices:
                group, usual = fitting[name], spec.weight_decay if matrices else 0.0
                decay = usual if group.weight_decay is None else group.weight_decay
                key = (group.lr_scale, decay)
                found.setdefault(key, []).append(parameter)
    return [
        {"params": params, "weight_decay": decay, "lr_scale": lr_scale}
        for (lr_scale, decay), params in found.items()
    ]


def _group_of(name: str, spec: OptimizerSpec) -> ParameterGroup:
    fits = (group for group in spec.groups if name.endswith(group.suffix))
    return next(fits, ParameterGroup(suffix=""))
