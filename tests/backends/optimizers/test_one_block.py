"""BAdam: AdamW on one block at a time, whose order and state survive a checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.backends.optimizers.stepping import set_gradients
from tests.backends.thread_ranks import ThreadRanks, in_threads
from tests.codes import raises
from zoo.backends.base import BlockSpec, OptimizerSpec
from zoo.backends.optimizer_memory import Matrix, Trained, gradient_bytes, state_bytes
from zoo.backends.torch.optimizers.named import NamedOptimizer
from zoo.backends.torch.optimizers.one_block import place_of
from zoo.backends.torch.parallel.gradients import sum_gradients

BLOCKS = 3
SPEC = OptimizerSpec(weight_decay=0.1, name="badam", blocks=BlockSpec(interval=2))


def parameters() -> dict[str, nn.Parameter]:
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (5, 2)}
    for block in range(BLOCKS):
        shapes |= {f"model.layers.{block}.mlp.weight": (4, 2), f"model.layers.{block}.norm": (2,)}
    draw = torch.Generator().manual_seed(0)
    shapes |= {"value_head.weight": (1, 2)}
    return {name: nn.Parameter(torch.randn(s, generator=draw)) for name, s in shapes.items()}


def take(optimizer: NamedOptimizer, first: int, last: int) -> list[set[str]]:
    """Takes steps and returns which parameters changed in each."""
    changed: list[set[str]] = []
    for step in range(first, last + 1):
        before = {name: p.detach().clone() for name, p in optimizer.parameters.items()}
        set_gradients(optimizer.parameters, step)
        optimizer.step(0.01, 1.0)
        after = optimizer.parameters
        changed.append({name for name in before if not torch.equal(before[name], after[name])})
    return changed


def test_each_block_is_trained_alone_for_the_interval_and_then_the_next() -> None:
    changed = take(NamedOptimizer(parameters(), SPEC), 1, 8)
    for step, names in enumerate(changed):
        block = f"model.layers.{step // 2 % BLOCKS}"
        assert names == {f"{block}.mlp.weight", f"{block}.norm", "value_head.weight"}


def test_a_turn_is_adamw_from_the_beginning() -> None:
    # the second turn of block 0 begins at step 7, with averages of zero
    optimizer = NamedOptimizer(parameters(), SPEC)
    take(optimizer, 1, 6)
    names = [name for name in optimizer.parameters if "layers.0" in name]
    values = {name: optimizer.parameters[name].detach().clone() for name in names}
    plain = {name: nn.Parameter(value) for name, value in values.items()}
    groups: list[dict[str, Any]] = [
        {"params": [p], "weight_decay": 0.1 if p.dim() == 2 else 0.0} for p in plain.values()
    ]
    adamw = torch.optim.AdamW(groups, lr=0.01)
    for step in (7, 8):
        set_gradients(optimizer.parameters, step)
        for name, parameter in plain.items():
            grad = optimizer.parameters[name].grad
            parameter.grad = None if grad is None else grad.clone()
        adamw.step()
        optimizer.step(0.01, max_grad_norm=1e9)
    for name, parameter in plain.items():
        torch.testing.assert_close(optimizer.parameters[name], parameter)


@pytest.mark.parametrize("order", ["ascending", "descending", "random", "fixed"])
@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_a_restored_run_trains_the_same_blocks_to_the_same_bytes(
    order: str, steps: int, tmp_path: Path
) -> None:
    spec = replace(SPEC, blocks=BlockSpec(order, interval=2, seed=3))  # type: ignore[arg-type]
    kept, resumed = (NamedOptimizer(parameters(), spec) for _ in range(2))
    take(kept, 1, steps)
    kept.save(tmp_path)
    for name, parameter in resumed.parameters.items():
        parameter.data.copy_(kept.parameters[name].detach())
    resumed.load(tmp_path)
    assert take(kept, steps + 1, 12) == take(resumed, steps + 1, 12)
    for name, parameter in kept.parameters.items():
        assert torch.equal(parameter, resumed.parameters[name]), name


ORDERS = {
    BlockSpec(): [0, 1, 2, 0, 1, 2, 0],
    BlockSpec(start=2): [2, 0, 1, 2, 0, 1, 2],
    BlockSpec("descending"): [2, 1, 0, 2, 1, 0, 2],
    BlockSpec("descending", start=0): [0, 2, 1, 0, 2, 1, 0],
    BlockSpec("fixed", start=1): [1] * 7,
}


@pytest.mark.parametrize("spec", ORDERS)
def test_blocks_take_turns_in_their_order(spec: BlockSpec) -> None:
    assert [place_of(turn, 3, spec) for turn in range(7)] == ORDERS[spec]


def test_a_random_order_has_each_block_once_a_round_and_depends_on_the_seed() -> None:
    rounds = [
        [place_of(turn, 8, BlockSpec("random", seed=seed)) for turn in range(16)] for seed in (0, 5)
    ]
    assert all(sorted(turns[:8]) == sorted(turns[8:]) == list(range(8)) for turns in rounds)
    assert rounds[0] != rounds[1]
    assert rounds[0][:8] != rounds[0][8:]
    first = BlockSpec("random", start=6)
    assert place_of(0, 8, first) == 6
    assert sorted(place_of(turn, 8, first) for turn in range(1, 9)) == list(range(8))


def test_the_state_and_the_gradients_are_those_of_one_block() -> None:
    learning = parameters()
    del learning["value_head.weight"]
    optimizer = NamedOptimizer(learning, SPEC)
    take(optimizer, 1, 1)
    found = sum(value.nbytes for value in optimizer.tensors().values() if value.dim())
    table = Matrix(5, 2, 1, linear=False)
    trained = Trained([Matrix(4, 2, BLOCKS), table], vectors=2 * BLOCKS, blocks=BLOCKS)
    assert state_bytes(trained, SPEC) == found
    sizes = [p.numel() for p in learning.values() if p.requires_grad]
    assert gradient_bytes(trained, SPEC) == 4 * sum(sizes)


def test_processes_of_which_one_has_no_batch_train_the_blocks_of_a_single_one() -> None:
    def work(ranks: ThreadRanks) -> dict[str, torch.Tensor]:
        optimizer = NamedOptimizer(parameters(), SPEC)
        for step in range(1, 7):
            if ranks.rank == 0:
                set_gradients(optimizer.parameters, step)
            sum_gradients(ranks, list(optimizer.parameters.values()))
            optimizer.step(0.01, 1.0)
        return {name: p.detach() for name, p in optimizer.parameters.items()}

    alone = NamedOptimizer(parameters(), SPEC)
    take(alone, 1, 6)
    for found in in_threads(2, work):
        for name, parameter in alone.parameters.items():
            assert torch.equal(found[name], parameter), name


def test_a_model_without_trained_blocks_is_refused() -> None:
    table = {"model.embed_tokens.weight": nn.Parameter(torch.ones(3, 2))}
    with raises("torch.no_trained_blocks", "badam: expected trained blocks of the model, got none"):
        NamedOptimizer(table, SPEC)


def test_a_first_block_that_the_model_lacks_is_refused() -> None:
    spec = replace(SPEC, blocks=BlockSpec(start=3))
    with raises("torch.no_such_block", "badam_start_block: expected 0 to 2, the blocks that"):
        NamedOptimizer(parameters(), spec)
