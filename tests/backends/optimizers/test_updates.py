"""Each optimizer's update, computed by hand."""

import torch

from tests.backends.optimizers.stepping import one_step
from zoo.backends.base import OptimizerSpec

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
