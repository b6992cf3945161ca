"""What the processes of a run exchange, and their gradients against those of one process."""

from pathlib import Path

import numpy as np
import pytest

from tests.backends import reference
from tests.backends.objectives_for_tests import GRPO
from tests.backends.thread_ranks import ThreadRanks, in_threads
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec
from zoo.backends.ranks import ALONE, FROM_ENVIRONMENT, Place
from zoo.backends.torch.parallel import gradients
from zoo.backends.torch.policy import TorchPolicy
from zoo.core.errors import NotAvailableError


def test_pieces_of_work_come_back_in_order() -> None:
    def work(ranks: ThreadRanks) -> list[int]:
        own = {n: {"n": np.array([n] * n)} for n in ranks.mine(5)}
        return [len(part["n"]) for part in ranks.join(own)]

    assert in_threads(2, work) == [[0, 1, 2, 3, 4]] * 2


def test_every_piece_of_work_is_done_once() -> None:
    assert sorted(n for part in in_threads(3, lambda ranks: ranks.mine(7)) for n in part) == [
        *range(7)
    ]
    assert [*ALONE.mine(3)] == [0, 1, 2]


def test_numbers_are_added_up_where_only_some_have_them() -> None:
    found = in_threads(2, lambda ranks: ranks.total({"loss": 1.5} if ranks.rank else {}))
    assert found == [{"loss": 1.5}] * 2


def test_the_first_process_decides() -> None:
    assert in_threads(2, lambda ranks: ranks.share(f"said by {ranks.rank}")) == ["said by 0"] * 2


def test_the_first_process_is_first() -> None:
    done: list[int] = []
    in_threads(3, lambda ranks: ranks.in_turn(lambda: done.append(ranks.rank)))
    assert done[0] == 0
    assert sorted(done) == [0, 1, 2]


def rows(batch: Batch, part: slice) -> Batch:
    extras = {name: value[part] for name, value in batch.extras.items()}
    arrays = batch.ids_BT[part], batch.lengths_B[part], batch.loss_mask_BT[part]
    return Batch(*arrays, extras, batch.constants)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [(4, 8), (8, 8)], ids=["halves", "one-has-none"])
@pytest.mark.parametrize("train", [LoraSpec(rank=4, alpha=8.0), "full"], ids=["lora", "full"])
def test_two_processes_have_the_gradient_of_one(
    tied: Path, monkeypatch: pytest.MonkeyPatch, train: object, parts: tuple[int, int]
) -> None:
    monkeypatch.setattr(gradients, "PIECE_BYTES", 40_000)
    batch = reference.example_batch(rows=8)
    spec = LoadSpec(train=train, seed=1)  # type: ignore[arg-type]
    # before the threads, which have one random state
    alone, *policies = (load_backend("cpu").load(tied, spec) for _ in range(3))

    def work(ranks: ThreadRanks) -> dict[str, np.ndarray]:
        policy = policies[ranks.rank]
        assert isinstance(policy, TorchPolicy)
        cut = (0, *parts)
        own = slice(cut[ranks.rank], cut[ranks.rank + 1])
        if own.stop > own.start:
            policy.accumulate(GRPO, rows(batch, own), key=0)
        gradients.sum_gradients(ranks, list(policy.parameters.values()))
        return dict(policy.gradients())

    alone.accumulate(GRPO, batch, key=0)
    for found in in_threads(2, work):
        assert reference.relative_error(found, dict(alone.gradients())) < 1e-6


def test_a_device_without_gpus_of_its_own_is_refused() -> None:
    engine = load_backend("cpu")
    engine.name = "mps"
    with (
        raises("backends.one_process_only", "expected 1 on mps, got 2"),
        engine.connect(Place(0, 2)),
    ):
        pass
    engine.name = "cuda"
    for place in (Place(0, 99), Place(99, 100, local_rank=98, meeting=FROM_ENVIRONMENT)):
        refusal = pytest.raises(NotAvailableError, match="99 processes")
        with refusal, engine.connect(place):
            pass
