"""AdamW by groups: rates and decay for parameters by the ending of their names."""

import pytest
import torch
from torch import nn

from tests.codes import raises
from zoo.backends.base import OptimizerSpec, ParameterGroup
from zoo.backends.torch.optimizers.named import NamedOptimizer


def parameters() -> dict[str, nn.Parameter]:
    return {
        "layer.lora_A.weight": nn.Parameter(torch.ones(2, 2)),
        "layer.lora_B.weight": nn.Parameter(torch.ones(2, 2)),
        "value_head.bias": nn.Parameter(torch.ones(2)),
    }


def moved(spec: OptimizerSpec, gradient: float = 1.0) -> dict[str, float]:
    """How far one step with rate 0.1 takes the first value of each parameter."""
    learning = parameters()
    for parameter in learning.values():
        parameter.grad = torch.full_like(parameter, gradient)
    NamedOptimizer(learning, spec).step(0.1, max_grad_norm=1e9)
    return {name: float(1 - p.detach().flatten()[0]) for name, p in learning.items()}


def test_a_group_has_its_own_share_of_the_rate() -> None:
    # AdamW's first step is the rate itself, whatever the gradient
    found = moved(OptimizerSpec(groups=(ParameterGroup("lora_B.weight", lr_scale=4.0),)))
    assert found["layer.lora_A.weight"] == pytest.approx(0.1)
    assert found["layer.lora_B.weight"] == pytest.approx(0.4)


def test_decay_is_for_matrices_and_a_group_may_have_none() -> None:
    # decay takes rate * decay of the value: 0.1 * 0.5 of 1
    group = ParameterGroup("lora_A.weight", weight_decay=0.0)
    found = moved(OptimizerSpec(weight_decay=0.5, groups=(group,)))
    assert found["layer.lora_A.weight"] == pytest.approx(0.1)
    assert found["layer.lora_B.weight"] == pytest.approx(0.15)
    assert found["value_head.bias"] == pytest.approx(0.1)


def test_a_groups_own_decay_is_for_vectors_too() -> None:
    group = ParameterGroup("bias", weight_decay=0.5)
    found = moved(OptimizerSpec(weight_decay=0.25, groups=(group,)))
    assert found["value_head.bias"] == pytest.approx(0.15)


def test_an_adapter_in_an_embedding_has_no_rate_of_its_own() -> None:
    name = "model.embed.lora_embedding_B.default"
    learning = parameters() | {name: nn.Parameter(torch.ones(2))}
    groups = (ParameterGroup("lora_B.weight", lr_scale=4.0),)
    with raises("backends.not_linear", r"loraplus_lr_ratio: .* got one on model\.e"):
        NamedOptimizer(learning, OptimizerSpec(groups=groups))
    NamedOptimizer(learning, OptimizerSpec())


def test_the_first_group_that_fits_is_taken() -> None:
    groups = (
        ParameterGroup("lora_B.weight", lr_scale=2.0),
        ParameterGroup(".weight", lr_scale=3.0),
    )
    found = moved(OptimizerSpec(groups=groups))
    assert found["layer.lora_B.weight"] == pytest.approx(0.2)
    assert found["layer.lora_A.weight"] == pytest.approx(0.3)


def test_a_group_that_fits_nothing_is_refused() -> None:
    with raises("backends.no_such_group", r"group 'lora_C': expected the ending of a trained"):
        NamedOptimizer(parameters(), OptimizerSpec(groups=(ParameterGroup("lora_C"),)))
