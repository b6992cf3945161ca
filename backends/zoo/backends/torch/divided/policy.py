"""A policy whose weights are divided among processes; see `divide`."""

import gc
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from zoo.backends.base import (
    Batch,
    Objective,
    OptimizerSpec,
    Prefix,
    Sampling,
    Scorer,
    StepInfo,
    TokenEvent,
)
from zoo.backends.torch import trained
from zoo.backends.torch.adapters import start
from zoo.backends.torch.adapters.reference import ReferencePolicy
from zoo.backends.torch.divided.divide import Divided
from zoo.backends.torch.divided.optimizer import DividedOptimizer
from zoo.backends.torch.generation.probes import takes_padding
from zoo.backends.torch.loss import DeviceBatch, Teacher
from zoo.backends.torch.parallel.group import Group, lost_in_a_pass, lost_process
from zoo.backends.torch.parallel.shares import whole
from zoo.backends.torch.policy import TorchPolicy
from zoo.backends.torch.probe import probe_ids, same_logits
from zoo.backends.torch.vocabulary.head import Head
from zoo.core.errors import GuardError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


class DividedPolicy(TorchPolicy):
    """A policy of which each process has a share.

    Args:
        policy: the whole policy, in the memory of the host; it becomes this one.
        spec: the settings of its optimizer.
        ranks: the processes.
        device: the device of the shares.
        reload: loads the whole policy as it was before training.

    Raises:
        InputError: the model cannot be divided.
        GuardError: the divided model has other logits.
    """

    divided = True

    def __init__(
        self,
        policy: TorchPolicy,
        spec: OptimizerSpec,
        ranks: Group,
        device: str,
        reload: "Callable[[], TorchPolicy]",
    ) -> None:
        vars(self).update(vars(policy))
        self.ranks, self._processes, self._reload = ranks, ranks, reload
        self._spec, self._place = spec, device
        self._held: dict[str, Tensor] | None = None
        self._held_start: dict[str, Tensor] = {}
        ids = probe_ids(self.module.model)[0].tolist()
        logits = policy.logits(ids)
        _measure_abilities(policy)
        self._shares = Divided(self.module, ranks, device)
        self._require_logits(ids, logits)
        self.parameters = trained.trained_parameters(self.module)
        self.optimizer = DividedOptimizer(self.parameters, spec, ranks)

    def _require_logits(self, ids: list[int], logits: "NDArray[np.float32]") -> None:
        actual, expected = torch.from_numpy(self.logits(ids)), torch.from_numpy(logits)
        dtype = next(self.module.parameters()).dtype
        if not same_logits(actual, expected, torch.bfloat16 if self.module.autocast else dtype):
            apart = float((actual - expected).abs().max())
            name = type(self.module.model).__name__
            raise GuardError(
                f"sharding: expected the logits of the whole {name}, got others, by {apart:.3g}",
                hint="sharding=none",
                code="torch.logits_differ",
            )

    def _passed(self, work: Callable[[], T], *, learns: bool = False) -> T:
        return self._shares.run(work, learns=learns) if self.divided else work()

    # ---- sampling and scoring

    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        *,
        keys: Sequence[int],
        prefix: Prefix | None = None,
    ) -> Iterator[TokenEvent]:
        """Continues each prompt with all weights gathered. Collective.

        All tokens are sampled in this call. If the caller drew them one by one, the weights would
        stay gathered in between, and each process could free them at a different time. Processes
        may have different numbers of prompts, or none.
        """
        if not self.divided:
            return super().stream(prompts, sampling, keys=keys, prefix=prefix)
        with self._shares.gathered():
            return iter(
                self._passed(
                    lambda: list(super(DividedPolicy, self).stream(prompts, sampling, keys=keys))
                )
            )

    def read_prefix(self, ids: Sequence[int]) -> Prefix | None:
        """Returns None: what was read would be the state of weights that are freed."""
        return None if self.divided else super().read_prefix(ids)

    def logits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Returns the logits after each id. Collective."""
        return self._passed(lambda: super(DividedPolicy, self).logits(ids))

    def hidden_and_head(self, batch: DeviceBatch) -> Teacher:
        """Returns hidden states and a head, with a copy of its weights if this is a frozen model.

        A policy's own head is whole again in the pass that uses it.
        """
        if self.parameters or not self.divided:
            return super().hidden_and_head(batch)
        with self._inference():
            return self._passed(
                lambda: Teacher(self.module.learned_hidden(batch), _copied(self.module.head()))
            )

    @contextmanager
    def reference(self) -> "Generator[ReferencePolicy | TorchPolicy]":
        """Yields the model as it was before training; in full training it is divided, too."""
        with super().reference() as policy:
            if isinstance(policy, ReferencePolicy) or not self.divided:
                yield policy
                return
            if not isinstance(policy, DividedPolicy):
                self._frozen = DividedPolicy(
                    policy, self._spec, self._processes, self._place, self._reload
                )
            assert self._frozen is not None
            yield self._frozen

    # ---- learning

    def accumulate(
        self, objective: Objective, batch: Batch, *, key: int, teacher: Scorer | None = None
    ) -> dict[str, float]:
        """Adds the gradient of `objective` over all processes. Collective."""
        with lost_in_a_pass(self._processes):
            return super().accumulate(objective, batch, key=key, teacher=teacher)

    def optimizer_step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Clips the gradient, which the passes have added up, and steps each share. Collective."""
        return self.optimizer.step(lr, max_grad_norm)

    # ---- state

    @contextmanager
    def collected(self, *, optimizer: bool) -> Generator[None]:
        """Gathers what is trained in the host memory of the first process. Collective."""
        if not self.divided:
            yield
            return
        self._held = self._gathered(self.parameters)
        self._held_start = self._gathered(start.frozen_values(self.peft_model))
        shares = self.optimizer
        assert isinstance(shares, DividedOptimizer)
        if optimizer:
            shares.collect()
        try:
            yield
        finally:
            self._held, self._held_start = None, {}
            shares.release()

    def _gathered(self, parameters: "Mapping[str, nn.Parameter]") -> dict[str, Tensor]:
        gathered: dict[str, Tensor] = {}
        with lost_process(self._processes):
            for name, parameter in parameters.items():
                joined = whole(parameter)
                if self.ranks.is_first:
                    gathered[name] = joined.cpu()
        return gathered

    def trained(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the trained parameters; outside of `collected` it is collective."""
        if self._held is None:
            yield from super().trained()
            return
        for name, value in self._held.items():
            yield name, value.float().numpy().copy()

    def save_checkpoint(self, folder: Path) -> None:
        """Writes the same files as one process, in the first process, inside `collected`."""
        if not self.divided:
            super().save_checkpoint(folder)
            return
        assert self._held is not None
        trained.save(self._held, folder)
        if self._held_start:
            trained.save(self._held_start, folder, trained.START_FILE)
        self.optimizer.save(folder)

    def reassemble(self) -> None:
        """Loads the whole model with the trained values in the first process. Collective.

        The others' policy is of no use afterwards.
        """
        with self.collected(optimizer=False):
            values, frozen = self._held or {}, self._held_start
        del self.module, self.peft_model, self.parameters, self.optimizer, self._shares
        self._frozen, self.divided = None, False
        gc.collect()
        if not self.ranks.is_first:
            return
        vars(self).update(vars(self._reload()) | {"ranks": self.ranks})
        trained.assign(self.parameters, values, "values")
        trained.assign(start.frozen_values(self.peft_model), frozen, "values")


def _measure_abilities(policy: TorchPolicy) -> None:
    """Tests what the model can do before its passes are exchanges: the findings are kept."""
    takes_padding(policy.module)
    policy.notes()


def _copied(head: Head) -> Head:
    """Returns a head with weights of its own, which stay when those of the model are freed."""
    module: Any = copy(head.module)
    module._parameters = {
        name: None if p is None else nn.Parameter(p.detach().clone(), requires_grad=False)
        for name, p in module._parameters.items()
    }
    return replace(head, module=module)
