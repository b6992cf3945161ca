"""Several answers to a prompt: what they share changes no answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends.policies import as_reference
from tests.breadth import families
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, Policy, Rollout, Sampling, Stat
from zoo.backends.torch.generation import generate as generation
from zoo.backends.torch.generation import growing
from zoo.backends.torch.generation.decoding import Decoding
from zoo.backends.torch.loss import LossModule

LONG, SHORT = [9, 21, 33, 45, 50, 61, 72, 83, 94, 15, 26, 37], [40, 31, 22, 13, 54]
PROMPTS = [LONG, LONG, SHORT, LONG, SHORT, LONG]
WARM = Sampling(max_new_tokens=8, temperature=1.0, stop_ids=tuple(range(20, 40)))
"""Some answers end early, others do not."""

FAMILIES = ["qwen3", "llama", "gemma3_text", "gemma4_text", "lfm2", "qwen3_next", "falcon_h1"]
"""Caches of keys, windows shorter than the prompt, a shared cache, convolutions; and two with a
state that cannot be repeated."""

Read = list[tuple[int, ...]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """The shapes of the ids that the model reads."""
    seen: Read = []
    real = LossModule.next_logits

    def noted(module: LossModule, ids_BP: torch.Tensor, **inputs: Any) -> Any:
        seen.append(tuple(ids_BP.shape))
        return real(module, ids_BP, **inputs)

    monkeypatch.setattr(LossModule, "next_logits", noted)
    return seen


def alone(policy: Policy, prompts: list[list[int]], sampling: Sampling) -> list[Rollout]:
    return [policy.generate([p], sampling, keys=[k])[0] for k, p in enumerate(prompts)]


def assert_same(found: list[Rollout], expected: list[Rollout]) -> None:
    assert [(one.ids, one.finish) for one in found] == [(one.ids, one.finish) for one in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_answers_of_a_group_are_those_of_each_alone(family: str, tmp_path: Path) -> None:
    families.build(family, tmp_path)
    policy = load_backend("cpu").load(tmp_path)
    expected = alone(policy, PROMPTS, WARM)
    assert {one.finish for one in expected} == {"stop", "length"}
    assert_same(policy.generate(PROMPTS, WARM, keys=range(6)), expected)


@pytest.mark.slow
def test_answers_do_not_depend_on_the_order_of_prompts(engine: str, tied: Path) -> None:
    policy = load_backend(engine).load(tied)
    found = policy.generate(PROMPTS[::-1], WARM, keys=range(6)[::-1])
    assert_same(found[::-1], policy.generate(PROMPTS, WARM, keys=range(6)))


@pytest.mark.slow
def test_equal_prompts_are_read_once_and_ended_answers_leave_the_batch(
    tied: Path, read: Read
) -> None:
    policy = load_backend("cpu").load(tied)
    policy.generate(PROMPTS, WARM, keys=range(6))  # the first call also tests the model
    read.clear()
    answers = policy.generate(PROMPTS, WARM, keys=range(6))
    lengths = [len(one.ids) for one in answers]
    assert len(set(lengths)) > 1
    still = [sum(length > place for length in lengths) for place in range(1, max(lengths))]
    assert read == [(2, len(LONG)), *((rows, 1) for rows in still)]


@pytest.mark.slow
def test_a_state_that_cannot_be_repeated_is_computed_for_each_answer(
    tmp_path: Path, read: Read
) -> None:
    families.build("qwen3_next", tmp_path)
    policy = load_backend("cpu").load(tmp_path)
    assert policy.notes()[0] == (
        "Qwen3NextForCausalLM reads a prompt again for each of its answers: "
        "its state cannot be split into rows"
    )
    assert not any("its answers" in note for note in policy.notes(sampling=False))
    read.clear()
    policy.generate([LONG] * 3, Sampling(max_new_tokens=2), keys=[0, 1, 2])
    assert read == [(3, len(LONG)), (3, 1)]


@pytest.mark.slow
def test_a_state_that_is_repeated_in_part_is_noticed(tmp_path: Path) -> None:
    """Falcon-H1 repeats its keys, but not the state of its convolutions."""
    families.build("falcon_h1", tmp_path)
    note, _ = load_backend("cpu").load(tmp_path).notes()
    assert "FalconH1ForCausalLM reads a prompt again" in note


@pytest.mark.slow
def test_a_wrongly_repeated_state_is_noticed(tied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.cache_utils import DynamicLayer

    monkeypatch.setattr(
        DynamicLayer, "batch_select_indices", lambda self, rows: self.reorder_cache(rows * 0)
    )
    policy = load_backend("cpu").load(tied)
    (note,) = policy.notes()
    assert "its logits would differ by" in note
    assert_same(policy.generate(PROMPTS, WARM, keys=range(6)), alone(policy, PROMPTS, WARM))


def test_what_an_engine_does_not_share_is_in_the_notes(engine: str, tied: Path) -> None:
    notes = load_backend(engine).load(tied).notes()
    if engine == "mlx":
        [note] = notes
        assert note.startswith("updates on MLX compute a prompt again for each of its answers")
    else:
        assert notes == ()


@pytest.mark.slow
def test_memory_limits_the_rows_of_a_batch(
    tied: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_backend("cpu").load(tied)
    whole = policy.generate(PROMPTS, WARM, keys=range(6))
    # 2 layers * 2 heads * 16 values * keys and values * 4 bytes; 521 tokens in the vocabulary
    row = (len(LONG) + WARM.max_new_tokens) * max(512, 48 * 64) + 24 * 521
    monkeypatch.setattr(generation, "BATCH_BYTES", 2 * row)
    read.clear()
    parts = policy.generate(PROMPTS, WARM, keys=range(6))
    assert_same(parts, whole)
    assert [shape for shape in read if shape[1] > 1] == [(1, 5), (1, 12), (1, 12)]


@pytest.mark.slow
def test_whole_matrices_of_attention_limit_the_prompts_that_are_read_at_once(
    tied: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_backend("cpu").load(tied, LoadSpec(attention="eager"))
    row = (len(LONG) + WARM.max_new_tokens) * max(512, 48 * 64) + 24 * 521
    # 2.5 arrays of 4 heads x 12 x 12 numbers of 4 bytes
    scores = 5760
    whole = policy.generate(PROMPTS, WARM, keys=range(6))
    # without the spare bytes one answer is left for another batch
    for spare, shapes in ((0, [(2, 12), (1, 12)]), (scores, [(2, 12)])):
        monkeypatch.setattr(generation, "BATCH_BYTES", 6 * row + scores + spare)
        read.clear()
        assert_same(policy.generate(PROMPTS, WARM, keys=range(6)), whole)
        assert [shape for shape in read if shape[1] > 1] == shapes


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["f32", "bf16", "bf16-widened"])
def test_an_answers_logprobs_are_those_that_score_computes(stored_bf16: Path, stored: str) -> None:
    """Whatever it was sampled with."""
    policy = load_backend("cpu").load(stored_bf16, LoadSpec(dtype=stored))
    settings = Sampling(max_new_tokens=8, temperature=0.7, top_p=0.8, top_k=20)
    for answer in policy.generate([LONG] * 4, settings, keys=range(4)):
        ids = np.array([LONG + answer.ids])
        mask = np.arange(ids.shape[1])[None] >= len(LONG)
        scores = policy.score(Batch(ids, np.array([ids.size]), mask), frozenset({Stat.LOGPROBS}))
        # hidden states in bf16 depend on the number of tokens that are multiplied at once
        tolerance = 2e-2 if stored == "bf16" else 1e-4
        expected = scores[Stat.LOGPROBS][0, len(LONG) :]
        np.testing.assert_allclose(answer.logprobs, expected, atol=tolerance)


@pytest.mark.slow
def test_the_logits_of_a_16_bit_model_are_not_rounded(stored_bf16: Path) -> None:
    module = as_reference(load_backend("cpu").load(stored_bf16, LoadSpec(dtype="bf16"))).module
    with torch.no_grad():
        logits, _ = module.next_logits(torch.tensor([LONG, LONG, LONG]))
    assert not torch.equal(logits, logits.bfloat16().float())


@pytest.mark.slow
def test_keys_are_appended_in_place_and_equal_those_of_transformers_cache(tied: Path) -> None:
    """Also past the room of the first buffer, and after rows have left."""
    policy = as_reference(load_backend("cpu").load(tied))
    policy.module.eval()
    long = growing.ROOM_TOKENS + 10
    with torch.no_grad():
        text, expected = Decoding(policy.module, [LONG, LONG]), list[torch.Tensor]()
        found = [text.read_prompts()]
        for place in range(long):
            if place == 5:
                text.select([1])
            found.append(text.read(torch.tensor([7 + place % 90] * len(text.ids_BP))))
        model: Any = policy.module.model
        expected = model(input_ids=text.ids_BP).logits[0, len(LONG) - 1 :]
    torch.testing.assert_close(torch.stack([one[-1] for one in found]), expected, atol=1e-4, rtol=0)
    keys = text.state["past_key_values"].layers[0].keys
    assert keys.shape[-2] == len(LONG) + long
    assert not keys.is_contiguous()
