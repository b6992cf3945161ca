"""Where the outputs of a model's parameters are, compared with what its forward pass multiplies."""

from typing import Any

import pytest
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from tests.backends.families import FAMILIES
from zoo.backends.base import OptimizerSpec, ProjectionSpec
from zoo.backends.torch.optimizers.axes import axes_of
from zoo.backends.torch.optimizers.named import NamedOptimizer
from zoo.backends.torch.policy import TorchPolicy

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "vocab_size": 97,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
MORE: dict[str, dict[str, Any]] = {
    "gpt_oss": {"num_local_experts": 4, "head_dim": 8, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 4, "moe_intermediate_size": 16, "head_dim": 8},
}


def model_of(family: str) -> nn.Module:
    settings = FAMILIES.get(family) or SIZES | MORE[family]
    auto: Any = AutoModelForCausalLM
    model: nn.Module = auto.from_config(AutoConfig.for_model(family, **settings))
    return model


@pytest.mark.parametrize(
    ("family", "in_by_out"),
    [
        pytest.param("gpt_oss", True, marks=pytest.mark.slow),
        ("llama4_text", True),
        ("mixtral", False),
        ("qwen3_moe", False),
    ],
)
def test_the_outputs_of_experts_are_found(family: str, in_by_out: bool) -> None:
    model = model_of(family)
    axes = axes_of(model)
    shapes = {name: p.shape for name, p in model.named_parameters() if p.dim() == 3}
    assert axes.stacked == shapes.keys()
    assert axes.outputs_last == (shapes.keys() if in_by_out else set())
    # the hidden state is what the first layer reads, and the last one gives
    for name, (_, *inner) in shapes.items():
        inputs, outputs = inner if name in axes.outputs_last else inner[::-1]
        assert (outputs if "down" in name else inputs) == 32


def test_every_layer_of_gpt2_has_its_outputs_last() -> None:
    model = model_of("gpt2")
    layers = {name for name, p in model.named_parameters() if ".c_" in name and p.dim() == 2}
    assert axes_of(model).outputs_last == layers
    assert len(layers) == 2 * 4


def test_the_axes_of_a_convolution_are_not_those_of_experts() -> None:
    assert not axes_of(model_of("mamba")).stacked


def notes_of(family: str, name: str, **more: Any) -> tuple[str, ...]:
    model = model_of(family)
    optimizer = OptimizerSpec(name=name, **more)
    return NamedOptimizer(dict(model.named_parameters()), optimizer, axes_of(model)).notes


@pytest.mark.parametrize("name", ["muon", "galore", "apollo"])
def test_a_note_counts_the_experts_that_are_left_to_adamw(name: str) -> None:
    (note,) = notes_of("mixtral", name)
    total = len(list(model_of("mixtral").parameters()))
    assert f" 4 of {total} trained tensors" in note
    assert "model.layers.0.mlp.experts.gate_up_proj" in note
    assert notes_of("gpt2", name) == ()


@pytest.mark.parametrize("name", ["adamw", "adam_mini", "lion", "badam"])
def test_an_optimizer_of_any_tensor_needs_no_note(name: str) -> None:
    assert notes_of("mixtral", name) == ()


def test_experts_outside_of_the_named_targets_need_no_note() -> None:
    assert notes_of("mixtral", "galore", projection=ProjectionSpec(targets=("q_proj",))) == ()
    assert notes_of("mixtral", "galore", projection=ProjectionSpec(targets=("q_proj", "mlp")))


def test_a_policy_reports_what_its_optimizer_leaves_out() -> None:
    policy = TorchPolicy(model_of("mixtral"), optimizer=OptimizerSpec(name="muon"))
    (note,) = policy.notes(sampling=False, prefix=False)
    assert "muon" in note
