"""Noise on embeddings: in training only, from the key alone, as large as the paper says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends import reference
from tests.backends.objectives_for_tests import SFT, SORTED
from tests.backends.policies import LORA, as_reference
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, SharedPrefix, Stat
from zoo.backends.torch.layers.noise import noisy_embeddings
from zoo.backends.torch.loss import to_device
from zoo.backends.torch.packing.lines import line_up
from zoo.backends.torch.policy import TorchPolicy
from zoo.gym.train.accumulate import accumulate_window

NEEDS = frozenset({Stat.LOGPROBS})


def noisy(folder: Path, alpha: float = 20.0) -> TorchPolicy:
    spec = LoadSpec(train=LORA, dtype="f32", neftune_noise_alpha=alpha, seed=1)
    return as_reference(load_backend("cpu").load(folder, spec))


@pytest.mark.slow
def test_a_pass_with_the_same_key_has_the_same_noise(tied: Path) -> None:
    policy, batch = noisy(tied), reference.example_batch()
    first, again, other = (policy.accumulate(SFT, batch, key=key)["loss"] for key in (1, 1, 2))
    assert first == again
    assert abs(first - other) > 1e-4


@pytest.mark.slow
def test_scores_references_and_samples_have_none(tied: Path) -> None:
    policy, plain, batch = noisy(tied), noisy(tied, 0.0), reference.example_batch()
    policy.accumulate(SFT, batch, key=1)
    expected = plain.score(batch, NEEDS)[Stat.LOGPROBS]
    np.testing.assert_array_equal(policy.score(batch, NEEDS)[Stat.LOGPROBS], expected)
    with policy.reference() as base:
        np.testing.assert_array_equal(base.score(batch, NEEDS)[Stat.LOGPROBS], expected)
    np.testing.assert_array_equal(policy.logits([5, 6]), plain.logits([5, 6]))


@pytest.mark.slow
def test_a_coupled_objective_is_replayed_with_the_noise_it_was_scored_with(tied: Path) -> None:
    policy, batch = noisy(tied), reference.example_batch(rows=8)
    policy.accumulate(SORTED, batch, key=5)
    expected = dict(policy.gradients())
    policy.optimizer.clear()
    accumulate_window(policy, SORTED, [batch], keys=[5])
    assert reference.relative_error(dict(policy.gradients()), expected) < 1e-5


def added(policy: TorchPolicy, batch: Batch, *, line: bool) -> torch.Tensor:
    """The noise on the embeddings of a pass."""
    model: Any = policy.module.model
    layer, found = model.get_input_embeddings(), []
    device = torch.device("cpu")
    moved = to_device(batch, device, line_up(batch, device) if line else None)
    ids = moved.packed.ids_1L if line else moved.ids_BT  # type: ignore[union-attr]
    with noisy_embeddings(policy.module, moved, 20.0, 3):
        found.append(layer(ids))
    result: torch.Tensor = (found[0] - layer(ids)).detach()
    return result


@pytest.mark.slow
@pytest.mark.parametrize("line", [False, True])
def test_a_row_has_noise_of_alpha_over_the_root_of_its_values(tied: Path, line: bool) -> None:
    policy, batch = noisy(tied), reference.example_batch()
    noise = added(policy, batch, line=line)
    lengths = batch.lengths_B.tolist()
    assert len(set(lengths)) > 1
    whole: Any = noise[0]
    rows = whole.split([n - 1 for n in lengths]) if line else list(noise)
    for row, tokens in zip(rows, lengths, strict=True):
        most = 20 / (tokens * 64) ** 0.5
        assert 0.98 * most < float(row.abs().max()) <= most * 1.0001
        assert float(row.std()) == pytest.approx(most / 3**0.5, rel=0.05)


def test_rows_with_a_common_prompt_have_noise_of_their_own(tied: Path) -> None:
    batch = reference.example_batch(rows=2)
    ids = np.broadcast_to(batch.ids_BT[:1], batch.ids_BT.shape).copy()
    lengths = np.full(2, batch.lengths_B[0])
    mask = np.broadcast_to(batch.loss_mask_BT[:1], ids.shape).copy()
    same = Batch(ids, lengths, mask, {}, batch.constants)
    prefix = SharedPrefix(np.zeros(2, np.int64), np.array([2]))
    policy = noisy(tied)
    found = [
        policy.accumulate(SFT, one, key=4)["loss"] for one in (same, replace(same, prefix=prefix))
    ]
    assert found[0] == found[1]


def test_a_model_that_does_not_use_its_embedding_layer_is_refused(tied: Path) -> None:
    policy, batch = noisy(tied), reference.example_batch()
    moved = to_device(batch, torch.device("cpu"))
    with (
        pytest.raises(Exception, match="neftune_noise_alpha: Qwen3ForCausalLM does not use"),
        noisy_embeddings(policy.module, moved, 5.0, 1),
    ):
        pass
