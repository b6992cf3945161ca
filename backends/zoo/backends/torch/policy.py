"""A policy on torch: implements `zoo.backends.base.Policy`.

Legend: B rows, T positions, N scored tokens, D hidden size.
"""

import gc
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from zoo.backends.base import (
    Batch,
    LoadSpec,
    MemoryInfo,
    Objective,
    OptimizerSpec,
    Policy,
    Sampling,
    Scorer,
    Stat,
    StepInfo,
    TokenEvent,
)
from zoo.backends.torch import memory, packable, trained
from zoo.backends.torch.adapters import folder as adapter_folder
from zoo.backends.torch.adapters import start
from zoo.backends.torch.adapters.names import is_added
from zoo.backends.torch.adapters.reference import ReferencePolicy
from zoo.backends.torch.adapters.whole import without_adapter
from zoo.backends.torch.files.load import load_model
from zoo.backends.torch.generation.generate import stream
from zoo.backends.torch.generation.prefix import read_prefix
from zoo.backends.torch.layers.noise import noisy_embeddings
from zoo.backends.torch.layers.router import RouterLoss
from zoo.backends.torch.loss import (
    DeviceBatch,
    LossModule,
    Teacher,
    differentiate,
    require_same_width,
    to_device,
)
from zoo.backends.torch.optimizers.axes import axes_of
from zoo.backends.torch.optimizers.named import NamedOptimizer
from zoo.backends.torch.parallel.gradients import sum_gradients
from zoo.backends.torch.parallel.group import TorchRanks
from zoo.backends.torch.probe import find_backbone
from zoo.backends.torch.quantized.base import count_weights
from zoo.backends.torch.quiet import quiet
from zoo.backends.torch.reward_model import RewardModelWriter, open_reward_model
from zoo.backends.torch.streaming.computed import compute_linear
from zoo.backends.torch.vocabulary import statistics
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from peft import PeftModel

    from zoo.backends.sampling import Prefix
    from zoo.backends.torch.generation.slots import Slots

T = TypeVar("T")


class TorchPolicy(Policy):
    """A causal language model, its trained parameters, and their optimizer.

    Args:
        model: the transformers model; layers may have an adapter.
        peft_model: peft's wrapper around `model`, if it has an adapter.
        value_head: a linear layer from hidden states to one value.
        optimizer: the settings of the optimizer.
        autocast: run the backbone in bf16 while the weights stay float32.
        base: loads the model as it was before training; used in full training.
        router: the router loss that is added to every objective.
        offloads: keep the activations that are saved for the backward pass in the host's memory.
        packing: compute rows of different lengths without padding, if the model allows it.
        reward_writer: of a policy that becomes a reward model, how it is written.
        noise_alpha: the strength of noise on the embeddings in training.

    Attributes:
        folder: the folder that it was loaded from.
        spec: the settings that it was loaded with.
    """

    folder: Path
    spec: LoadSpec

    def __init__(
        self,
        model: nn.Module,
        *,
        peft_model: "PeftModel | None" = None,
        value_head: nn.Module | None = None,
        optimizer: OptimizerSpec | None = None,
        autocast: bool = False,
        base: "Callable[[], TorchPolicy] | None" = None,
        router: RouterLoss | None = None,
        offloads: bool = False,
        packing: bool = False,
        reward_writer: RewardModelWriter | None = None,
        noise_alpha: float = 0.0,
    ) -> None:
        self._noise_alpha, self._sends = noise_alpha, False
        self._base, self._reward_writer = base, reward_writer
        self._frozen: TorchPolicy | None = None
        module = LossModule(
            model,
            value_head,
            autocast=autocast,
            router=router,
            packing=packing,
            offloads=offloads,
        )
        self._set_module(module, peft_model, optimizer)

    def _set_module(
        self,
        module: LossModule,
        peft_model: "PeftModel | None",
        optimizer: OptimizerSpec | None = None,
    ) -> None:
        self.module, self.peft_model = module, peft_model
        self.parameters = trained.trained_parameters(module)
        self.optimizer = NamedOptimizer(
            self.parameters, optimizer or OptimizerSpec(), axes_of(module.model)
        )

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.module.parameters()).device

    def parameter_count(self) -> int:
        """Returns the number of the base model's parameters, tied ones once."""
        named = self.module.model.named_parameters()
        return sum(count_weights(p) for name, p in named if not is_added(name))

    # ---- scoring and learning

    def score(
        self,
        batch: Batch,
        needs: frozenset[Stat],
        *,
        teacher: Scorer | None = None,
        key: int | None = None,
    ) -> "dict[Stat, NDArray[np.float32]]":
        """Returns each statistic as float32 `[B, T]`, zero where nothing is learned."""
        moved = self._moved(batch, learning=key is not None)
        frozen = self._teacher(teacher, batch, moved)
        with self._inference() if key is None else self._learning(key, moved):
            stats = self._passed(lambda: statistics.score(self.module.scored(moved, frozen), needs))
            return {stat: moved.scatter(value).cpu().numpy() for stat, value in stats.items()}

    def accumulate(
        self, objective: Objective, batch: Batch, *, key: int, teacher: Scorer | None = None
    ) -> dict[str, float]:
        """Adds the gradient of `objective` on `batch` and returns `loss` and metrics."""
        moved = self._moved(batch, learning=True)
        frozen = self._teacher(teacher, batch, moved)
        with self._learning(key, moved):
            work = partial(self.module, objective, moved, frozen)
            loss, metrics = self._passed(work, learns=True)
            loss.backward()
        return {name: float(value) for name, value in metrics.items()}

    def differentiate(
        self,
        objective: Objective,
        stats: "Mapping[Stat, NDArray[np.float32]]",
        arrays: Mapping[str, Any],
    ) -> "tuple[dict[str, float], dict[Stat, NDArray[np.float32]]]":
        """Differentiates on the host, because there are only a few numbers per token."""
        leaves = {stat: torch.from_numpy(value) for stat, value in stats.items()}
        moved = {k: torch.from_numpy(v) if hasattr(v, "dtype") else v for k, v in arrays.items()}
        loss, metrics, slopes = differentiate(objective, leaves, moved)
        figures = {name: float(value) for name, value in metrics.items()}
        return {"loss": float(loss), **figures}, {s: slope.numpy() for s, slope in slopes.items()}

    def optimizer_step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Clips the accumulated gradient, takes an optimizer step, and clears the gradient."""
        if isinstance(self.ranks, TorchRanks):
            sum_gradients(self.ranks, list(self.parameters.values()))
        return self.optimizer.step(lr, max_grad_norm)

    def hidden_and_head(self, batch: DeviceBatch) -> Teacher:
        """Returns this policy's hidden states at the learned tokens, for use as a teacher."""
        with self._inference():
            return self._passed(
                lambda: Teacher(self.module.learned_hidden(batch), self.module.head())
            )

    def _passed(self, work: Callable[[], T], *, learns: bool = False) -> T:
        """Returns what a pass returns; a divided model gathers its weights for it.

        Args:
            work: the pass.
            learns: whether its gradient is computed afterwards.
        """
        del learns
        return work()

    def _moved(self, batch: Batch, *, learning: bool) -> DeviceBatch:
        # rows would share the noise on the tokens that they begin with
        alone = replace(batch, prefix=None) if learning and self._noise_alpha else batch
        packed = packable.packed(self.module, alone, learning=learning)
        return to_device(batch, self.device, packed)

    def _teacher(self, teacher: Scorer | None, batch: Batch, moved: DeviceBatch) -> Teacher | None:
        if teacher is None:
            return None
        if not isinstance(teacher, TorchPolicy | ReferencePolicy):
            raise TypeError("teacher: expected a policy of the same backend")
        require_same_width(teacher.module, self.module)
        if batch.teacher is None and teacher.module is self.module:
            return teacher.hidden_and_head(moved)
        # another model may not compute rows in fewer tokens as this one does
        read = batch if batch.teacher is None else batch.teacher
        packed = packable.packed(teacher.module, read, learning=False)
        placed = to_device(read, self.device, packed)
        if not torch.equal(placed.targets_N(), moved.targets_N()):
            raise ValueError("teacher: expected the same learned tokens as the batch, got others")
        return teacher.hidden_and_head(placed)

    @contextmanager
    def _learning(self, key: int, batch: DeviceBatch) -> Generator[None]:
        """Enables dropout and noise seeded by `key`, with gradients: kernels depend on them."""
        torch.manual_seed(key)
        self.module.train()
        try:
            with noisy_embeddings(self.module, batch, self._noise_alpha, key):
                yield
        finally:
            self.module.eval()

    @contextmanager
    def _inference(self) -> Generator[None]:
        self.module.eval()
        with torch.no_grad():
            yield

    @contextmanager
    def reference(self) -> "Generator[ReferencePolicy | TorchPolicy]":
        """Yields the model as it was before training, usable next to this one and as its teacher.

        In full training it is a second model in memory, which is kept for later calls.

        Raises:
            InputError: the policy is for inference and has no adapter.
        """
        if self.peft_model is not None:
            yield ReferencePolicy(self)
            return
        if self._base is None:
            raise InputError(
                "reference: expected a policy in training, got one for inference",
                code="backends.not_in_training",
            )
        if self._frozen is None:
            self._frozen = self._base()
        yield self._frozen

    # ---- sampling

    def logits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Returns the logits after each id, `[T, V]`, computed without autocast.

        Of a reward model they are the terms of each score, `[T, D]`.
        """
        backbone, score = find_backbone(self.module.model), self.module.value_head
        with self._inference():
            ids_BT = torch.tensor([list(ids)], device=self.device)
            hidden_BTD = backbone(input_ids=ids_BT, use_cache=False).last_hidden_state
            if self._reward_writer is not None and isinstance(score, nn.Linear):
                terms: NDArray[np.float32] = (hidden_BTD[0].float() * score.weight).cpu().numpy()
                return terms
            return self.module.head().logits(hidden_BTD[0]).cpu().numpy()

    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        *,
        keys: Sequence[int],
        prefix: "Prefix | None" = None,
    ) -> Iterator[TokenEvent]:
        """Continues each prompt; row i samples from a random stream seeded only by `keys[i]`."""
        return stream(self.module, prompts, sampling, keys, prefix)

    def read_prefix(self, ids: Sequence[int]) -> "Prefix | None":
        """Reads tokens that many prompts begin with; None if the model cannot share them."""
        return read_prefix(self.module, ids)

    def batcher(self, *, rows: int, tokens: int, cache_bytes: int | None = None) -> "Slots | None":
        """Returns slots for requests; None if the model's rows cannot come and go."""
        from zoo.backends.torch.generation.slots import Slots
        from zoo.backends.torch.generation.slots_probe import slots_refusal

        if slots_refusal(self.module) is not None:
            return None
        return Slots(self.module, rows=rows, tokens=tokens, cache_bytes=cache_bytes)

    def notes(self, *, sampling: bool = True, prefix: bool = True) -> tuple[str, ...]:
        """Returns why rows share no prompts or are padded, and what the optimizer leaves out."""
        self.module.eval()
        notes = packable.notes(self.module, sampling=sampling, prefix=prefix)
        return (*notes, *self.optimizer.notes)

    def packs(self, longest: int) -> bool:
        """Returns whether batches with rows of up to this many tokens are without padding."""
        return packable.packs(self.module, longest)

    # ---- state

    def gradients(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the gradient accumulated since the last step, by canonical name."""
        return trained.gradients(self.parameters)

    def send_gradients(self, receive: "Callable[[str, NDArray[np.float32]], None]") -> None:
        """Passes on each parameter's gradient as soon as a pass has it, and frees it.

        Raises:
            ValueError: they are passed on already, or another process has a share of them.
        """
        if self._sends or self.divided or self.ranks.size > 1:
            raise ValueError("send_gradients: expected one process, and one call")
        self._sends = True
        trained.send_gradients(self.parameters, receive)

    def compute_weights(
        self,
        weights: "Callable[[str], NDArray[np.float32] | None]",
        receive: "Callable[[str, NDArray[np.float32]], None]",
    ) -> frozenset[str]:
        """Computes the weights of linear layers when they are used; the others are trained.

        Raises:
            ValueError: the policy is in training, or its base is not in its files.
        """
        if self.parameters or not self.spec.stream_layers:
            raise ValueError("compute_weights: expected a frozen policy with stream_layers")
        recomputes = self.spec.gradient_checkpointing
        computed = compute_linear(self.module.model, weights, receive, recomputes=recomputes)
        for name, parameter in self.module.model.named_parameters():
            if name not in computed:
                # a copy, because the files are mapped read-only
                parameter.data = parameter.data.to(torch.float32, copy=True)
                parameter.requires_grad_()
        for buffer in self.module.model.buffers():
            if buffer.is_floating_point():
                buffer.data = buffer.data.float()
        self.parameters = trained.trained_parameters(self.module)
        self.send_gradients(receive)
        return frozenset(computed)

    def assign(self, name: str, values: "NDArray[np.float32]") -> None:
        """Replaces one trained parameter.

        Raises:
            InputError: its name or shape is not one of this policy.
        """
        named = {name: self.parameters[name]} if name in self.parameters else {}
        trained.assign(named, {name: torch.from_numpy(values)}, "values")

    def trained(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the trained parameters by canonical name, as float32 copies."""
        return trained.copies(self.parameters)

    def load_trained(self, values: "Mapping[str, NDArray[np.float32]]") -> None:
        """Restores values from `trained`.

        Raises:
            InputError: the names or shapes are not those of this policy.
        """
        tensors = {name: torch.from_numpy(value) for name, value in values.items()}
        trained.assign(self.parameters, tensors, "values")

    def save_checkpoint(self, folder: Path) -> None:
        """Writes trained parameters and optimizer state as safetensors."""
        trained.save(self.parameters, folder)
        if frozen := start.frozen_values(self.peft_model):
            trained.save(frozen, folder, trained.START_FILE)
        self.optimizer.save(folder)

    def load_checkpoint(self, folder: Path) -> None:
        """Restores what `save_checkpoint` wrote, bit for bit."""
        trained.load(self.parameters, folder)
        if frozen := start.frozen_values(self.peft_model):
            trained.load(frozen, folder, trained.START_FILE)
        self.optimizer.load(folder)

    def save_result(self, folder: Path, *, base: str) -> None:
        """Writes a PEFT folder (adapter) or a float32 transformers folder (full, reward model)."""
        head = self.module.value_head
        if self._reward_writer is not None and isinstance(head, nn.Linear):
            self._reward_writer.save(self.module.model, head, folder)
            return
        if self.peft_model is not None:
            adapter_folder.save_adapter(self.peft_model, folder, base=base)
            return
        model: Any = self.module.model
        model.config.dtype = torch.float32
        with quiet():
            model.save_pretrained(folder)

    def reopen(self, folder: Path) -> None:
        """Replaces the weights, which are freed first, by those of a written result."""
        device, peft_model = self.device, self.peft_model
        del self.module, self.peft_model, self.parameters, self.optimizer
        self._frozen = None
        if self._reward_writer is not None:
            del peft_model
            gc.collect()
            scoring: Any = open_reward_model(folder, device.type)
            self._set_module(LossModule(scoring, scoring.score, autocast=False), None)
            return
        if peft_model is None:
            gc.collect()
            loaded = load_model(folder, dtype="f32")
            model, reloaded = loaded.to(device), None
        else:
            model = without_adapter(peft_model)
            del peft_model
            reloaded = adapter_folder.load_adapter(model, folder)
        model.requires_grad_(requires_grad=False)
        self._set_module(LossModule(model, None, autocast=False), reloaded)

    def memory(self) -> MemoryInfo:
        """Returns the peak memory of the process."""
        return memory.peak()
