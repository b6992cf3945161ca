"""What scores next to a policy, on every engine: its reference, and a teacher."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.backends import reference
from tests.backends.policies import LORA, as_reference, policies, step
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, Sampling, Stat


@pytest.mark.slow
def test_the_reference_of_full_training_is_the_model_as_it_was(engine: str, tied: Path) -> None:
    batch, needs = reference.example_batch(), frozenset({Stat.LOGPROBS})
    policy = load_backend(engine).load(tied, LoadSpec(train="full", dtype="f32"))
    before = policy.score(batch, needs)[Stat.LOGPROBS]
    step(policy, batch, 2)
    with policy.reference() as base:
        np.testing.assert_allclose(base.score(batch, needs)[Stat.LOGPROBS], before, atol=1e-5)
    assert np.abs(policy.score(batch, needs)[Stat.LOGPROBS] - before).max() > 1e-3


def test_a_policy_for_inference_has_no_reference(engine: str, tied: Path) -> None:
    policy = load_backend(engine).load(tied)
    with raises("backends.not_in_training"), policy.reference():
        pass


@pytest.mark.slow
def test_a_teacher_may_read_another_prompt(engine: str, tied: Path) -> None:
    """Two more tokens in front of the teacher's rows; the learned tokens are the same."""
    policy, _ = policies(engine, tied, LORA)
    batch, needs = reference.example_batch(), frozenset({Stat.REVERSE_KL})
    front = np.full((len(batch.ids_BT), 2), 7)
    longer = Batch(
        np.concatenate([front, batch.ids_BT], 1),
        batch.lengths_B + 2,
        np.concatenate([front < 0, batch.loss_mask_BT], 1),
    )
    with policy.reference() as base:
        own = policy.score(batch, needs, teacher=base)[Stat.REVERSE_KL]
        guided = replace(batch, teacher=longer)
        other = policy.score(guided, needs, teacher=base)[Stat.REVERSE_KL]
        wrong = replace(batch, teacher=replace(longer, ids_BT=longer.ids_BT + 1))
        with pytest.raises(ValueError, match="expected the same learned tokens"):
            policy.score(wrong, needs, teacher=base)
    assert own.shape == other.shape
    assert np.abs(own - other).max() > 1e-4


@pytest.mark.slow
def test_an_error_in_the_reference_leaves_a_frozen_adapter_frozen(
    tied: Path, tmp_path: Path
) -> None:
    """peft switches the gradients of every adapter on when its block ends."""
    load_backend("cpu").load(tied, LoadSpec(train=LORA)).save_result(tmp_path, base="tied")
    policy = as_reference(load_backend("cpu").load(tied, LoadSpec(adapter=tmp_path)))
    with policy.reference() as base, pytest.raises(ValueError, match="no empty prompt"):
        base.generate([[]], Sampling(max_new_tokens=1), keys=[1])
    assert not any(p.requires_grad for p in policy.module.parameters())


@pytest.mark.slow
def test_the_reference_is_the_base_and_leaves_the_policy_alone(engine: str, tied: Path) -> None:
    mine, _ = policies(engine, tied, LORA)
    base = load_backend(engine).load(tied)
    batch, needs = reference.example_batch(), frozenset({Stat.LOGPROBS})
    before = mine.score(batch, needs)[Stat.LOGPROBS]
    with mine.reference() as reference_policy:
        without = reference_policy.score(batch, needs)[Stat.LOGPROBS]
        beside = mine.score(batch, needs)[Stat.LOGPROBS]
    np.testing.assert_array_equal(without, base.score(batch, needs)[Stat.LOGPROBS])
    np.testing.assert_array_equal(before, beside)
    assert np.abs(before - without).max() > 1e-3


@pytest.mark.slow
def test_a_policy_is_at_no_distance_from_itself(engine: str, tied: Path) -> None:
    mine, _ = policies(engine, tied, LORA)
    needs = frozenset({Stat.FORWARD_KL, Stat.REVERSE_KL})
    scores = mine.score(reference.example_batch(), needs, teacher=mine)
    for stat in needs:
        assert np.abs(scores[stat]).max() < 1e-5


@pytest.mark.slow
def test_the_most_likely_tokens_are_compared(engine: str, tied: Path) -> None:
    mine, _ = policies(engine, tied, LORA)
    base = load_backend(engine).load(tied)
    batch = reference.example_batch()
    rows = [(model, ids.tolist()) for model in (mine, base) for ids in batch.ids_BT]
    tops = np.stack([model.logits(ids).argmax(-1) for model, ids in rows])
    same = np.split(tops, 2)[0] == np.split(tops, 2)[1]
    expected = np.pad(same, ((0, 0), (1, 0)))[:, :-1] & batch.loss_mask_BT
    assert 0 < expected.sum() < batch.loss_mask_BT.sum()
    got = mine.score(batch, frozenset({Stat.TOP1}), teacher=base)[Stat.TOP1]
    np.testing.assert_array_equal(got, expected)
