"""A policy on MLX: implements `zoo.backends.base.Policy`.

Legend: B rows, T positions, N scored tokens, D hidden size.
"""

import gc
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from zoo.backends.base import (
    Batch,
    MemoryInfo,
    Objective,
    OptimizerSpec,
    Policy,
    Prefix,
    Rollout,
    Sampling,
    Scorer,
    Stat,
    StepInfo,
    TokenEvent,
)
from zoo.backends.mlx import adapter, memory, result, trained
from zoo.backends.mlx.files.load import load_model
from zoo.backends.mlx.generation.generate import PREFILL_TOKENS, stream
from zoo.backends.mlx.generation.prefix import read_prefix
from zoo.backends.mlx.language import Language
from zoo.backends.mlx.layers.state import PassState
from zoo.backends.mlx.loss import DeviceBatch, differentiate, moved, to_device
from zoo.backends.mlx.optimizer import NamedAdamW
from zoo.backends.mlx.vocabulary import statistics
from zoo.backends.mlx.vocabulary.head import CHUNK_TOKENS
from zoo.backends.mlx.vocabulary.statistics import Scored, Stats, Teacher
from zoo.backends.spec import LoraSpec
from zoo.core.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS_PADDED = "rows are computed with padding: MLX has no packing"
PROMPTS_AGAIN = "updates on MLX compute a prompt again for each of its answers; sampling does not"


class MlxPolicy(Policy):
    """A causal language model, its trained parameters, and their optimizer.

    Args:
        language: the model and its trained parameters.
        lora: the settings of the adapter that is trained; None without one.
        adapted: whether the model has an adapter, trained or not.
        optimizer: the settings of the optimizer.
        base: loads the model as it was before training; used in full training.
        packing: whether rows were to be computed without padding, to report that they are not.
    """

    def __init__(
        self,
        language: Language,
        *,
        lora: LoraSpec | None = None,
        adapted: bool = False,
        optimizer: OptimizerSpec | None = None,
        base: "Callable[[], MlxPolicy] | None" = None,
        packing: bool = False,
    ) -> None:
        self._lora, self._base, self._packing = lora, base, packing
        self._frozen: MlxPolicy | None = None
        self._set_language(language, adapted=adapted, optimizer=optimizer)

    def _set_language(
        self, language: Language, *, adapted: bool, optimizer: OptimizerSpec | None = None
    ) -> None:
        self.language, self.adapted = language, adapted
        self.optimizer = NamedAdamW(language.slots, optimizer or OptimizerSpec())
        self._gradients: dict[str, mx.array] = {}
        self._receive: Callable[[str, NDArray[np.float32]], None] | None = None

    def parameter_count(self) -> int:
        """Returns the number of the base model's parameters, tied ones once."""
        return result.parameter_count(self.language)

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
        device = to_device(batch)
        frozen = self._teacher(teacher, batch, device)
        with self.language.state.learning(key):
            hidden_ND = self._hidden(device)
            mx.eval(hidden_ND)
            stats = statistics.score(self._scored(device, frozen, hidden_ND), needs)
            return {stat: trained.to_host(device.scatter(value)) for stat, value in stats.items()}

    def accumulate(
        self, objective: Objective, batch: Batch, *, key: int, teacher: Scorer | None = None
    ) -> dict[str, float]:
        """Adds the gradient of `objective` on `batch` and returns `loss` and metrics."""
        device = to_device(batch)
        frozen = self._teacher(teacher, batch, device)
        totals: dict[str, float] = {}

        def cotangents(stats: Stats) -> Mapping[Stat, mx.array]:
            loss, metrics, slopes = differentiate(objective, stats, device.arrays, device.scatter)
            totals.update({"loss": loss, **metrics})
            return slopes

        with self.language.state.learning(key):
            names = self.language.head_slots()
            hidden_ND, backward = self.language.forward(
                lambda: self._hidden(device), device.places_N.size
            )
            scored = self._scored(device, frozen, hidden_ND)
            above = statistics.gradients(
                scored, objective.needs, cotangents, head_trained="weight" in names
            )
            self._add({names[part]: grad for part, grad in above.head.items()})
            if above.value_1D is not None:
                self._add({result.VALUE_HEAD: above.value_1D})
            self._add(backward(above.hidden_ND))
        return totals

    def _add(self, gradients: Mapping[str, mx.array]) -> None:
        """Adds to the accumulated gradient and evaluates it, or passes it on."""
        if self._receive is not None:
            for name, grad in gradients.items():
                self._receive(name, trained.to_host(grad))
            return
        for name, grad in gradients.items():
            previous = self._gradients.get(name)
            wide = grad.astype(mx.float32)
            self._gradients[name] = wide if previous is None else previous + wide
        mx.eval(self._gradients)

    def _hidden(self, device: DeviceBatch) -> mx.array:
        return device.gather(self.language.hidden(device.ids_BT))

    def _scored(self, device: DeviceBatch, teacher: Teacher | None, hidden_ND: mx.array) -> Scored:
        value_head = self.language.value_head
        return Scored(
            hidden_ND=hidden_ND,
            targets_N=device.targets_N(),
            head=self.language.head,
            temperature=device.temperature,
            value_weight_1D=value_head.get() if value_head else None,
            teacher=teacher,
        )

    def differentiate(
        self,
        objective: Objective,
        stats: "Mapping[Stat, NDArray[np.float32]]",
        arrays: Mapping[str, Any],
    ) -> "tuple[dict[str, float], dict[Stat, NDArray[np.float32]]]":
        """Differentiates an objective by the statistics of a window."""
        leaves = {stat: mx.array(value) for stat, value in stats.items()}
        inputs = {name: moved(value) for name, value in arrays.items()}
        loss, metrics, slopes = differentiate(objective, leaves, inputs)
        return {"loss": loss, **metrics}, {s: trained.to_host(v) for s, v in slopes.items()}

    def optimizer_step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Clips the accumulated gradient, takes an AdamW step, and clears the gradient."""
        gradients, self._gradients = self._gradients, {}
        return self.optimizer.step(gradients, lr, max_grad_norm)

    def as_teacher(self, device: DeviceBatch) -> Teacher:
        """Returns this policy's hidden states at the learned tokens, for use as a teacher."""
        language = self.language
        off = not language.state.adapted
        with language.state.learning(None):
            hidden_ND = self._hidden(device)
            mx.eval(hidden_ND)

        def logits(hidden_CD: mx.array) -> mx.array:
            with language.state.off() if off else language.state.learning(None):
                return language.head.transformed(language.head.product(hidden_CD))

        return Teacher(hidden_ND, logits)

    def _teacher(self, teacher: Scorer | None, batch: Batch, device: DeviceBatch) -> Teacher | None:
        if teacher is None:
            return None
        if not isinstance(teacher, MlxPolicy | ReferencePolicy):
            raise TypeError("teacher: expected a policy of the same backend")
        got, expected = teacher.language.head.tokens, self.language.head.tokens
        if got != expected:
            raise InputError(
                f"teacher: expected logits of {expected:,} tokens, got {got:,}",
                code="backends.other_vocabulary",
            )
        if batch.teacher is None:
            return teacher.as_teacher(device)
        placed = to_device(batch.teacher)
        if not mx.array_equal(placed.targets_N(), device.targets_N()):
            raise ValueError("teacher: expected the same learned tokens as the batch, got others")
        return teacher.as_teacher(placed)

    @contextmanager
    def reference(self) -> "Generator[ReferencePolicy | MlxPolicy]":
        """Yields the model as it was before training, usable next to this one and as its teacher.

        In full training it is a second model in memory, which is kept for later calls.

        Raises:
            InputError: the policy is for inference and has no adapter.
        """
        if self.adapted:
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
        """Returns the logits after each id, `[T, V]`."""
        hidden_BTD, head = self.language.hidden(mx.array([list(ids)])), self.language.head
        parts = range(0, len(ids), CHUNK_TOKENS)
        chunks = (hidden_BTD[0, i : i + CHUNK_TOKENS] for i in parts)
        return np.concatenate(
            [trained.to_host(head.transformed(head.product(chunk))) for chunk in chunks]
        )

    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        *,
        keys: Sequence[int],
        prefix: Prefix | None = None,
    ) -> Iterator[TokenEvent]:
        """Continues each prompt; row i samples from a random stream seeded only by `keys[i]`."""
        return stream(self.language, prompts, sampling, keys, prefix)

    def read_prefix(self, ids: Sequence[int]) -> Prefix | None:
        """Reads tokens that many prompts begin with; None if the model keeps other states."""
        return read_prefix(self.language, ids, PREFILL_TOKENS)

    def notes(self, *, sampling: bool = True, prefix: bool = True) -> tuple[str, ...]:
        """Returns what an update computes for each row although rows have it in common."""
        del sampling
        repeated = (PROMPTS_AGAIN,) if prefix else ()
        return (ROWS_PADDED, *repeated) if self._packing else repeated

    # ---- state

    def gradients(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the gradient accumulated since the last step, by canonical name."""
        for name, slot in self.language.slots.items():
            grad = self._gradients.get(name)
            yield name, trained.to_host(mx.zeros_like(slot.get()) if grad is None else grad)

    def send_gradients(self, receive: "Callable[[str, NDArray[np.float32]], None]") -> None:
        """Passes on the gradients of each pass, which are computed together, one by one.

        Raises:
            ValueError: they are passed on already.
        """
        if self._receive is not None:
            raise ValueError("send_gradients: expected one call")
        self._receive = receive

    def assign(self, name: str, values: "NDArray[np.float32]") -> None:
        """Replaces one trained parameter.

        Raises:
            InputError: its name or shape is not one of this policy.
        """
        named = {name: self.language.slots[name]} if name in self.language.slots else {}
        trained.assign(named, {name: values}, "values")

    def trained(self) -> "Iterator[tuple[str, NDArray[np.float32]]]":
        """Yields the trained parameters by canonical name, as float32 copies."""
        return trained.copies(self.language.slots)

    def load_trained(self, values: "Mapping[str, NDArray[np.float32]]") -> None:
        """Restores values from `trained`.

        Raises:
            InputError: the names or shapes are not those of this policy.
        """
        trained.assign(self.language.slots, values, "values")

    def save_checkpoint(self, folder: Path) -> None:
        """Writes trained parameters and optimizer state as safetensors."""
        trained.save(self.language.slots, folder)
        self.optimizer.save(folder)

    def load_checkpoint(self, folder: Path) -> None:
        """Restores what `save_checkpoint` wrote, bit for bit."""
        trained.load(self.language.slots, folder)
        self.optimizer.load(folder)

    def save_result(self, folder: Path, *, base: str) -> None:
        """Writes a PEFT folder (adapter) or a float32 transformers folder (full)."""
        if self._lora is None:
            result.save_full(self.language, folder)
            return
        slots = {name: s for name, s in self.language.slots.items() if name != result.VALUE_HEAD}
        adapter.save_lora(slots, self._lora, folder, base=base)

    def reopen(self, folder: Path) -> None:
        """Replaces the weights, which are freed first, by those of a written result."""
        loaded, adapted, state = self.language.loaded, self.adapted, PassState()
        del self.language, self.optimizer
        self._frozen, self._gradients = None, {}
        if adapted:
            adapter.remove_lora(loaded.model)
            adapter.load_lora(loaded, folder, state)
        else:
            del loaded
            gc.collect()
            mx.clear_cache()
            loaded = load_model(folder, dtype="f32")
        self._set_language(Language(loaded, state, {}), adapted=adapted)

    def memory(self) -> MemoryInfo:
        """Returns the peak memory of the process and of the GPU."""
        return memory.peak()


class ReferencePolicy(Scorer):
    """A policy with its adapter disabled, for scoring and as a teacher."""

    def __init__(self, policy: MlxPolicy) -> None:
        self._policy = policy

    @property
    def language(self) -> Language:
        """The model of the policy."""
        return self._policy.language

    def score(
        self,
        batch: Batch,
        needs: frozenset[Stat],
        *,
        teacher: Scorer | None = None,
        key: int | None = None,
    ) -> "dict[Stat, NDArray[np.float32]]":
        """Returns each statistic of the base model, without dropout."""
        del key
        with self.language.state.off():
            return self._policy.score(batch, needs, teacher=teacher)

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, *, keys: Sequence[int]
    ) -> list[Rollout]:
        """Continues each prompt with the base model; see `Policy.generate`."""
        with self.language.state.off():
            return self._policy.generate(prompts, sampling, keys=keys)

    def logits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Returns the base model's logits; see `Policy.logits`."""
        with self.language.state.off():
            return self._policy.logits(ids)

    def as_teacher(self, device: DeviceBatch) -> Teacher:
        """Returns the base model's hidden states at the learned tokens."""
        with self.language.state.off():
            return self._policy.as_teacher(device)
