"""GaLore's and APOLLO's updates, written plainly beside them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.backends.optimizers.stepping import make, one_step, parameters
from tests.codes import raises
from zoo.backends.base import OptimizerSpec, ProjectionSpec
from zoo.backends.optimizer_memory import Matrix, Trained, step_bytes
from zoo.backends.torch.optimizers.named import NamedOptimizer
from zoo.backends.torch.optimizers.projection import new_projection, project

RATE, DECAY = 0.1, 0.5
SHAPES = [(5, 3), (3, 5), (4, 4)]


def gradients(shape: tuple[int, int], count: int = 3) -> list[Tensor]:
    draw = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=draw) for _ in range(count)]


def adam(projected: list[Tensor]) -> Tensor:
    """Adam's step after several gradients (arXiv:1412.6980, algorithm 1)."""
    first, second = torch.zeros_like(projected[0]), torch.zeros_like(projected[0])
    for g in projected:
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
    count = len(projected)
    return first / (1 - 0.9**count) / ((second / (1 - 0.999**count)).sqrt() + 1e-8)


def stepped(spec: ProjectionSpec, name: str, found: list[Tensor]) -> Tensor:
    start = torch.ones_like(found[0])
    return one_step(start, *found, spec=OptimizerSpec(DECAY, name=name, projection=spec), lr=RATE)


@pytest.mark.parametrize("shape", SHAPES)
def test_galore_steps_by_adam_in_the_span_of_the_first_gradients_largest_vectors(
    shape: tuple[int, int],
) -> None:
    # algorithm 2: P of the first gradient; R = P^T G or G P; W -= lr * scale * (P N or N P^T)
    spec, found, expected = ProjectionSpec(rank=2, scale=0.25), gradients(shape), torch.ones(shape)
    left, _, right = torch.linalg.svd(found[0])
    basis = right[:2].T if shape[0] >= shape[1] else left[:, :2]
    for count in range(1, len(found) + 1):
        low = [g @ basis if shape[0] >= shape[1] else basis.T @ g for g in found[:count]]
        moved = adam(low) @ basis.T if shape[0] >= shape[1] else basis @ adam(low)
        expected = expected * (1 - RATE * DECAY) - RATE * 0.25 * moved
    torch.testing.assert_close(stepped(spec, "galore", found), expected, rtol=1e-4, atol=1e-5)


def test_galore_of_full_rank_lies_in_the_whole_space() -> None:
    [gradient] = gradients((5, 3), 1)
    wide = stepped(ProjectionSpec(rank=99), "galore", [gradient])
    assert torch.equal(wide, stepped(ProjectionSpec(rank=3), "galore", [gradient]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scaling", ["channel", "tensor"])
def test_apollo_scales_the_gradient_as_adam_scales_its_projection(
    scaling: str, shape: tuple[int, int]
) -> None:
    # algorithm 1: s = |Adam(R)| / |R| by channel of the larger side; W -= lr * sqrt(scale) * s G,
    # where s G is at most 1.01 times as long as the one before
    spec = ProjectionSpec(rank=2, scale=4.0, kind="random", scaling=scaling)  # type: ignore[arg-type]
    found, expected, longest = gradients(shape), torch.ones(shape), torch.tensor(torch.inf)
    basis = new_projection(found[0], spec, "model.layers.0.mlp.up_proj.weight", 0)
    for count in range(1, len(found) + 1):
        low = [project(g, basis) for g in found[:count]]
        dim = (None if scaling == "tensor" else 1) if shape[0] >= shape[1] else 0
        dim = None if scaling == "tensor" else dim
        ratio = adam(low).norm(dim=dim, keepdim=True) / low[-1].norm(dim=dim, keepdim=True)
        moved = found[count - 1] * ratio
        moved = moved * min(1.0, float(longest / moved.norm()))
        longest = 1.01 * moved.norm()
        expected = expected * (1 - RATE * DECAY) - RATE * 2.0 * moved
    torch.testing.assert_close(stepped(spec, "apollo", found), expected, rtol=1e-4, atol=1e-5)


def test_a_step_without_gradient_does_not_stop_apollo() -> None:
    # nothing is longer than 1.01 times nothing
    spec = ProjectionSpec(rank=2, kind="random")
    [gradient] = gradients((5, 3), 1)
    moved = stepped(spec, "apollo", [gradient, torch.zeros(5, 3), gradient])
    assert float((moved - stepped(spec, "apollo", [gradient, torch.zeros(5, 3)])).abs().max()) > 0.1


@pytest.mark.parametrize("kind", ["svd", "random"])
def test_a_projection_keeps_the_length_of_a_gradient_on_average(kind: str) -> None:
    # singular vectors keep the largest part; random ones its square in expectation
    spec = ProjectionSpec(rank=8, kind=kind)  # type: ignore[arg-type]
    gradient = torch.randn(400, 32, generator=torch.Generator().manual_seed(1))
    kept = project(gradient, new_projection(gradient, spec, "a", 0)).norm() / gradient.norm()
    assert 0.45 < float(kept) < 1.15


def test_projections_change_after_the_interval_and_differ_by_parameter_and_seed() -> None:
    gradient = torch.ones(6, 4)
    spec = ProjectionSpec(rank=2, kind="random")
    drawn = [
        new_projection(gradient, spec, "a", 0),
        new_projection(gradient, spec, "a", 1),
        new_projection(gradient, spec, "b", 0),
        new_projection(gradient, replace(spec, seed=1), "a", 0),
    ]
    assert all(not torch.equal(drawn[0], other) for other in drawn[1:])


@pytest.mark.parametrize("name", ["galore", "apollo"])
def test_a_new_projection_comes_after_the_interval(name: str) -> None:
    optimizer = make(name)  # every 3 steps
    key = "model.layers.0.mlp.down_proj.weight/projection"
    seen: list[Tensor] = []
    for step in range(1, 5):
        for place, parameter in enumerate(optimizer.parameters.values()):
            draw = torch.Generator().manual_seed(100 * step + place)
            parameter.grad = torch.randn(parameter.shape, generator=draw)
        optimizer.step(0.01, 1.0)
        seen.append(optimizer.tensors()[key].clone())
    assert torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[2], seen[3])


@pytest.mark.parametrize(
    ("targets", "projected"),
    [
        (("all-linear",), {"layers.0.self_attn", "layers.0.mlp", "layers.1.self_attn"}),
        (("mlp",), {"layers.0.mlp"}),
        (("embed_tokens", "down_proj"), {"embed_tokens", "layers.0.mlp"}),
    ],
)
def test_the_named_modules_are_projected_and_adamw_steps_the_others(
    targets: tuple[str, ...], projected: set[str]
) -> None:
    spec = OptimizerSpec(name="galore", projection=ProjectionSpec(rank=2, targets=targets))
    optimizer = NamedOptimizer(parameters(), spec)
    before = {name: p.detach().clone() for name, p in optimizer.parameters.items()}
    for parameter in optimizer.parameters.values():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(0.1, 1.0)
    found = {key for key in optimizer.tensors() if key.endswith("/projection")}
    assert all(any(part in key for key in found) for part in projected)
    assert len(found) == len(projected)
    assert all(not torch.equal(before[name], p) for name, p in optimizer.parameters.items())


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (("up_proj",), "galore_target: expected modules with trained matrices, got 'up_proj'"),
        (("input_layernorm",), "expected modules with trained matrices"),
    ],
)
def test_a_module_that_has_no_trained_matrix_is_refused(
    targets: tuple[str, ...], message: str
) -> None:
    spec = OptimizerSpec(name="galore", projection=ProjectionSpec(targets=targets))
    with raises("backends.no_such_module", message):
        NamedOptimizer(parameters(), spec)


def test_a_model_without_trained_layers_is_refused() -> None:
    table = {"model.embed_tokens.weight": nn.Parameter(torch.ones(3, 2))}
    with raises(
        "torch.no_trained_blocks", "apollo_target: expected trained matrices in the blocks"
    ):
        NamedOptimizer(table, OptimizerSpec(name="apollo"))


def test_a_decomposition_counts_in_the_memory_of_a_step() -> None:
    trained, svd = Trained([Matrix(6, 4, 2)]), ProjectionSpec()
    random = replace(svd, kind="random")
    sizes = [
        step_bytes(trained, OptimizerSpec(name="galore", projection=svd)),
        step_bytes(trained, OptimizerSpec(name="apollo", projection=svd)),
        step_bytes(trained, OptimizerSpec(name="apollo", projection=random)),
    ]
    assert sizes == [4 * 24 * copies for copies in (5, 5, 1)]
