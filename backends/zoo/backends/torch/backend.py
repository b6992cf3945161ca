"""Loads a model folder as a policy on CPU, CUDA or MPS."""

import warnings
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zoo.backends.base import (
    INFERENCE,
    Backend,
    FreezeSpec,
    LoadSpec,
    Parts,
    Policy,
    only_tensor,
)
from zoo.backends.memory import MemoryEstimate, MemoryNeed, gpu_sampling_bytes
from zoo.backends.model_folder import tensor_names, warn_of_unused_adapter
from zoo.backends.precision import Precision, Workload
from zoo.backends.ranks import Place, Ranks
from zoo.backends.spec import LoraSpec, NewAdapter
from zoo.backends.torch.adapters.add import add_adapter
from zoo.backends.torch.adapters.coded import code_factors
from zoo.backends.torch.adapters.configs import target_key
from zoo.backends.torch.adapters.continuing import continue_adapter
from zoo.backends.torch.adapters.folder import load_adapter
from zoo.backends.torch.adapters.fused import fuse
from zoo.backends.torch.adapters.loftq import on_named_base, start_from_loss
from zoo.backends.torch.adapters.names import is_added
from zoo.backends.torch.checks import check_settings, faults
from zoo.backends.torch.compat import checkpoint_activations
from zoo.backends.torch.divided.policy import DividedPolicy
from zoo.backends.torch.files.load import load_model
from zoo.backends.torch.files.names import parameter_parts
from zoo.backends.torch.layers.freezing import freeze_all_but
from zoo.backends.torch.layers.liger import use_liger
from zoo.backends.torch.layers.rope import warn_of_no_delta_of_positions
from zoo.backends.torch.layers.router import check_router, find_router_loss
from zoo.backends.torch.numbers.dtypes import choose_precision
from zoo.backends.torch.numbers.products import ProductSpeeds, measure_products, processor_key
from zoo.backends.torch.packable import require_packing
from zoo.backends.torch.parallel.group import Group, connect
from zoo.backends.torch.policy import TorchPolicy
from zoo.backends.torch.probe import check_adapter, check_gradient, check_model
from zoo.backends.torch.quantized.already import check_unchanged
from zoo.backends.torch.reward_model import (
    RewardModelWriter,
    TorchRewardModel,
    check_can_score,
    check_scoring_adapter,
    load_reward_model,
    padding_token,
)
from zoo.core.errors import GuardError, GymError, GymWarning, InputError
from zoo.models.adapters import WEIGHT

if TYPE_CHECKING:
    from peft import PeftModel


class TorchBackend(Backend):
    """The torch engine on one device."""

    policy = TorchPolicy

    def load(self, folder: Path, spec: LoadSpec = INFERENCE) -> TorchPolicy:
        """Loads a model folder as a policy; see `zoo.backends.base.Backend.load`."""
        train = spec.train
        if train not in (None, "adapter") and spec.adapter is not None:
            raise InputError(
                f"adapter: expected none for training {train}, got {spec.adapter}",
                hint="train='adapter' trains it further",
                code="backends.setting_not_supported",
            )
        spec = on_named_base(folder, spec)
        warn_of_unused_adapter(folder, spec.adapter)
        check_unchanged(folder, spec)
        check_settings(self.name, spec)
        dtype = self.choose_precision(
            folder, spec.dtype, full=spec.in_place, streams=spec.stream_layers
        ).dtype
        model: Any = load_model(
            folder,
            dtype=dtype,
            attention=spec.attention,
            quantization=spec.quantization,
            device=self.name,
            streams=spec.stream_layers,
            rope=spec.rope,
        ).to("cpu" if spec.sharded else self.name)
        check_model(folder, model)
        if spec.rope is not None and train is not None:
            warn_of_no_delta_of_positions(folder, spec.rope)
        if spec.liger:
            use_liger(folder, model)
        router = find_router_loss(model, spec.router_loss)
        if spec.reward_model:
            check_can_score(folder, model)
        peft_model = _prepare(folder, model, spec)
        if spec.gradient_checkpointing:
            checkpoint_activations(model)
        policy = TorchPolicy(
            model,
            peft_model=peft_model,
            value_head=_value_head(model, spec.seed) if spec.value_head else None,
            optimizer=spec.optimizer,
            autocast=spec.in_place and spec.dtype != "f32" and mixes(self.name),
            base=(lambda: self.load(folder, _untrained(spec))) if spec.in_place else None,
            router=router,
            offloads=spec.offload_activations,
            packing=spec.packing != "off",
            reward_writer=RewardModelWriter(padding_token(folder)) if spec.reward_model else None,
            noise_alpha=spec.neftune_noise_alpha,
        )
        if peft_model is not None:
            source = str(spec.adapter) if spec.adapter is not None else target_key(train)
            check_adapter(source, peft_model, policy.module)
        _check_trained(policy, spec)
        if train is not None:
            check_router(policy.module)
        if train is not None and router is None:
            _warn_of_own_loss(folder, model)
        if train not in (None, "full"):
            check_gradient(policy.module)
        policy.spec, policy.folder = spec, folder
        return _with_packing(policy, spec)

    def divide(self, policy: Policy, ranks: Ranks) -> Policy:
        """Divides a policy among processes; see `zoo.backends.base.Backend.divide`."""
        assert isinstance(policy, TorchPolicy)
        assert isinstance(ranks, Group)
        undivided = replace(policy.spec, sharded=False)
        reload = partial(self.load, policy.folder, undivided)
        return DividedPolicy(policy, policy.spec.optimizer, ranks, self.name, reload)

    def faults(self, folder: Path, spec: LoadSpec = INFERENCE) -> list[GymError]:
        """Returns why this engine cannot load a folder; see `checks.faults`."""
        return list(faults(folder, self.name, spec))

    def load_reward_model(self, folder: Path) -> TorchRewardModel:
        """Loads a reward model; see `zoo.backends.base.Backend.load_reward_model`."""
        return load_reward_model(folder, self.name)

    def connect(self, place: Place) -> AbstractContextManager[Ranks]:
        """Connects the processes of a run; see `zoo.backends.base.Backend.connect`."""
        return connect(place, self.name)

    def free_bytes(self) -> int:
        """Returns the free memory of the GPU, or of the machine."""
        if self.name == "cuda":
            return int(torch.cuda.mem_get_info()[0])
        import psutil

        return int(psutil.virtual_memory().available)

    def estimate_memory(self, need: MemoryNeed) -> MemoryEstimate:
        """Returns the expected peak; a GPU samples more answers at once than a CPU."""
        if self.name != "cuda":
            return super().estimate_memory(need)
        total = torch.cuda.get_device_properties(0).total_memory
        return super().estimate_memory(replace(need, sampling_bytes=gpu_sampling_bytes(total)))

    def choose_precision(
        self,
        folder: Path,
        dtype: str = "auto",
        *,
        full: bool = False,
        work: Workload | None = None,
        streams: bool = False,
    ) -> Precision:
        """Chooses by the stored type, the device, and the measured speeds of the processor."""
        return choose_precision(
            folder,
            self.name,
            self._speeds,
            dtype=dtype,
            full=full,
            streams=streams,
            work=work,
            free_bytes=self.free_bytes() if work is not None and self.name == "cpu" else 0,
        )

    def describe_precision(self) -> str:
        """Returns a sentence about the speeds of number formats on this processor."""
        speeds = self._speeds()
        way = "directly" if speeds.bf16_pays else "in float32, widened block by block"
        return f"{speeds.describe()}: 16-bit weights are multiplied {way}"

    def _speeds(self) -> ProductSpeeds:
        speeds = self.recall("products", processor_key(), lambda: asdict(measure_products()))
        return ProductSpeeds(**speeds)

    def parameter_parts(self, folder: Path) -> dict[str, Parts]:
        """Returns the tensors of each parameter; see `names.parameter_parts`."""
        return parameter_parts(folder)


def _prepare(folder: Path, model: nn.Module, spec: LoadSpec) -> "PeftModel | None":
    """Freezes what is not trained and adds the adapter; returns peft's wrapper if there is one."""
    if spec.in_place:
        _check_can_be_saved(folder, model)
    else:  # in full training, parameters that the model itself freezes stay frozen
        model.requires_grad_(requires_grad=False)
    if isinstance(spec.train, FreezeSpec):
        freeze_all_but(model, spec.train)
    adapted = _adapted(folder, model, spec)
    stays = not (spec.stream_layers or spec.sharded)  # else weights come and go
    if adapted is not None and spec.train is not None and stays:
        fuse(adapted)
    return adapted


def _adapted(folder: Path, model: nn.Module, spec: LoadSpec) -> "PeftModel | None":
    """Adds the adapter that is trained or applied, if there is one."""
    if spec.train == "adapter":
        assert spec.adapter is not None
        continued = continue_adapter(model, spec.adapter, _stored_names(folder))
        if spec.reward_model:
            check_scoring_adapter(model)
        return continued
    if isinstance(spec.train, NewAdapter):
        adapted = add_adapter(model, spec.train, seed=spec.seed, stored=_stored_names(folder))
        if isinstance(spec.train, LoraSpec) and spec.train.init == "loftq":
            assert spec.quantization is not None
            start_from_loss(adapted, spec.train, folder, spec.quantization)
        if isinstance(spec.train, LoraSpec) and spec.train.delta_bits is not None:
            code_factors(adapted, spec.train.delta_bits)
        if spec.reward_model:
            check_scoring_adapter(model)
        return adapted
    return load_adapter(model, spec.adapter) if spec.adapter is not None else None


def _stored_names(folder: Path) -> set[str]:
    """Returns the names of the tensors in a model's files, also as parameters of the model.

    Experts that the files have one by one count as layers of their stack's name.
    """
    parts = {name: tensors for name, tensors in parameter_parts(folder).items() if tensors}
    stored = {name if only_tensor(parts[name]) else name + WEIGHT for name in parts}
    return tensor_names(folder) | stored


def mixes(device: str) -> bool:
    """Returns whether full training on a device runs in bf16, with float32 weights."""
    return device == "cuda" and torch.cuda.is_bf16_supported()


def _warn_of_own_loss(folder: Path, model: Any) -> None:  # noqa: ANN401
    """Warns of a model that transformers trains with an additional loss."""
    if getattr(model.config, "output_router_logits", False):
        warnings.warn(
            f"{folder}: its config adds a router loss (output_router_logits), which is not part of "
            "this training: moe_aux_loss_coef adds it",
            GymWarning,
            stacklevel=3,
        )


def _check_can_be_saved(folder: Path, model: Any) -> None:  # noqa: ANN401
    """Refuses full training of a model that transformers could not load afterwards.

    Raises:
        InputError: the model is the text part of a larger one, and has no type of its own.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    if type(model.config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise InputError(
            f"{folder}: {type(model).__name__} cannot be trained in full: its text part "
            f"({model.config.model_type}) is no model of its own for transformers",
            hint="train an adapter: finetuning_type: lora",
            code="torch.cannot_be_saved",
        )


def _untrained(spec: LoadSpec) -> LoadSpec:
    """Returns how the model is loaded as it was before it is trained in place."""
    return LoadSpec(
        dtype=spec.dtype,
        attention=spec.attention,
        packing=spec.packing,
        rope=spec.rope,
        liger=spec.liger,
        sharded=spec.sharded,
    )


def _with_packing(policy: TorchPolicy, spec: LoadSpec) -> TorchPolicy:
    """Checks that a policy that must pack its rows can."""
    if spec.packing == "required":
        require_packing(policy.module)
    return policy


def _check_trained(policy: TorchPolicy, spec: LoadSpec) -> None:
    """Checks that adapter training trains only the adapter, and inference nothing."""
    if spec.in_place:
        return
    names = policy.parameters
    base = [name for name in names if not is_added(name) and not name.startswith("value_head")]
    if base or (names and spec.train is None and not policy.module.value_head):
        raise GuardError(
            f"{(base or list(names))[0]}: expected frozen weights, got trained ones",
            code="torch.not_frozen",
        )


def _value_head(model: nn.Module, seed: int) -> nn.Linear:
    """Returns a linear layer of zeros, so that every value is zero before training."""
    torch.manual_seed(seed)
    weight: Any = model.get_output_embeddings().weight  # type: ignore[operator]
    head = nn.Linear(weight.shape[1], 1, bias=False, device=weight.device, dtype=torch.float32)
    nn.init.zeros_(head.weight)
    return head
