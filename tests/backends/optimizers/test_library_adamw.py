"""bitsandbytes' AdamW: refused where it does not step, and its state saved by name.

The library steps on a CPU too in recent versions; that shows here that its state is kept whole.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.backends.optimizers.stepping import set_gradients
from tests.codes import raises
from zoo.backends.base import OptimizerSpec
from zoo.backends.machine.installing import install_command
from zoo.backends.optimizer_memory import Matrix, Trained, state_bytes
from zoo.backends.optimizer_spec import IN_LIBRARY
from zoo.backends.torch.optimizers import table
from zoo.backends.torch.optimizers.named import NamedOptimizer

SHAPES = {
    "model.embed_tokens.weight": (80, 64),
    "model.layers.0.mlp.up_proj.weight": (100, 64),
    "model.layers.0.self_attn.k_proj.weight": (8, 64),
    "model.layers.0.input_layernorm.weight": (64,),
}


def parameters(device: str = "cpu") -> dict[str, nn.Parameter]:
    draw = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(shape, generator=draw) for name, shape in SHAPES.items()}
    return {name: nn.Parameter(value.to(device)) for name, value in drawn.items()}


def make(name: str, device: str = "cpu") -> NamedOptimizer:
    return NamedOptimizer(parameters(device), OptimizerSpec(0.1, name=name))


def take(optimizer: NamedOptimizer, first: int, last: int) -> None:
    for step in range(first, last + 1):
        host = {name: nn.Parameter(p.detach().cpu()) for name, p in optimizer.parameters.items()}
        set_gradients(host, step)
        for name, parameter in optimizer.parameters.items():
            gradient = host[name].grad
            assert gradient is not None
            parameter.grad = gradient.to(parameter.device)
        optimizer.step(0.01, 1.0)


@pytest.fixture
def on_any_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("bitsandbytes")
    monkeypatch.setattr(table, "check_device", lambda *_: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", IN_LIBRARY)
def test_a_cpu_is_refused_by_name_with_what_would_step_there(name: str) -> None:
    with raises("backends.needs_cuda", f"{name} .*expected cuda, got cpu") as caught:
        make(name)
    assert caught.value.hint is not None
    assert "optim=lion" in caught.value.hint


def test_an_installation_without_the_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zoo.backends.libraries.quantization.find_spec", lambda _: None)
    monkeypatch.setattr(table, "check_device", lambda *_: None)
    with raises("backends.missing_package", r"AdamW in 8 bits .* bitsandbytes") as caught:
        make("adamw_8bit")
    assert caught.value.hint == install_command("qlora")


def restored_takes_the_same_steps(name: str, device: str, folder: Path) -> None:
    kept, resumed = make(name, device), make(name, device)
    take(kept, 1, 4)
    kept.save(folder)
    for key, parameter in resumed.parameters.items():
        parameter.data.copy_(kept.parameters[key].detach())
    resumed.load(folder)
    assert resumed.tensors().keys() == kept.tensors().keys()
    take(kept, 5, 8)
    take(resumed, 5, 8)
    for key, parameter in kept.parameters.items():
        assert torch.equal(parameter, resumed.parameters[key]), key


@pytest.mark.usefixtures("on_any_device")
@pytest.mark.parametrize("name", IN_LIBRARY)
def test_a_restored_optimizer_takes_the_same_steps_bit_for_bit(name: str, tmp_path: Path) -> None:
    restored_takes_the_same_steps(name, "cpu", tmp_path)


@pytest.mark.usefixtures("on_any_device")
def test_large_matrices_of_blocks_have_8_bits_and_the_others_32() -> None:
    optimizer = make("adamw_8bit")
    take(optimizer, 1, 1)
    tensors = optimizer.tensors()
    kinds = {key.partition("/")[0]: v.dtype for key, v in tensors.items() if "/state1" in key}
    assert [name for name, kind in kinds.items() if kind is torch.uint8] == [
        "model.layers.0.mlp.up_proj.weight"
    ]
    found = sum(value.nbytes for value in tensors.values() if value.dim())
    matrices = [
        Matrix(*shape, 1, linear="layers" in name)
        for name, shape in SHAPES.items()
        if len(shape) == 2
    ]
    assert state_bytes(Trained(matrices, vectors=64), optimizer_spec()) == found


def optimizer_spec() -> OptimizerSpec:
    return OptimizerSpec(0.1, name="adamw_8bit")


@pytest.mark.usefixtures("on_any_device")
@pytest.mark.parametrize("name", IN_LIBRARY)
def test_steps_are_nearly_adamws(name: str) -> None:
    plain, ours = make("adamw"), make(name)
    take(plain, 1, 3)
    take(ours, 1, 3)
    start = parameters()
    for key, parameter in plain.parameters.items():
        moved, expected = ours.parameters[key] - start[key], parameter - start[key]
        assert float((moved - expected).norm() / expected.norm()) < 0.05, key


@pytest.mark.gpu
@pytest.mark.parametrize("name", IN_LIBRARY)
def test_on_a_gpu_a_restored_optimizer_takes_the_same_steps_bit_for_bit(
    name: str, tmp_path: Path
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    pytest.importorskip("bitsandbytes")
    restored_takes_the_same_steps(name, "cuda", tmp_path)
