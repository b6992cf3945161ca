"""AdamW over the trained parameters, keyed by their names (arXiv:1711.05101).

Learning rate, clipping and the finite check are per step; state is saved and restored bit for bit.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from zoo.backends.base import StepInfo
from zoo.core.errors import InputError

STATE_FILE = "optimizer.safetensors"
BETAS = (0.9, 0.999)


class NamedAdamW:
    """AdamW whose state is named after the parameters it belongs to."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, weight_decay: float) -> None:
        self.parameters = dict(parameters)
        decayed = [p for p in self.parameters.values() if p.dim() > 1]
        others = [p for p in self.parameters.values() if p.dim() <= 1]
        groups = [
            {"params": params, "weight_decay": decay}
            for params, decay in ((decayed, weight_decay), (others, 0.0))
            if params
        ]
        # A policy for inference has nothing to optimize: torch wants at least an empty group.
        groups = groups or [{"params": [], "weight_decay": 0.0}]
        self.adamw = torch.optim.AdamW(groups, lr=0.0, betas=BETAS, fused=True)
        self._moved = False

    def step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Clips, steps and clears the gradient; a gradient that is not finite changes nothing."""
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
            group["lr"] = lr
        self.adamw.step()
        self.adamw.zero_grad()
        # Looking costs more than stepping, so it ends once the values have been seen to move.
        if before is not None:
            self._moved = not torch.equal(before, self._fingerprint())
        return StepInfo(grad_norm=float(norm), skipped=False, changed=self._moved)

    def _fingerprint(self) -> Tensor:
        """Returns one integer per parameter that changes when any of its bits does."""
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
            # The fused step wants every part where the parameter is, the step count too. A copy:
            # without one the state stays a view of the mapped file, which Windows then cannot move.
            self.adamw.state[parameter][part] = value.to(parameter.device, copy=True)
