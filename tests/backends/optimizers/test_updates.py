"""Each optimizer's update, computed by hand."""

import pytest
import torch

from tests.backends.optimizers.stepping import one_step
from zoo.backends.base import OptimizerSpec
from zoo.backends.torch.optimizers.axes import Axes
from zoo.backends.torch.optimizers.named import NamedOptimizer

VALUE = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
GRADIENT = torch.tensor([[0.4, -0.2], [0.1, 0.8]])
OTHER = torch.tensor([[-0.1, -0.2], [0.3, -0.9]])


def close(found: torch.Tensor, expected: object) -> None:
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=1e-5, atol=1e-6)


def test_adamw_moves_each_value_by_the_rate_at_first() -> None:
    # decay takes 0.1 * 0.5 of each value; m / sqrt(v) of a first gradient is its sign
    found = one_step(VALUE, GRADIENT, spec=OptimizerSpec(weight_decay=0.5))
    close(found, VALUE * 0.95 - 0.1 * GRADIENT.sign())


def test_lion_moves_by_the_sign_of_an_average_with_the_newest_gradient() -> None:
    # m = 0.01 g1 after the first step; the second goes along sign(0.9 m + 0.1 g2)
    first = VALUE * 0.95 - 0.1 * GRADIENT.sign()
    signs = (0.009 * GRADIENT + 0.1 * OTHER).sign()
    found = one_step(VALUE, GRADIENT, OTHER, spec=OptimizerSpec(weight_decay=0.5, name="lion"))
    close(found, first * 0.95 - 0.1 * signs)


def test_sgd_subtracts_the_gradient_and_the_decay() -> None:
    found = one_step(VALUE, GRADIENT, spec=OptimizerSpec(weight_decay=0.5, name="sgd"))
    close(found, VALUE - 0.1 * (GRADIENT + 0.5 * VALUE))


def test_adafactor_divides_by_the_root_of_row_times_column() -> None:
    # squares: rows 0.10 and 0.325, columns 0.085 and 0.34 on average, all together 0.2125;
    # the update's root mean square is above 1, so it is divided by it
    rows, columns = torch.tensor([[0.10], [0.325]]), torch.tensor([[0.085, 0.34]])
    update = GRADIENT / (rows * columns / 0.2125).sqrt()
    update = update / update.square().mean().sqrt().clamp(min=1)
    found = one_step(VALUE, GRADIENT, spec=OptimizerSpec(name="adafactor"))
    close(found, VALUE - 0.1 * update)


def test_muon_steps_along_nearly_orthogonal_rows_at_the_size_of_adamws_steps() -> None:
    # the root mean square of an orthogonal 2 x 3 matrix is 1 / sqrt(3); it is scaled by
    # 0.2 sqrt(3) to 0.2, and five iterations leave singular values of about 0.7 to 1.2
    gradient = torch.tensor([[0.4, -0.2, 0.3], [0.1, 0.8, -0.5]])
    value = torch.ones(2, 3)
    spec = OptimizerSpec(weight_decay=0.5, name="muon")
    moved = (value * 0.95 - one_step(value, gradient, spec=spec)) / (0.1 * 0.2 * 3**0.5)
    kept = torch.linalg.svdvals(moved)
    assert bool(((kept > 0.6) & (kept < 1.3)).all())
    left, _, right = torch.linalg.svd(gradient, full_matrices=False)
    assert torch.nn.functional.cosine_similarity(moved.flatten(), (left @ right).flatten(), 0) > 0.9


@pytest.mark.parametrize(
    "name", ["model.embed_tokens.weight", "model.layers.0.mlp.bias", "lm_head"]
)
def test_muon_leaves_embeddings_heads_and_vectors_to_adamw(name: str) -> None:
    parameter = torch.nn.Parameter(torch.ones(2, 3) if "bias" not in name else torch.ones(3))
    optimizer = NamedOptimizer({name: parameter}, OptimizerSpec(name="muon"))
    parameter.grad = torch.full_like(parameter, 0.3)
    optimizer.step(0.1, 1e9)
    close(parameter.detach(), torch.full_like(parameter, 0.9))


def test_adam_mini_divides_each_row_by_the_root_of_its_mean_square() -> None:
    # after one step m / (1 - b1) is the gradient, and v / (1 - b2) its mean square by row
    divisors = GRADIENT.square().mean(1, keepdim=True).sqrt()
    found = one_step(VALUE, GRADIENT, spec=OptimizerSpec(weight_decay=0.5, name="adam_mini"))
    close(found, VALUE * 0.95 - 0.1 * GRADIENT / divisors)


def test_adam_mini_averages_over_the_rows_of_a_head_of_queries() -> None:
    gradient = torch.arange(1.0, 17.0).reshape(8, 2)
    divisors = torch.stack([gradient[:4], gradient[4:]]).square().mean((1, 2)).sqrt()
    expected = -0.1 * gradient / divisors.repeat_interleave(4)[:, None]
    spec = OptimizerSpec(name="adam_mini")
    close(one_step(torch.zeros(8, 2), gradient, spec=spec, layer="self_attn.q_proj"), expected)
    factor = one_step(torch.zeros(8, 2), gradient, spec=spec, layer="self_attn.q_proj.lora_B")
    close(factor, expected)


@pytest.mark.parametrize("outputs_last", [False, True])
def test_adam_mini_divides_each_output_of_an_expert_by_its_own_root(outputs_last: bool) -> None:
    # [experts, outputs, inputs], or with inputs before outputs
    name = frozenset({"model.layers.0.experts.gate_up_proj.weight"})
    axes = Axes(stacked=name, outputs_last=name if outputs_last else frozenset())
    gradient = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    divisors = gradient.square().mean(1 if outputs_last else 2, keepdim=True).sqrt()
    spec = OptimizerSpec(name="adam_mini")
    found = one_step(
        torch.zeros(3, 4, 2), gradient, spec=spec, layer="experts.gate_up_proj", axes=axes
    )
    close(found, -0.1 * gradient / divisors)


def test_adam_mini_divides_each_column_of_a_layer_of_gpt2() -> None:
    axes = Axes(outputs_last=frozenset({"model.layers.0.c_fc.weight"}))
    divisors = GRADIENT.square().mean(0, keepdim=True).sqrt()
    spec = OptimizerSpec(weight_decay=0.5, name="adam_mini")
    found = one_step(VALUE, GRADIENT, spec=spec, layer="c_fc", axes=axes)
    close(found, VALUE * 0.95 - 0.1 * GRADIENT / divisors)


def test_adam_minis_second_step_averages_the_squares() -> None:
    # m: 0.9 * 0.1 g1 + 0.1 g2, over 1 - 0.9^2; v: 0.999 * 0.001 s1 + 0.001 s2, over 1 - 0.999^2
    first = one_step(VALUE, GRADIENT, spec=OptimizerSpec(name="adam_mini"))
    squares = [g.square().mean(1, keepdim=True) for g in (GRADIENT, OTHER)]
    second = ((0.000999 * squares[0] + 0.001 * squares[1]) / 0.001999).sqrt()
    found = one_step(VALUE, GRADIENT, OTHER, spec=OptimizerSpec(name="adam_mini"))
    close(found, first - 0.1 * ((0.09 * GRADIENT + 0.1 * OTHER) / 0.19) / second)
