"""Requests that come and go, each with its own adapter: answers are those of each alone."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends.conftest import write_tiny
from tests.backends.policies import LORA, moved
from tests.breadth.families import build
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, Policy, Sampling, TokenEvent
from zoo.backends.batching import FAILED, Batcher, Request
from zoo.backends.sampling import Rollout, rollouts_of

PROMPTS = [tuple(range(3 + n, 8 + 3 * n)) for n in range(7)]


def base_of(folder: Path, **spec: Any) -> Policy:
    return load_backend("cpu").load(folder, LoadSpec(dtype="f32", **spec))


def batcher_of(policy: Policy, rows: int = 4, tokens: int = 64) -> Batcher:
    batcher = policy.batcher(rows=rows, tokens=tokens)
    assert batcher is not None
    return batcher


def answered(batcher: Batcher, requests: list[Request]) -> list[Rollout]:
    numbers = [batcher.add(request) for request in requests]
    events: list[TokenEvent] = []
    while batcher.busy:
        events += batcher.step()
    places = {number: place for place, number in enumerate(numbers)}
    moved_events = (event._replace(row=places[event.row]) for event in events)
    return rollouts_of(moved_events, len(requests))


def assert_same(rollouts: list[Rollout], expected: list[Rollout]) -> None:
    for mine, theirs in zip(rollouts, expected, strict=True):
        assert (mine.ids, mine.finish) == (theirs.ids, theirs.finish)
        np.testing.assert_allclose(mine.logprobs, theirs.logprobs, atol=1e-4)


def factors(policy: Any, seed: int, rank: int) -> dict[str, Any]:
    """Random factors of every linear layer but the head."""
    random_ = np.random.default_rng(seed)
    layers = [
        (name, module)
        for name, module in policy.module.model.named_modules()
        if isinstance(module, torch.nn.Linear) and "lm_head" not in name
    ]
    return {
        name: tuple(
            random_.normal(0, 0.15, (rank, side)).astype(np.float32)
            for side in (module.in_features, module.out_features)
        )
        for name, module in layers
    }


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_answers_are_those_of_the_policy_in_any_company(tied: Path, temperature: float) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy)
    requests = [
        Request(prompt, Sampling(max_new_tokens=4 + 3 * n, temperature=temperature, top_p=0.9), n)
        for n, prompt in enumerate(PROMPTS)
    ]
    together = answered(batcher, requests)
    batcher.close()
    alone = [policy.generate([each.ids], each.sampling, keys=[each.key])[0] for each in requests]
    assert_same(together, alone)


def test_each_row_has_its_own_adapter(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy, rows=3)
    for n, rank in enumerate((2, 4, 8)):
        batcher.add_adapter(f"a{n}", factors(policy, n, rank))
    names = ["a0", None, "a1", "a2", "a0", None, "a1"]
    requests = [
        Request(prompt, Sampling(max_new_tokens=9), 0, name)
        for prompt, name in zip(PROMPTS, names, strict=True)
    ]
    together = answered(batcher, requests)
    alone = [answered(batcher, [request])[0] for request in requests]
    assert_same(together, alone)
    plain = answered(batcher, [Request(each.ids, each.sampling) for each in requests])
    differ = [mine.ids != theirs.ids for mine, theirs in zip(together, plain, strict=True)]
    assert differ == [name is not None for name in names]


@pytest.mark.slow
def test_an_adapter_answers_as_peft_computes_it(tied: Path, tmp_path: Path) -> None:
    tuned: Any = moved(load_backend("cpu").load(tied, LoadSpec(train=LORA, dtype="f32")))
    of_layer: dict[str, dict[str, Any]] = {
        name.partition(".lora_")[0]: {} for name, _ in tuned.trained()
    }
    for name, value in tuned.trained():
        of_layer[name.partition(".lora_")[0]]["A" if ".lora_A." in name else "B"] = value
    scale = LORA.alpha / LORA.rank
    policy = base_of(tied)
    batcher = batcher_of(policy)
    batcher.add_adapter("a", {n: (s["A"], s["B"].T * scale) for n, s in of_layer.items()})
    requests = [Request(prompt, Sampling(max_new_tokens=8), 0, "a") for prompt in PROMPTS]
    expected = tuned.generate([*PROMPTS], Sampling(max_new_tokens=8), keys=range(len(PROMPTS)))
    assert_same(answered(batcher, requests), expected)


def test_rows_that_are_cancelled_leave_the_others_as_they_are(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy, rows=3)
    random_ = random.Random(0)
    requests = [
        Request(random_.choice(PROMPTS), Sampling(max_new_tokens=random_.randint(2, 20)), n)
        for n in range(16)
    ]
    numbers = {batcher.add(request): request for request in requests}
    cancelled, events = set(list(numbers)[::3]), list[TokenEvent]()
    while batcher.busy:
        events += batcher.step()
        for row in sorted(cancelled):
            if random_.random() < 0.2:
                batcher.cancel(row)
    for number, request in numbers.items():
        ids = [event.id for event in events if event.row == number]
        alone = policy.generate([request.ids], request.sampling, keys=[request.key])[0].ids
        assert ids == alone if number not in cancelled else ids == alone[: len(ids)]


def test_long_prompts_are_read_in_pieces_and_buffers_grow(
    tied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo.backends.torch.generation import row_cache, slots

    monkeypatch.setattr(slots, "PIECE", 16)
    monkeypatch.setattr(row_cache, "FIRST_TOKENS", 8)
    policy = base_of(tied)
    long = tuple(n % 60 + 3 for n in range(75))
    batcher = batcher_of(policy, rows=2, tokens=200)
    requests = [Request(prompt, Sampling(max_new_tokens=30)) for prompt in (long, PROMPTS[0])]
    alone = [policy.generate([r.ids], r.sampling, keys=[0])[0] for r in requests]
    assert_same(answered(batcher, requests), alone)


def tokens_read(batcher: Any, requests: list[Request]) -> tuple[list[Rollout], int]:
    """The answers, and how many tokens of prompts and answers the model has read for them."""
    counted, forward = [0], batcher._forward

    def counting(ids: Any, *arguments: Any) -> Any:
        counted[0] += sum(map(len, ids))
        return forward(ids, *arguments)

    batcher._forward = counting
    rollouts = answered(batcher, requests)
    batcher._forward = forward
    return rollouts, counted[0]


def test_short_prompts_of_different_lengths_are_read_together(tied: Path) -> None:
    policy, passes = base_of(tied), list[int]()
    batcher: Any = batcher_of(policy, rows=4)
    for name, seed in (("a", 1), ("b", 2)):
        batcher.add_adapter(name, factors(policy, seed, 4))
    forward = batcher._forward

    def counting(ids: Any, *arguments: Any) -> Any:
        passes.append(len(ids))
        return forward(ids, *arguments)

    batcher._forward = counting
    sampling = Sampling(max_new_tokens=3, top_logprobs=2)
    names = ("a", None, "b", "a")
    requests = [Request(PROMPTS[n], sampling, 0, name) for n, name in enumerate(names)]
    rollouts = answered(batcher, requests)
    assert passes == [4, 4, 4]  # the prompts, and two more tokens of each
    alone = batcher_of(base_of(tied), rows=1)
    for name, seed in (("a", 1), ("b", 2)):
        alone.add_adapter(name, factors(policy, seed, 4))
    assert_same(rollouts, [answered(alone, [request])[0] for request in requests])


def test_a_prompt_with_much_padding_is_read_alone(tied: Path) -> None:
    batcher: Any = batcher_of(base_of(tied), rows=2)
    sampling = Sampling(max_new_tokens=2)
    _, read = tokens_read(batcher, [Request((5,), sampling), Request(PROMPTS[6], sampling)])
    assert read == 1 + len(PROMPTS[6]) + 2


def test_the_next_turn_reads_only_what_is_new(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy, rows=3, tokens=200)
    batcher.add_adapter("a", factors(policy, 1, 4))
    first = tuple(n % 60 + 3 for n in range(50))
    sampling = Sampling(max_new_tokens=10)
    for adapter in (None, "a", None, "a"):  # each goes on with its own, not with the other's
        [said] = answered(batcher, [Request(first, sampling, 0, adapter)])
        turn = Request((*first, *said.ids, 7, 8, 9), sampling, 0, adapter)
        [rollout], read = tokens_read(batcher, [turn])
        assert read < 20
        fresh = batcher_of(base_of(tied), rows=1, tokens=200)
        fresh.add_adapter("a", factors(policy, 1, 4))
        assert_same([rollout], answered(fresh, [turn]))


def test_the_latest_rows_are_kept(tied: Path) -> None:
    batcher = batcher_of(base_of(tied), rows=3, tokens=200)
    random_, sampling = random.Random(2), Sampling(max_new_tokens=2)
    starts = [tuple(random_.randrange(3, 60) for _ in range(50)) for _ in range(4)]
    for ids in starts:
        answered(batcher, [Request(ids, sampling)])
    for ids in starts[1:]:
        assert tokens_read(batcher, [Request((*ids, 5, 6), sampling)])[1] < 10
    assert tokens_read(batcher, [Request((*starts[0], 5, 6), sampling)])[1] > 50


def test_a_small_cache_has_fewer_rows_at_once(tied: Path) -> None:
    def most(cache_bytes: int | None) -> int:
        batcher = base_of(tied).batcher(rows=4, tokens=64, cache_bytes=cache_bytes)
        assert batcher is not None
        for prompt in PROMPTS[:4]:
            batcher.add(Request(prompt, Sampling(max_new_tokens=16)))
        tokens = [0]
        while batcher.busy:
            tokens.append(len(batcher.step()))
        return max(tokens)

    assert (most(1), most(None)) == (1, 4)


def test_a_beginning_that_many_share_is_read_once(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy, rows=4, tokens=120)
    shared = tuple(n % 60 + 3 for n in range(64))
    sampling = Sampling(max_new_tokens=4)
    requests = [Request((*shared, n, n + 1, n + 2), sampling) for n in range(3, 15)]
    rollouts, read = tokens_read(batcher, requests)
    assert read < 64 + 12 * (3 + 4) + 16
    alone = [policy.generate([r.ids], r.sampling, keys=[0])[0] for r in requests]
    assert_same(rollouts, alone)


def test_any_traffic_gives_the_answers_of_each_alone(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy, rows=3, tokens=150)
    names = [None, "a", "b"]
    for seed, name in enumerate(names[1:]):
        assert name is not None
        batcher.add_adapter(name, factors(policy, seed, 4))
    random_ = random.Random(1)
    starts = [tuple(random_.randrange(3, 60) for _ in range(30)) for _ in range(3)]
    requests = [
        Request(
            (*random_.choice(starts)[: random_.randint(5, 30)], *range(3, random_.randint(5, 20))),
            Sampling(max_new_tokens=random_.randint(1, 12)),
            0,
            random_.choice(names),
        )
        for _ in range(60)
    ]
    together = answered(batcher, requests)
    fresh = batcher_of(base_of(tied), rows=1, tokens=150)
    for seed, name in enumerate(names[1:]):
        assert name is not None
        fresh.add_adapter(name, factors(policy, seed, 4))
    assert_same(together, [answered(fresh, [request])[0] for request in requests])


def test_stop_ids_and_strings_end_a_row(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy)
    [plain] = answered(batcher, [Request(PROMPTS[0], Sampling(max_new_tokens=12))])
    third = plain.ids[2]
    stops = Sampling(max_new_tokens=12, stop_ids=(third,))
    strings = Sampling(
        max_new_tokens=12,
        stop_strings=(f"<{third}>",),
        decode=lambda ids: "".join(f"<{i}>" for i in ids),
    )
    for sampling in (stops, strings):
        [rollout] = answered(batcher, [Request(PROMPTS[0], sampling)])
        assert rollout.ids == plain.ids[: plain.ids.index(third) + 1]
        assert rollout.finish == "stop"


def test_a_replaced_adapter_is_for_later_requests_alone(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy)
    first, second = (factors(policy, seed, 4) for seed in (1, 2))
    batcher.add_adapter("a", first)
    request = Request(PROMPTS[0], Sampling(max_new_tokens=9), 0, "a")
    [expected] = answered(batcher, [request])
    number = batcher.add(request)
    events = batcher.step()
    batcher.add_adapter("a", second)
    batcher.add(request)
    while batcher.busy:
        events += batcher.step()
    assert [event.id for event in events if event.row == number] == expected.ids
    assert [event.id for event in events if event.row != number] != expected.ids
    batcher.remove_adapter("a")
    with pytest.raises(KeyError):
        batcher.add(request)


@pytest.mark.parametrize(
    ("ids", "sampling", "message"),
    [
        ((), Sampling(), "no empty prompt"),
        ((10**6,), Sampling(max_new_tokens=1), "ids: expected tokens below"),
        ((-1,), Sampling(max_new_tokens=1), "ids: expected tokens below"),
        ((3,) * 60, Sampling(max_new_tokens=5), "max_new_tokens: expected at most 4 with a prompt"),
        ((3,), Sampling(max_new_tokens=5, stop_strings=("x",)), "stop_strings: expected decode"),
    ],
)
def test_a_bad_request_is_refused_before_it_waits(
    tied: Path, ids: tuple[int, ...], sampling: Sampling, message: str
) -> None:
    batcher = batcher_of(base_of(tied))
    with pytest.raises(ValueError, match=message):
        batcher.add(Request(ids, sampling))
    assert not batcher.busy


def test_factors_that_do_not_fit_are_refused(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy)
    good = factors(policy, 0, 4)
    name, (A, B) = next(iter(good.items()))
    with raises("torch.not_for_rows", "expected linear layers below the head, got 'nothing'"):
        batcher.add_adapter("a", {"nothing": (A, B)})
    with raises("backends.adapter_does_not_fit", "expected factors"):
        batcher.add_adapter("a", {name: (A[:, :-1], B)})
    with raises("backends.adapter_does_not_fit", "expected factors"):
        batcher.add_adapter("a", {name: (A[:-1], B)})


def test_a_row_that_overflows_fails_alone_and_leaves_nothing_behind(tied: Path) -> None:
    policy = base_of(tied)
    batcher = batcher_of(policy, rows=2, tokens=120)
    factors_ = factors(policy, 0, 4)
    batcher.add_adapter("bomb", {name: (A * 1e20, B * 1e20) for name, (A, B) in factors_.items()})
    long, short = (Request(tuple(range(3, n)), Sampling(max_new_tokens=20)) for n in (90, 8))
    expected = [policy.generate([r.ids], r.sampling, keys=[0])[0] for r in (long, short)]
    for temperature in (0.0, 1.0):
        sampling = Sampling(max_new_tokens=50, temperature=temperature)
        broken, beside = answered(batcher, [Request(long.ids[1:70], sampling, 0, "bomb"), long])
        assert (broken.finish, len(broken.ids)) == (FAILED, 1)
        assert_same([beside], expected[:1])
        # the short one gets the place of the broken one, behind whose end the long one reads
        assert_same(answered(batcher, [long, short]), expected)
        assert_same(answered(batcher, [short, long]), expected[::-1])


def test_the_head_has_no_adapter(untied: Path) -> None:
    batcher = batcher_of(base_of(untied))
    A, B = np.ones((2, 64), np.float32), np.ones((2, 521), np.float32)
    with raises("torch.not_for_rows", "expected linear layers below the head, got 'lm_head'"):
        batcher.add_adapter("a", {"lm_head": (A, B)})


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen2_moe", "opt"])
def test_layers_that_get_rows_behind_one_another_have_adapters(tmp_path: Path, family: str) -> None:
    build(family, tmp_path / family)
    policy = base_of(tmp_path / family)
    batcher = batcher_of(policy)
    for number in range(2):
        batcher.add_adapter(f"{number}", factors(policy, number, 2 + number))
    names = ["0", None, "1", "0", "1", None, "0"]
    requests = [
        Request(prompt, Sampling(max_new_tokens=6), 0, name)
        for prompt, name in zip(PROMPTS, names, strict=True)
    ]
    together = answered(batcher, requests)
    assert_same(together, [answered(batcher, [request])[0] for request in requests])


@pytest.mark.slow
def test_positions_that_depend_on_the_longest_row_have_no_slots(tmp_path: Path) -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    folder = write_tiny(tmp_path / "dynamic", tied=True, rope_parameters=rope)
    assert base_of(folder).batcher(rows=2, tokens=32) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "fits"),
    [
        *((name, True) for name in ("llama", "qwen2", "qwen3", "phi3", "gpt2", "gpt_neox")),
        *((name, False) for name in ("mistral", "gemma2", "gpt_oss", "mamba", "bloom")),
    ],
)
def test_a_model_that_cannot_has_no_slots(tmp_path: Path, family: str, fits: bool) -> None:
    build(family, tmp_path / family)
    policy = base_of(tmp_path / family)
    batcher = policy.batcher(rows=3, tokens=48)
    assert (batcher is not None) == fits
    if batcher is None:
        return
    requests = [Request(prompt, Sampling(max_new_tokens=6)) for prompt in PROMPTS]
    alone = [policy.generate([r.ids], r.sampling, keys=[0])[0] for r in requests]
    assert_same(answered(batcher, requests), alone)
