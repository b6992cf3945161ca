"""Rows with signs, norms and biases of their own answer as a model with the merged weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends.dense_adapters import change_of, dense, merged
from tests.backends.test_slots import (
    PROMPTS,
    answered,
    assert_same,
    base_of,
    batcher_of,
    factors,
    tokens_read,
)
from tests.breadth.families import build
from tests.codes import raises
from zoo.backends.base import Policy, Sampling
from zoo.backends.batching import FAILED, Request, Signs
from zoo.backends.sampling import Rollout
from zoo.backends.torch.adapters.row_signs import RowSigns
from zoo.core.errors import InputError


def alone(policy: Policy, requests: list[Request]) -> list[Rollout]:
    return [policy.generate([each.ids], each.sampling, keys=[each.key])[0] for each in requests]


def four_kinds(
    folder: Path, without: str = "none"
) -> tuple[list[Rollout], list[Rollout], list[Rollout]]:
    """Answers of seven requests together, of policies with their weights, and of the base."""

    def changes(seed: int) -> dict[str, Any]:
        return {name: each for name, each in dense(policy, seed).items() if without not in name}

    policy = base_of(folder)
    batcher = batcher_of(policy, rows=5)
    policies: dict[str | None, Policy] = {None: policy}
    for n, name in enumerate(("A", "B")):
        batcher.add_adapter(name, changes(n))
        policies[name] = merged(folder, changes(n))
    low_rank = factors(policy, 3, 4)
    batcher.add_adapter("low", low_rank)
    policies["low"] = merged(folder, {name: (A.T @ B).T for name, (A, B) in low_rank.items()})
    names = ["A", None, "B", "low", "A", "B", "low"]
    requests = [
        Request(prompt, Sampling(max_new_tokens=4 + n), 0, name)
        for n, (prompt, name) in enumerate(zip(PROMPTS, names, strict=True))
    ]
    expected = [alone(policies[each.adapter], [each])[0] for each in requests]
    return answered(batcher, requests), expected, alone(policy, requests)


def test_each_row_answers_as_its_merged_weights(tied: Path) -> None:
    together, expected, plain = four_kinds(tied)
    assert_same(together, expected)
    differ = [mine.ids != theirs.ids for mine, theirs in zip(together, plain, strict=True)]
    assert differ == [True, False, True, True, True, True, True]


def test_an_untied_head_has_signs_of_its_own(untied: Path) -> None:
    together, expected, _ = four_kinds(untied)
    assert_same(together, expected)


FAMILIES = {
    "qwen2": "none",
    "cohere": "none",
    "granite": "none",
    "stablelm": "none",
    "olmo2": "none",
    "opt": "embed_positions",
    "gemma": "embed_tokens",  # its module multiplies the rows
    "phi": "lm_head.bias",
}
"""What of a family cannot differ by row."""


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_norms_and_biases_of_other_families(tmp_path: Path, family: str) -> None:
    build(family, tmp_path / family)
    without = FAMILIES[family]
    together, expected, _ = four_kinds(tmp_path / family, without)
    assert_same(together, expected)
    policy = base_of(tmp_path / family)
    refused = {name: each for name, each in dense(policy, 0).items() if without in name}
    if refused:
        with raises("torch.not_for_rows", f"adapter 'a': expected .*{without}"):
            batcher_of(policy).add_adapter("a", refused)


@pytest.mark.parametrize("part", ["model.norm.weight", "model.embed_tokens", "k_norm.weight"])
def test_every_kind_of_change_has_an_effect(tied: Path, part: str) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy)
    changes = {n: each for n, each in dense(policy, 1, 0.3).items() if n.endswith(part)}
    batcher.add_adapter("a", changes)
    request = Request(PROMPTS[3], Sampling(max_new_tokens=6), 0, "a")
    answers = answered(batcher, [request])
    assert_same(answers, alone(merged(tied, changes), [request]))
    assert abs(answers[0].logprobs[0] - alone(policy, [request])[0].logprobs[0]) > 1e-3


def test_long_prompts_are_read_in_pieces(tied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.backends.torch.generation import slots

    monkeypatch.setattr(slots, "PIECE", 16)
    policy = base_of(tied)
    batcher = batcher_of(policy, rows=3, tokens=200)
    for n, name in enumerate(("A", "B")):
        batcher.add_adapter(name, dense(policy, n))
    long = tuple(n % 60 + 3 for n in range(75))
    requests = [
        Request(ids, Sampling(max_new_tokens=12), 0, name)
        for ids, name in ((long, "A"), (PROMPTS[0], "B"), (long, "B"), (long[::-1], "A"))
    ]
    expected = [
        alone(merged(tied, dense(policy, "AB".index(each.adapter or ""))), [each])[0]
        for each in requests
    ]
    assert_same(answered(batcher, requests), expected)


def test_a_prompt_is_scored_by_the_head_of_its_row(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy)
    batcher.add_adapter("A", dense(policy, 0))
    request = Request(PROMPTS[4], Sampling(max_new_tokens=1), 0, "A", scores_prompt=True)
    batcher.add(request)
    [event] = batcher.step()
    logits_TV = torch.from_numpy(merged(tied, dense(policy, 0)).logits(request.ids))
    expected = logits_TV.log_softmax(-1)[range(len(request.ids) - 1), request.ids[1:]]
    np.testing.assert_allclose([score for score, _ in event.prompt], expected, atol=1e-4)


def test_a_beginning_is_shared_by_rows_of_one_adapter_alone(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy, rows=3, tokens=200)
    first = tuple(n % 60 + 3 for n in range(50))
    sampling = Sampling(max_new_tokens=5)
    for seed, name in enumerate(("A", "B")):
        batcher.add_adapter(name, dense(policy, seed))
    for seed, name in ((0, "A"), (1, "B"), (0, "A")):
        [said] = answered(batcher, [Request(first, sampling, 0, name)])
        turn = Request((*first, *said.ids, 7, 8), sampling, 0, name)
        rollouts, read = tokens_read(batcher, [turn])
        assert read < 20
        assert_same(rollouts, alone(merged(tied, dense(policy, seed)), [turn]))


def test_signs_that_overflow_fail_alone(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy, rows=3)
    vectors = {n: each for n, each in dense(policy, 0).items() if n.endswith("norm.weight")}
    bomb: dict[str, Any] = {name: each * 1e30 for name, each in vectors.items()}
    for name in ("q_proj", "k_proj", "v_proj"):  # 1e30 * 3e38 is beyond float32
        bomb[f"model.layers.0.self_attn.{name}"] = Signs(
            dense(policy, 0)[f"model.layers.0.self_attn.{name}"].bits,
            np.full(1, 3e38, np.float32),
            "matrix",
        )
    batcher.add_adapter("bomb", bomb)
    batcher.add_adapter("A", dense(policy, 0))
    requests = [Request(PROMPTS[2], Sampling(max_new_tokens=9), 0, "A")]
    requests += [Request(PROMPTS[n], Sampling(max_new_tokens=9), 0, "bomb") for n in (3, 2)]
    beside, *broken = answered(batcher, requests)
    assert [(each.finish, len(each.ids)) for each in broken] == [(FAILED, 1)] * 2
    assert_same([beside], alone(merged(tied, dense(policy, 0)), requests[:1]))


def test_the_policy_is_as_it_was_beside_the_rows(tied: Path) -> None:
    policy: Any = base_of(tied)
    request = Request(PROMPTS[3], Sampling(max_new_tokens=6), 0, "A")
    [expected] = alone(policy, [request])
    batcher = batcher_of(policy)
    batcher.add_adapter("A", dense(policy, 0))
    batcher.add(request)
    while batcher.busy:
        batcher.step()
        assert alone(policy, [request])[0].ids == expected.ids
    batcher.close()
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in policy.module.modules()]
    assert sum(hooks) == 0


class Reading(torch.nn.Module):
    """Multiplies by the weight of a norm that it does not call."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled: torch.Tensor = x * self.inner.weight
        return scaled


def test_a_weight_that_is_read_without_a_call_is_refused(tied: Path) -> None:
    policy: Any = base_of(tied)
    policy.module.model.model.norm = Reading(policy.module.model.model.norm)
    vector = {"model.norm.inner.weight": np.ones(64, np.float32)}
    with raises("torch.not_for_rows", r"vectors of norms and .*'model\.norm\.inner\.weight'"):
        batcher_of(policy).add_adapter("a", vector)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", ["row", "column", "matrix"])
def test_other_devices_unpack_what_the_core_multiplies_packed(scale: Any, masked: bool) -> None:
    random = np.random.default_rng(0)
    scales = random.normal(size={"row": 70, "column": 21, "matrix": 1}[scale]).astype(np.float32)
    bits, mask = random.integers(0, 256, (2, 70, 3), np.uint8)
    signs = Signs(bits, scales, scale, mask if masked else None)
    matrix = RowSigns(signs, torch.device("cpu"))
    x, packed, unpacked = torch.randn(5, 21), torch.ones(5, 70), torch.ones(5, 70)
    matrix.add_by_core(x.numpy(), packed.numpy(), None)
    matrix.add_unpacked(x, unpacked)
    expected = 1 + x.numpy() @ change_of(signs, 21).T
    np.testing.assert_allclose(packed, expected, atol=1e-5)
    np.testing.assert_allclose(unpacked, expected, atol=1e-5)


BITS, ROW = np.zeros((64, 8), np.uint8), np.ones(64, np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nothing": Signs(BITS, ROW)}, "signs of linear layers and plain embeddings, got 'noth"),
        ({"lm_head": Signs(BITS, ROW)}, "signs of linear layers and plain embeddings, got 'lm_"),
        ({"model.norm": Signs(BITS, ROW)}, "signs of linear layers and plain embeddings"),
        ({"model.embed_tokens": Signs(BITS, ROW)}, "expected bits and scales"),
        ({"model.layers.0.self_attn.o_proj": Signs(BITS, ROW[:1])}, "expected bits and scales"),
        ({"model.layers.0.self_attn.q_proj.bias": ROW}, "vectors of norms and of biases"),
        ({"model.rotary_emb.inv_freq": ROW}, "vectors of norms and of biases"),
        ({"model.norm.weight": ROW[:3]}, r"expected \[64\], got \[3\]"),
    ],
)
def test_what_rows_cannot_have_is_refused_by_name(
    tied: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"adapter 'a': .*{message}"):
        batcher_of(base_of(tied)).add_adapter("a", changes)
