"""Rows that begin alike: computed together, they give the scores and gradients of separate rows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends import reference
from tests.backends.objectives_for_tests import CRITIC, DISTILL, DPO, GRPO, SFT, TestObjective
from tests.backends.policies import LORA, as_reference, policies
from tests.breadth import families
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Policy, SharedPrefix, Stat
from zoo.backends.torch import packable

TOLERANCE = 1e-6
"""Relative, float32."""

ALL = frozenset({Stat.LOGPROBS, Stat.ENTROPY, Stat.LOG_SUM_SQ_PROBS})


def group_batch(prompts: tuple[int, ...] = (9, 5), own: int = 7, seed: int = 0) -> Batch:
    """Four rows for each prompt; a learned token within a prompt, equal rows, and an empty one."""
    random = np.random.default_rng(seed)
    rows, prompt_B = list[Any](), list[int]()
    for prompt, length in enumerate(prompts):
        start = random.integers(3, 150, length)
        ends = [random.integers(3, 150, count) for count in (own, own - 3, 1, 0)]
        rows += [np.concatenate([start, end]) for end in ends]
        prompt_B += [prompt] * 4
    lengths_B = np.array([len(row) for row in rows])
    shape = (len(rows), int(lengths_B.max()))
    ids_BT = np.stack([np.pad(row, (0, shape[1] - len(row))) for row in rows])
    places_BT = np.arange(shape[1])[None]
    shared_B = np.array(prompts)[prompt_B]
    mask_BT = (places_BT >= shared_B[:, None] - 2) & (places_BT < lengths_B[:, None])
    ref, returns = random.standard_normal((2, *shape)).astype(np.float32)
    advantages = random.standard_normal(len(rows)).astype(np.float32)
    return Batch(
        ids_BT,
        lengths_B,
        mask_BT,
        extras={"ref": ref * 0.3 - 6, "returns": returns, "advantages": advantages},
        constants={"window_tokens": float(mask_BT.sum()), "window_rows": len(rows) / 2},
        prefix=SharedPrefix(np.array(prompt_B), np.array(prompts)),
    )


@pytest.fixture(autouse=True)
def pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models share too."""
    monkeypatch.setattr(packable, "pays", lambda *_: True)


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each pass shared."""
    seen: list[bool] = []
    real = packable.packed

    def noted(*given: Any, **options: Any) -> Any:
        found = real(*given, **options)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(packable, "packed", noted)
    return seen


def gradients(policy: Policy, objective: TestObjective, batch: Batch, **given: Any) -> Any:
    found = policy.accumulate(objective, batch, key=3, **given)
    slopes = dict(policy.gradients())
    policy.optimizer_step(0.0, 1.0)
    return found["loss"], slopes


def assert_same_with_and_without(
    policy: Policy, objective: TestObjective, batch: Batch, **given: Any
) -> None:
    loss, found = gradients(policy, objective, batch, **given)
    plain_loss, plain = gradients(policy, objective, replace(batch, prefix=None), **given)
    assert loss == pytest.approx(plain_loss, rel=TOLERANCE)
    assert reference.relative_error(found, plain) < TOLERANCE
    scores = policy.score(batch, ALL)
    for stat, expected in policy.score(replace(batch, prefix=None), ALL).items():
        np.testing.assert_allclose(scores[stat], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("train", [LORA, "full"], ids=["lora", "full"])
@pytest.mark.parametrize("objective", [SFT, DPO, GRPO, CRITIC], ids=lambda o: o.name)
def test_loss_and_gradient_are_those_of_separate_rows(
    engine: str, tied: Path, objective: TestObjective, train: Any
) -> None:
    mine, plain = policies(engine, tied, train, value_head=Stat.VALUES in objective.needs)
    batch = group_batch()
    loss, expected = reference.loss_and_gradients(as_reference(plain), objective, batch)
    found, slopes = gradients(mine, objective, batch)
    assert found == pytest.approx(loss, rel=1e-5)
    assert reference.relative_error(slopes, expected) < 1e-5
    assert_same_with_and_without(mine, objective, batch)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec",
    [
        LoadSpec(train=LORA, dtype="f32", gradient_checkpointing=True),
        LoadSpec(train="full", dtype="f32", gradient_checkpointing=True),
        LoadSpec(train=LORA, dtype="f32", attention="eager"),
        LoadSpec(train=LORA, dtype="bf16-widened"),
    ],
    ids=["recomputed", "recomputed in full training", "eager", "widened"],
)
def test_prompts_are_shared_however_the_model_is_computed(
    stored_bf16: Path, spec: LoadSpec, forwards: list[bool]
) -> None:
    policy = load_backend("cpu").load(stored_bf16, spec)
    assert_same_with_and_without(policy, GRPO, group_batch())
    assert forwards == [True, False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gpt2", "deepseek_v3", "phi3", "mixtral"])
def test_prompts_are_shared_in_other_families(
    family: str, tmp_path: Path, forwards: list[bool]
) -> None:
    families.build(family, tmp_path)
    policy = load_backend("cpu").load(tmp_path, LoadSpec(train="full"))
    assert policy.notes() == ()
    assert_same_with_and_without(policy, GRPO, group_batch())
    assert forwards == [True, False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "why"),
    [
        ("qwen3_next", "its hidden states would differ"),
        ("deepseek_v32", "it attends to a selection of tokens"),
        ("bloom", "it takes no positions or no masks"),
        ("mamba", "it takes no positions or no masks"),
    ],
)
def test_models_that_cannot_share_compute_each_row_and_say_so(
    family: str, why: str, tmp_path: Path, forwards: list[bool]
) -> None:
    families.build(family, tmp_path)
    policy = load_backend("cpu").load(tmp_path, LoadSpec(train="full"))
    assert any(f"in each row of an update: {why}" in note for note in policy.notes())
    batch = group_batch((30, 20))  # more than the 8 tokens that DeepSeek V3.2 selects here
    assert_same_with_and_without(policy, SFT, batch)
    assert not any(forwards)


@pytest.mark.slow
def test_rows_longer_than_a_window_are_computed_apart(tmp_path: Path, forwards: list[bool]) -> None:
    families.build("gemma3_text", tmp_path)
    policy = load_backend("cpu").load(tmp_path, LoadSpec(train="full"))
    note = "Gemma3ForCausalLM shares prompts in an update if rows have at most 8 tokens"
    assert policy.notes() == (note,)
    assert_same_with_and_without(policy, SFT, group_batch((9, 5), own=7))
    assert_same_with_and_without(policy, SFT, group_batch((4, 3), own=4))
    assert forwards == [False, False, False, False, True, False, True, False]


@pytest.mark.slow
def test_rows_with_dropout_are_computed_apart(tied: Path, forwards: list[bool]) -> None:
    """Otherwise all rows of a prompt would have the same noise."""
    spec = LoadSpec(train=LoraSpec(rank=4, alpha=8.0, dropout=0.3))
    policy = load_backend("cpu").load(tied, spec)
    assert "rows with dropout are computed in full" in policy.notes()[0]
    assert_same_with_and_without(policy, SFT, group_batch())
    assert forwards == [False, False, True, False]


@pytest.mark.slow
def test_noise_in_attention_is_noticed(tmp_path: Path, forwards: list[bool]) -> None:
    families.build("qwen3", tmp_path)
    policy = as_reference(load_backend("cpu").load(tmp_path, LoadSpec(train="full")))
    for layer in policy.module.model.model.layers:  # type: ignore[union-attr]
        layer.self_attn.attention_dropout = 0.5
    policy.accumulate(SFT, group_batch(), key=0)
    assert forwards == [False]


@pytest.mark.slow
def test_a_teacher_and_a_reference_share_prompts_too(
    untied: Path, teacher_folder: Path, forwards: list[bool]
) -> None:
    policy = load_backend("cpu").load(untied, LoadSpec(train=LORA, dtype="f32"))
    teacher = load_backend("cpu").load(teacher_folder)
    assert_same_with_and_without(policy, DISTILL, group_batch(), teacher=teacher)
    assert forwards == [True, True, False, False, True, False]
    batch, needs = group_batch(), frozenset({Stat.LOGPROBS})
    with policy.reference() as base:
        found = base.score(batch, needs)[Stat.LOGPROBS]
        expected = base.score(replace(batch, prefix=None), needs)[Stat.LOGPROBS]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert forwards[6:] == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ids, lengths: ids.__setitem__((1, 2), 7), "row 1: expected the tokens of its"),
        (lambda ids, lengths: lengths.__setitem__(5, 3), "row 5: expected at most its own tokens"),
    ],
    ids=["other tokens", "too short"],
)
def test_rows_that_do_not_begin_with_their_prompt_are_refused(
    tied: Path, change: Callable[[Any, Any], None], message: str
) -> None:
    batch = group_batch()
    change(batch.ids_BT, batch.lengths_B)
    policy = load_backend("cpu").load(tied, LoadSpec(train=LORA))
    with pytest.raises(ValueError, match=message):
        policy.accumulate(SFT, batch, key=0)
