"""Rows of different lengths in one line give the losses and gradients of padded rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends import reference
from tests.backends.objectives_for_tests import CRITIC, DISTILL, DPO, GRPO, SFT, TestObjective
from tests.breadth import families
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Policy, Stat
from zoo.backends.torch import packable
from zoo.backends.torch.packing.lines import Line

LORA = LoraSpec(rank=4, alpha=8.0)


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each pass was without padding."""
    seen: list[bool] = []
    real = packable.packed

    def noted(*given: Any, **options: Any) -> Any:
        found = real(*given, **options)
        seen.append(isinstance(found, Line))
        return found

    monkeypatch.setattr(packable, "packed", noted)
    return seen


def small_batch(width: int = 24) -> Batch:
    """Returns rows of different lengths, of tokens that the tiny families have."""
    batch = reference.example_batch(width=width)
    return replace(batch, ids_BT=batch.ids_BT % families.LAST_ID)


def opened(folder: Path, spec: LoadSpec, *, packing: bool) -> Policy:
    """Returns a policy whose adapter, if it has one, has random values."""
    way: Any = "required" if packing else "off"
    policy = load_backend("cpu").load(folder, replace(spec, packing=way))
    random = np.random.default_rng(7)
    policy.load_trained(
        {
            name: value + 0.05 * random.standard_normal(value.shape).astype(np.float32)
            for name, value in policy.trained()
        }
    )
    return policy


def assert_same(folder: Path, spec: LoadSpec, objective: TestObjective, batch: Batch) -> None:
    found: list[tuple[float, dict[str, Any], dict[Stat, Any]]] = []
    for packing in (True, False):
        policy = opened(folder, spec, packing=packing)
        with policy.reference() as teacher:
            compared: dict[str, Any] = {"teacher": teacher} if objective is DISTILL else {}
            loss = policy.accumulate(objective, batch, key=3, **compared)["loss"]
            scores = policy.score(batch, objective.needs, **compared)
        found.append((loss, dict(policy.gradients()), scores))
    (loss, slopes, scores), (plain_loss, plain_slopes, plain_scores) = found
    assert loss == pytest.approx(plain_loss, rel=1e-6)
    assert reference.relative_error(slopes, plain_slopes) < 1e-6
    for stat, expected in plain_scores.items():
        np.testing.assert_allclose(scores[stat], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("train", [LORA, "full"], ids=["lora", "full"])
@pytest.mark.parametrize("objective", [SFT, DPO, GRPO, CRITIC, DISTILL], ids=lambda o: o.name)
def test_loss_gradient_and_scores_are_those_of_padded_rows(
    tied: Path, objective: TestObjective, train: Any, forwards: list[bool]
) -> None:
    needs_values = Stat.VALUES in objective.needs
    spec = LoadSpec(train=train, dtype="f32", value_head=needs_values, seed=1)
    assert_same(tied, spec, objective, reference.example_batch())
    half = len(forwards) // 2  # a frozen copy that teaches decides for itself
    assert forwards == [True] * half + [False] * half
    assert half in {2, 4}


@pytest.mark.slow
def test_a_teacher_computes_rows_in_its_own_way(tied: Path, forwards: list[bool]) -> None:
    batch, needs = reference.example_batch(), frozenset({Stat.FORWARD_KL})
    teacher = load_backend("cpu").load(tied, LoadSpec(dtype="f32", attention="eager"))
    scores: list[Any] = []
    for packing in (True, False):
        student = opened(tied, LoadSpec(train=LORA, dtype="f32", seed=1), packing=packing)
        scores.append(student.score(batch, needs, teacher=teacher)[Stat.FORWARD_KL])
    assert forwards == [True, False, False, False]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec",
    [
        LoadSpec(train=LORA, dtype="f32", gradient_checkpointing=True),
        LoadSpec(train="full", dtype="f32", gradient_checkpointing=True),
        LoadSpec(train=LORA, dtype="bf16-widened"),
    ],
    ids=["recomputed", "recomputed in full training", "widened"],
)
def test_rows_are_not_padded_however_the_model_is_computed(
    stored_bf16: Path, spec: LoadSpec, forwards: list[bool]
) -> None:
    assert_same(stored_bf16, spec, GRPO, reference.example_batch())
    assert forwards == [True, True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gpt2", "phi3", "qwen3_moe"])
def test_rows_are_not_padded_in_other_families(
    family: str, tmp_path: Path, forwards: list[bool]
) -> None:
    families.build(family, tmp_path)
    spec = LoadSpec(train="full", dtype="f32")
    assert_same(tmp_path, spec, SFT, small_batch())
    assert forwards == [True, True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "why"),
    [
        ("qwen3_next", "its hidden states would differ"),
        ("deepseek_v32", "it attends to a selection of tokens"),
        ("bloom", "cannot be computed row by row"),
        ("mamba", "cannot be computed row by row"),
    ],
)
def test_a_model_that_needs_padding_says_so_or_is_refused(
    family: str, why: str, tmp_path: Path, forwards: list[bool]
) -> None:
    families.build(family, tmp_path)
    spec = LoadSpec(train="full", packing="preferred")
    policy = load_backend("cpu").load(tmp_path, spec)
    [note] = policy.notes(prefix=False)
    assert "computes rows with padding: " in note
    assert why in note
    policy.score(small_batch(), frozenset({Stat.LOGPROBS}))
    assert forwards == [False]
    with raises("torch.cannot_pack", r"packing: \w+ computes rows with padding: "):
        load_backend("cpu").load(tmp_path, replace(spec, packing="required"))


@pytest.mark.slow
def test_rows_longer_than_a_window_are_padded(tmp_path: Path, forwards: list[bool]) -> None:
    families.build("gemma3_text", tmp_path)
    policy = load_backend("cpu").load(tmp_path, LoadSpec(train="full", packing="required"))
    assert policy.notes(prefix=False) == (
        "Gemma3ForCausalLM computes rows without padding if they have at most 8 tokens",
    )
    batch = small_batch(8)
    short = replace(batch, lengths_B=np.array([8, 5, 4, 6, 3, 7]))
    short.loss_mask_BT[:, 3:] = False
    for one in (small_batch(), short):
        policy.score(one, frozenset({Stat.LOGPROBS}))
    assert forwards == [False, True]


@pytest.mark.slow
def test_rows_of_about_the_same_length_are_padded(tied: Path, forwards: list[bool]) -> None:
    """A line would save nothing, and attention within it is computed row by row."""
    batch = reference.example_batch()
    policy = opened(tied, LoadSpec(train=LORA), packing=True)
    policy.score(replace(batch, lengths_B=np.full_like(batch.lengths_B, 24)), frozenset(SFT.needs))
    assert forwards == [False]
