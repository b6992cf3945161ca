"""Loads a model folder as a policy on MLX."""

from dataclasses import replace
from pathlib import Path

import mlx.core as mx

from zoo.backends import load_backend
from zoo.backends.base import (
    INFERENCE,
    Backend,
    LoadSpec,
    LoraSpec,
    Parts,
    RewardModel,
)
from zoo.backends.machine.detect import torch_device
from zoo.backends.memory import MemoryEstimate, MemoryNeed, estimate_memory
from zoo.backends.mlx import adapter, memory, result
from zoo.backends.mlx.checkpointing import checkpoint_activations
from zoo.backends.mlx.files.load import empty_model, load_model, parameters_of
from zoo.backends.mlx.files.quantized import GROUPS, check_quantization
from zoo.backends.mlx.language import Language, Slot
from zoo.backends.mlx.layers.state import PassState
from zoo.backends.mlx.policy import MlxPolicy
from zoo.backends.mlx.probe import check_model
from zoo.backends.mlx.settings import refuse_settings
from zoo.backends.model_folder import tensor_names, warn_of_unused_adapter
from zoo.backends.precision import Precision, Workload
from zoo.core.errors import GymError, InputError
from zoo.models.adapters import CONFIG_FILE, read_adapter_config
from zoo.models.folder import SMALL_PARAMETERS, count_parameters, read_object
from zoo.models.stored_weights import stored_weights


class MlxBackend(Backend):
    """The MLX engine: an Apple GPU through Metal, or the CPU."""

    policy = MlxPolicy
    pads = True

    def load(self, folder: Path, spec: LoadSpec = INFERENCE) -> MlxPolicy:
        """Loads a model folder as a policy; see `zoo.backends.base.Backend.load`."""
        train = spec.train
        _check(folder, spec)
        memory.wire()
        if not memory.has_gpu():
            mx.disable_compile()  # on a CPU it needs a C++ compiler, and seconds for each function
        warn_of_unused_adapter(folder, spec.adapter)
        dtype = self.choose_precision(folder, spec.dtype, full=spec.full).dtype
        loaded = load_model(folder, dtype=dtype, quantization=spec.quantization)
        check_model(loaded)
        state, slots = PassState(), dict[str, Slot]()
        if isinstance(train, LoraSpec):
            slots = adapter.add_lora(loaded, train, state, seed=spec.seed)
        elif spec.full:
            slots = result.all_slots(loaded.model)
        elif spec.adapter is not None:
            adapter.load_lora(loaded, spec.adapter, state)
        value_head = result.value_head(loaded.config["hidden_size"]) if spec.value_head else None
        if value_head is not None:
            slots |= {result.VALUE_HEAD: value_head}
        if spec.gradient_checkpointing:
            checkpoint_activations(loaded.model, slots)
        frozen = LoadSpec(dtype=spec.dtype)
        return MlxPolicy(
            Language(loaded, state, slots, value_head),
            lora=train if isinstance(train, LoraSpec) else None,
            adapted=isinstance(train, LoraSpec) or spec.adapter is not None,
            optimizer=spec.optimizer,
            base=(lambda: self.load(folder, frozen)) if spec.full else None,
            packing=spec.packing == "preferred",
        )

    def faults(self, folder: Path, spec: LoadSpec = INFERENCE) -> list[GymError]:
        """Returns why this engine cannot load a folder: an architecture, adapter or setting."""
        try:
            _check(folder, spec)
        except InputError as error:
            return [error]
        return []

    def load_reward_model(self, folder: Path) -> RewardModel:
        """Loads a reward model with torch, on the GPU that MLX uses or on the CPU.

        It only scores texts, next to a policy of any engine.
        """
        return load_backend(torch_device()).load_reward_model(folder)

    def free_bytes(self) -> int:
        """Returns the memory that is free for a model: Metal's recommendation on a Mac."""
        return memory.free_bytes()

    def choose_precision(
        self,
        folder: Path,
        dtype: str = "auto",
        *,
        full: bool = False,
        work: Workload | None = None,
        streams: bool = False,
    ) -> Precision:
        """Chooses by the stored type and the size; trained weights are float32.

        Raises:
            InputError: the format is one of torch alone.
        """
        del work, streams
        if full:
            return Precision("f32", "trained weights are float32", 4, 4)
        if dtype not in {"auto", "f32", "bf16"}:
            raise InputError(
                f"dtype: expected auto, f32 or bf16 on MLX, got {dtype!r}",
                hint="dtype=bf16",
                code="backends.setting_not_supported",
            )
        if dtype != "auto":
            return _precision(dtype, "as given")
        weights = stored_weights(folder, read_object(folder / "config.json")).values()
        if any(weight.dtype in {"F32", "F64"} for weight in weights):
            return _precision("f32", "as stored")
        if count_parameters(folder) < SMALL_PARAMETERS:
            return _precision("f32", "a small model: 16 bits would save little")
        return _precision("bf16", "16 bits save memory")

    def estimate_memory(self, need: MemoryNeed) -> MemoryEstimate:
        """Returns the expected peak; a group of 64 codes has a scale and an offset of its own.

        Of codes in the files the scales are counted already.
        """
        if need.linear_bits and not need.coded:
            scales = 2 * 8 * need.weight_bytes / GROUPS[0]
            need = replace(need, linear_bits=int(need.linear_bits) + scales)
        return estimate_memory(need)

    def describe_precision(self) -> str:
        """Returns a sentence about the number formats of this engine."""
        if memory.has_gpu():
            return f"MLX {mx.__version__} on the Apple GPU: 16-bit weights are multiplied directly"
        return f"MLX {mx.__version__} on the CPU: for tests, many times slower than torch"

    def parameter_parts(self, folder: Path) -> dict[str, Parts]:
        """Returns the tensors of each parameter: both have the same names."""
        names = tensor_names(folder)
        parameters = parameters_of(empty_model(folder).model)
        return {name: ((name,),) if name in names else () for name in parameters}


def _check(folder: Path, spec: LoadSpec) -> None:
    """Refuses what this engine cannot load, before a weight is read.

    Raises:
        InputError: the architecture, the adapter, the quantisation or a setting is not of it.
    """
    refuse_settings(spec)
    config = empty_model(folder).config
    check_quantization(folder, config, spec.quantization, full=spec.full)
    if spec.adapter is not None and (spec.adapter / CONFIG_FILE).is_file():
        file = spec.adapter / CONFIG_FILE
        adapter.refuse_kind(file, read_adapter_config(file))


def _precision(dtype: str, reason: str) -> Precision:
    size = 4 if dtype == "f32" else 2
    return Precision(dtype, reason, size, size)
