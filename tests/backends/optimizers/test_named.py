"""What holds for every optimizer: exact restoring, skipped gradients, and the size of its state."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.backends.optimizers.stepping import HEAD_DIM, SHAPES, make, spec_of, take_steps
from tests.codes import raises
from zoo.backends.base import OptimizerSpec
from zoo.backends.optimizer_memory import COPIES, STATES, Matrix, Trained, state_bytes
from zoo.backends.optimizer_spec import IN_LIBRARY, OPTIMIZERS
from zoo.backends.torch.optimizers.named import NamedOptimizer
from zoo.backends.torch.optimizers.table import MAKERS

RUNS_HERE = [name for name in OPTIMIZERS if name not in IN_LIBRARY]


def test_every_optimizer_is_in_every_table() -> None:
    assert set(MAKERS) == set(OPTIMIZERS) == set(STATES) >= set(COPIES)


@pytest.mark.parametrize("name", RUNS_HERE)
def test_a_restored_optimizer_takes_the_same_steps_bit_for_bit(name: str, tmp_path: Path) -> None:
    kept = make(name)
    take_steps(kept, 1, 5)
    kept.save(tmp_path)
    values = {key: p.detach().clone() for key, p in kept.parameters.items()}
    take_steps(kept, 6, 9)
    resumed = make(name, seed=1)
    for key, parameter in resumed.parameters.items():
        parameter.data.copy_(values[key])
    resumed.load(tmp_path)
    take_steps(resumed, 6, 9)
    for key, parameter in kept.parameters.items():
        assert torch.equal(parameter, resumed.parameters[key]), key


@pytest.mark.parametrize("name", RUNS_HERE)
def test_a_gradient_that_is_no_number_changes_neither_values_nor_state(name: str) -> None:
    optimizer = make(name)
    take_steps(optimizer, 1, 2)
    values = [p.detach().clone() for p in optimizer.parameters.values()]
    state = {key: value.clone() for key, value in optimizer.tensors().items()}
    for parameter in optimizer.parameters.values():
        parameter.grad = torch.full_like(parameter, float("nan"))
    info = optimizer.step(0.1, 1.0)
    assert (info.skipped, info.changed) == (True, False)
    assert all(map(torch.equal, values, optimizer.parameters.values()))
    assert all(torch.equal(value, optimizer.tensors()[key]) for key, value in state.items())
    assert all(p.grad is None for p in optimizer.parameters.values())


@pytest.mark.parametrize("name", RUNS_HERE)
def test_a_step_says_whether_a_value_has_changed(name: str) -> None:
    for rate, changed in ((0.0, False), (0.01, True)):
        optimizer = make(name)
        for parameter in optimizer.parameters.values():
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
        assert optimizer.step(rate, 1.0).changed is changed


@pytest.mark.parametrize(("written", "read"), [("lion", "adamw"), ("adamw", "sgd")])
def test_the_state_of_another_optimizer_is_refused(written: str, read: str, tmp_path: Path) -> None:
    optimizer = make(written)
    take_steps(optimizer, 1, 1)
    optimizer.save(tmp_path)
    with raises("backends.other_checkpoint", f"expected the state of {read}, got {written}"):
        make(read).load(tmp_path)


@pytest.mark.parametrize("name", [name for name in RUNS_HERE if name != "badam"])
def test_the_size_of_the_state_is_the_one_that_is_estimated(name: str) -> None:
    optimizer = make(name)
    take_steps(optimizer, 1, 2)
    found = sum(value.nbytes for value in optimizer.tensors().values() if value.dim())
    matrices = [
        Matrix(*shape, 1, linear="layers" in key, rows_together=HEAD_DIM if "q_proj" in key else 1)
        for key, shape in SHAPES.items()
        if len(shape) == 2
    ]
    assert state_bytes(Trained(matrices, vectors=6, tensors=1), spec_of(name)) == found


def test_a_policy_without_trained_parameters_steps_nothing() -> None:
    info = NamedOptimizer({}, OptimizerSpec(name="sgd")).step(0.1, 1.0)
    assert (info.grad_norm, info.changed) == (0.0, False)


def test_a_parameter_of_16_bits_is_refused_because_small_updates_round_away() -> None:
    # 1 + 1e-3 is 1 in bfloat16
    half = {"lora_A.weight": nn.Parameter(torch.ones(2, 2, dtype=torch.bfloat16))}
    with raises(
        "torch.not_in_single_precision", r"lora_A.weight: expected .* float32, got bfloat16"
    ):
        NamedOptimizer(half, OptimizerSpec())
