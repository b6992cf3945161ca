"""Kernels and memory that only CUDA has: refused elsewhere, and what they replace."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.backends.families import write_family
from tests.backends.objectives_for_tests import SFT
from tests.backends.reference import example_batch, relative_error
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec
from zoo.backends.torch.files.load import load_model
from zoo.backends.torch.layers.liger import replace_kernels, use_liger


class Norm:
    """What Liger's norm computes."""

    @staticmethod
    def apply(hidden: Tensor, weight: Tensor, eps: float, offset: float, *_: object) -> Tensor:
        scale = torch.rsqrt(hidden.float().pow(2).mean(-1, keepdim=True) + eps)
        return (weight + offset) * (hidden.float() * scale).to(hidden.dtype)


class Gate:
    """What Liger's gated product computes."""

    factor = 1.0

    @classmethod
    def apply(cls, gate: Tensor, up: Tensor) -> Tensor:
        return torch.nn.functional.silu(gate) * up * cls.factor


@pytest.fixture
def liger(monkeypatch: pytest.MonkeyPatch) -> type[Gate]:
    """A package with these two kernels in torch, which the tests can run."""
    ops: Any = ModuleType("liger_kernel.ops")
    ops.LigerRMSNormFunction, ops.LigerSiLUMulFunction = Norm, type("Own", (Gate,), {})
    package = ModuleType("liger_kernel")
    package.__spec__ = torch.__spec__  # it is found
    monkeypatch.setitem(sys.modules, "liger_kernel", package)
    monkeypatch.setitem(sys.modules, "liger_kernel.ops", ops)
    found: type[Gate] = ops.LigerSiLUMulFunction
    return found


@pytest.mark.usefixtures("liger")
def test_the_kernels_replace_every_norm_and_gated_layer_of_this_model_alone(tied: Path) -> None:
    other = load_model(tied, dtype="f32")
    # two blocks with four norms and a gated layer each, and the last norm
    assert use_liger(tied, load_model(tied, dtype="f32")) == 11
    assert not any("forward" in vars(module) for module in other.modules())


def test_the_kernels_are_what_computes(tied: Path, liger: type[Gate]) -> None:
    model: Any = load_model(tied, dtype="f32")
    ids = torch.tensor([[1, 2, 3]])
    before = model(input_ids=ids).logits
    replace_kernels(model)
    assert torch.allclose(model(input_ids=ids).logits, before, atol=1e-4)
    liger.factor = 2.0
    assert not torch.allclose(model(input_ids=ids).logits, before, atol=1e-2)


def test_kernels_with_other_logits_are_refused(tied: Path, liger: type[Gate]) -> None:
    liger.factor = 2.0
    with raises("torch.liger_differs", r"with Liger's kernels the logits .* differ by"):
        use_liger(tied, load_model(tied, dtype="f32"))


@pytest.mark.usefixtures("liger")
def test_a_model_without_such_layers_is_refused(tmp_path: Path) -> None:
    folder = write_family(tmp_path / "gpt2", "gpt2")
    with raises("torch.no_liger_kernels"):
        use_liger(folder, load_model(folder, dtype="f32"))


def test_without_the_package_it_is_named(tied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "liger_kernel", None)
    with raises("backends.missing_package", "needs the package liger-kernel"):
        use_liger(tied, load_model(tied, dtype="f32"))


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"liger": True}, "enable_liger_kernel"),
        (
            {"offload_activations": True, "gradient_checkpointing": True},
            "activation_offloading",
        ),
    ],
)
def test_what_only_cuda_has_is_refused_on_a_cpu(
    tied: Path, given: dict[str, bool], key: str
) -> None:
    spec = LoadSpec(train=LoraSpec(), **given)  # type: ignore[arg-type]
    with raises("backends.setting_not_supported", f"{key}: expected the device cuda, got cpu"):
        load_backend("cpu").load(tied, spec)


def test_offloading_needs_what_it_offloads() -> None:
    with pytest.raises(ValueError, match="gradient_checkpointing: expected True to offload"):
        LoadSpec(train=LoraSpec(), offload_activations=True)


@pytest.mark.slow
def test_offloaded_activations_give_the_same_gradient(
    tied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = list[int]()

    class Counted(torch.autograd.graph.save_on_cpu):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            pack = self.pack_hook

            def counted(tensor: Tensor) -> Any:
                saved.append(tensor.numel())
                return pack(tensor)

            self.pack_hook = counted

    monkeypatch.setattr(torch.autograd.graph, "save_on_cpu", Counted)
    gradients = []
    for offloads in (False, True):
        spec = LoadSpec(train=LoraSpec(rank=4), dtype="f32", seed=1, gradient_checkpointing=True)
        policy: Any = load_backend("cpu").load(tied, spec)
        policy.module.offloads = offloads
        policy.accumulate(SFT, example_batch(), key=0)
        gradients.append(dict(policy.gradients()))
        assert bool(saved) == offloads
    assert relative_error(*gradients) == 0
