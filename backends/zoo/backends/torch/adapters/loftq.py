"""LoftQ: an adapter that starts as what quantising its base lost (arXiv:2310.08659, eq. 6).

W ~ Q + s B0 A0, where B0 A0 is the nearest matrix of that rank to the loss W - Q. One step of the
alternation: a second one would quantise W - s B0 A0, another base than the one that everybody gets
from the model's files. peft 0.21 has it for CUDA alone, and leaves s out.

The reference is a frozen copy of the start. The result is for the quantised base, which it names.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from zoo.backends.base import only_tensor
from zoo.backends.model_folder import read_config
from zoo.backends.spec import LoadSpec, LoraSpec, QuantizationSpec
from zoo.backends.torch.adapters.names import ADAPTER
from zoo.backends.torch.adapters.no_delta import warn_of_no_delta
from zoo.backends.torch.adapters.start import (
    START,
    add_start,
    base_weight,
    freeze_start,
    lora_layers,
    principal_factors,
    require_rank,
)
from zoo.backends.torch.quantized.already import stored_spec
from zoo.core.errors import InputError
from zoo.models import checkpoint_files
from zoo.models.adapters import CONFIG_FILE, read_adapter_config

if TYPE_CHECKING:
    from peft import PeftModel

ITERATIONS = 16
"""Those of the randomised decomposition."""

KEY = "loftq_config"
"""In an adapter's config: the base that it is for. peft keeps it and does not act on it."""


@torch.no_grad()
def start_from_loss(
    model: "PeftModel", spec: LoraSpec, folder: Path, base: QuantizationSpec
) -> None:
    """Sets the adapter to the nearest factors of what quantising each layer lost.

    Layers that are not quantised start without effect.

    Args:
        model: a model with an adapter.
        spec: its settings.
        folder: the folder of the base, which is not quantised.
        base: how the model is.

    Warns:
        GymWarning: no delta can be made of it.

    Raises:
        InputError: no layer with an adapter is quantised, the rank is larger than a layer, or the
            files do not have a layer's weight as it is.
    """
    require_rank(model, spec.rank, "loftq_init")
    exact = _Originals(folder)
    quantized = 0
    for name, layer in lora_layers(model):
        if not hasattr(layer.get_base_layer().weight, "quant_state"):
            continue
        quantized += 1
        lost = exact.weight(name) - base_weight(layer).cpu()
        A, B = principal_factors(lost, spec.rank, ITERATIONS)
        scale = sqrt(layer.scaling[ADAPTER])
        layer.lora_A[ADAPTER].weight.copy_(A / scale)
        layer.lora_B[ADAPTER].weight.copy_(B / scale)
    if not quantized:
        raise InputError(
            "loftq_init: expected layers in 4 bits, got none of them among lora_target",
            hint="the embedding and the head are never quantised",
            code="torch.no_layers_in_codes",
        )
    named: Any = model.peft_config[ADAPTER]
    named.loftq_config = {
        "loftq_bits": base.bits,
        "loftq_iter": 1,
        "kind": base.kind,
        "double": base.double,
    }
    add_start(model)
    for _, layer in lora_layers(model):
        for part in (layer.lora_A, layer.lora_B):
            part[START].weight.copy_(part[ADAPTER].weight)
    freeze_start(model)
    warn_of_no_delta(model, None)


class _Originals:
    """The weights in the files of a base, by the names of the loaded model's layers."""

    def __init__(self, folder: Path) -> None:
        from zoo.backends.torch.files.names import parameter_parts
        from zoo.backends.torch.quantized.stored import stored_tensors

        self._folder, self._faults = folder, list[str]()
        self._tensors = stored_tensors(checkpoint_files(folder), self._faults)
        self._parts = parameter_parts(folder)

    def weight(self, layer: str) -> Tensor:
        """Returns the weight of a layer in float32."""
        name = only_tensor(self._parts.get(f"{layer}.weight", ()))
        if name is None:
            raise InputError(
                f"loftq_init: {self._folder}: expected the weight of {layer!r} as it is in the "
                "files, got one that is joined or split when it is loaded",
                code="torch.weight_not_in_files",
            )
        tensor: Tensor = self._tensors[name][...]
        return tensor.float()


def on_named_base(folder: Path, spec: LoadSpec) -> LoadSpec:
    """Returns `spec` with the quantised base that its adapter names; most name none.

    Args:
        folder: of the base; its files may have the same codes already.
        spec: how it is loaded.

    Raises:
        InputError: `spec` or the folder has another one, or `spec` cannot have one.
    """
    file = None if spec.adapter is None else spec.adapter / CONFIG_FILE
    if file is None or not file.is_file():
        return spec
    expected = _base_of(read_adapter_config(file), file)
    quantization = spec.quantization
    if expected is None or (
        quantization is not None and replace(quantization, method=expected.method) == expected
    ):
        return spec
    stored = stored_spec(read_config(folder))
    if (
        quantization is None
        and stored is not None
        and replace(stored, method=expected.method) == expected
    ):
        return spec
    differing = {
        "another one": quantization is not None,
        "files in other codes": stored is not None,
        "stream_layers, which needs plain weights": spec.stream_layers,
        "stage rm, which needs plain weights": spec.reward_model,
        "sharding full, which needs plain weights": spec.sharded,
    }
    if got := next((what for what, stated in differing.items() if stated), None):
        raise InputError(
            f"{file}: {KEY}: expected the base in {expected.bits} bits ({expected.kind}, double: "
            f"{str(expected.double).lower()}) that the adapter was made for, got {got}",
            code="torch.other_codes_of_base",
        )
    return replace(spec, quantization=expected)


def _base_of(settings: Mapping[str, Any], where: Path) -> QuantizationSpec | None:
    base = settings.get(KEY)
    if not base:
        return None
    try:
        return QuantizationSpec(base["loftq_bits"], base["kind"], bool(base["double"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: {KEY}: expected the bits, kind and double of a quantised base, got "
            f"{base!r:.80}",
            code="torch.bad_adapter_config",
        ) from error
