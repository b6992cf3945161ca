"""16-bit weights multiplied in float32: the numbers of float32 weights, in half the memory."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Policy, Sampling, Stat
from zoo.backends.torch.files.load import load_model
from zoo.backends.torch.numbers import dtypes, widened
from zoo.backends.torch.numbers.dtypes import WIDENED, choose_precision
from zoo.backends.torch.numbers.products import ProductSpeeds, measure_products
from zoo.backends.torch.numbers.widened import WidenedLinear, blocks, widen, widened_product
from zoo.core.errors import GymWarning
from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.sft import SupervisedLoss

FAST = ProductSpeeds(f32_s=1.0, bf16_s=0.5, widened_s=1.0)
SLOW = ProductSpeeds(f32_s=1.0, bf16_s=40.0, widened_s=1.1)


def batch() -> Batch:
    ids_BT = np.random.default_rng(0).integers(0, 521, (2, 9))
    mask_BT = np.ones_like(ids_BT, dtype=np.bool_)
    mask_BT[:, 0] = False
    return Batch(ids_BT, np.array([9, 9]), mask_BT, constants={WINDOW_TOKENS: 16.0})


@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 40])
@pytest.mark.parametrize("shape", [(7, 5), (2000, 300), (1, 1)])
def test_a_product_is_that_of_float32_weights(tokens: int, shape: tuple[int, int]) -> None:
    stream = torch.Generator().manual_seed(0)
    weight = torch.randn(shape, generator=stream).bfloat16()
    x = torch.randn(tokens, shape[1], generator=stream, requires_grad=True)
    theirs = x @ weight.float().T
    layer = nn.Linear(shape[1], shape[0], bias=False)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    ours = WidenedLinear(layer)(x)
    # up to 2,000 products of either sign are added in two orders: 2,000 * 6e-8, at most
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1.2e-4)
    cotangent = torch.randn_like(theirs)
    [expected] = torch.autograd.grad(theirs, x, cotangent)
    [got] = torch.autograd.grad(ours, x, cotangent)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1.2e-4)


def test_a_single_token_through_the_core_is_the_same_product() -> None:
    weight, x = torch.randn(64, 96).bfloat16(), torch.randn(1, 1, 96)
    with torch.no_grad():
        torch.testing.assert_close(widened_product(x, weight), x @ weight.float().T)


def test_a_single_token_follows_its_weight_and_leaves_it_free() -> None:
    weight, x = torch.ones(64, 96).bfloat16(), torch.ones(1, 96)
    assert widened_product(x, weight)[0, 0] == 96
    weight[0] = 2  # in the same memory
    assert widened_product(x, weight)[0, 0] == 2 * 96
    # as a divided model does after a pass; an array that owned the memory would forbid it
    weight.untyped_storage().resize_(0)
    assert weight.untyped_storage().nbytes() == 0


def test_weights_that_do_not_lie_in_rows_are_read_right() -> None:
    weight, x = torch.randn(96, 64).bfloat16().T, torch.randn(1, 96)
    torch.testing.assert_close(widened_product(x, weight), x @ weight.float().T)


def test_a_block_is_never_larger_than_the_buffer() -> None:
    weight = torch.zeros(5, widened.BLOCK_WEIGHTS // 2).bfloat16()
    assert [(part.start, len(rows)) for part, rows in blocks(weight)] == [(0, 2), (2, 2), (4, 1)]


def test_threads_do_not_share_a_buffer() -> None:
    found: list[int] = []

    def look() -> None:
        found.append(next(blocks(torch.zeros(4, 4).bfloat16()))[1].data_ptr())

    thread = threading.Thread(target=look)
    look()
    thread.start()
    thread.join()
    assert found[0] != found[1]


@pytest.mark.slow
def test_only_layers_that_are_widened_keep_16_bits(stored_bf16: Path) -> None:
    model = load_model(stored_bf16, dtype=WIDENED)
    narrow = {name for name, p in model.named_parameters() if p.dtype is torch.bfloat16}
    assert len(narrow) == 1 + 2 * 7  # the embedding; 7 linear layers in 2 blocks
    assert all(name.endswith(("proj.weight", "embed_tokens.weight")) for name in narrow)
    embedding: Any = model.get_input_embeddings()  # type: ignore[operator]
    head: Any = model.get_output_embeddings()  # type: ignore[operator]
    assert embedding.weight is head.weight


class Scaled(nn.Embedding):
    """An embedding that does more than look up, as Gemma's."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(input) * 2


class Own(nn.Linear):
    """A linear layer of its own kind: what it does with its weight is unknown."""


def test_layers_of_their_own_kind_stay_what_they_are() -> None:
    embedding, linear, norm = Scaled(8, 4), Own(4, 4), nn.LayerNorm(4)
    model = nn.Sequential(embedding, linear, norm).bfloat16()
    expected = 2 * embedding.weight.detach()[3:4].float()
    widen(model)
    assert list(model) == [embedding, linear, norm]
    torch.testing.assert_close(embedding(torch.tensor([3])), expected)
    assert linear.weight.dtype is norm.weight.dtype is torch.float32


@pytest.mark.slow
def test_a_model_that_multiplies_a_weight_outside_of_its_layer_gets_float32(tmp_path: Path) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    shape: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 64}
    MambaForCausalLM(MambaConfig(**shape)).bfloat16().save_pretrained(tmp_path)
    with pytest.warns(GymWarning, match="outside of their layers"):
        model = load_model(tmp_path, dtype=WIDENED)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    expected = load_model(tmp_path, dtype="f32")(torch.arange(5)[None]).logits
    torch.testing.assert_close(model(torch.arange(5)[None]).logits, expected)


def test_a_layer_that_stands_in_two_places_stays_one() -> None:
    layer = nn.Linear(4, 4)
    model = nn.ModuleDict({"a": nn.Sequential(layer), "b": nn.Sequential(layer)}).bfloat16()
    widen(model)
    assert model["a"][0] is model["b"][0]  # type: ignore[index]


def anywhere(policy: Policy) -> dict[str, Any]:
    stream = np.random.default_rng(1)
    return {
        name: stream.normal(0, 0.05, value.shape).astype(np.float32)
        for name, value in policy.trained()
    }


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True])
def test_gradients_are_those_of_float32_weights(stored_bf16: Path, again: bool) -> None:
    found = []
    for dtype in ("f32", WIDENED):
        policy = load_backend("cpu").load(
            stored_bf16,
            LoadSpec(train=LoraSpec(4, 8.0), dtype=dtype, gradient_checkpointing=again, seed=1),
        )
        policy.load_trained(anywhere(policy))  # B starts at zero, where A has no gradient
        loss = policy.accumulate(SupervisedLoss(), batch(), key=1)["loss"]
        found.append((loss, dict(policy.gradients())))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-5)
    for name, expected in found[0][1].items():
        assert np.abs(expected).max() > 0
        np.testing.assert_allclose(
            found[1][1][name], expected, rtol=0, atol=1e-4 * np.abs(expected).max()
        )


@pytest.mark.slow
def test_scores_and_answers_are_those_of_float32_weights(stored_bf16: Path) -> None:
    plain, ours = (
        load_backend("cpu").load(stored_bf16, LoadSpec(dtype=name)) for name in ("f32", WIDENED)
    )
    needs = frozenset({Stat.LOGPROBS, Stat.ENTROPY})
    for stat, expected in plain.score(batch(), needs).items():
        np.testing.assert_allclose(ours.score(batch(), needs)[stat], expected, atol=1e-4)
    prompts, sampling = [[1, 2, 3], [4, 5]], Sampling(max_new_tokens=6)
    answers = [[r.ids for r in p.generate(prompts, sampling, keys=[0, 1])] for p in (plain, ours)]
    assert answers[0] == answers[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "speeds", "expected"),
    [("cpu", FAST, "bf16"), ("cpu", SLOW, WIDENED), ("cuda", SLOW, "bf16")],
)
def test_auto_takes_what_the_processor_multiplies_well(
    stored_bf16: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    speeds: ProductSpeeds,
    expected: str,
) -> None:
    monkeypatch.setattr(dtypes, "SMALL_PARAMETERS", 0)
    assert choose_precision(stored_bf16, device, lambda: speeds).dtype == expected


@pytest.mark.slow
def test_float16_is_widened_as_it_is(tied: Path, tmp_path: Path) -> None:
    wide: Any = load_model(tied, dtype="f32")
    wide.half().save_pretrained(tmp_path / "half")
    model = load_model(tmp_path / "half", dtype=WIDENED)
    expected = load_model(tmp_path / "half", dtype="f32")
    for name, weight in expected.named_parameters():
        assert torch.equal(model.get_parameter(name).float(), weight), name


def test_rounding_to_bf16_is_said(
    tied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dtypes, "SMALL_PARAMETERS", 0)
    wide: Any = load_model(tied, dtype="f32")
    wide.half().save_pretrained(tmp_path / "half")
    half = tmp_path / "half"
    assert "rounded from float16" in choose_precision(half, "cpu", lambda: FAST).reason
    assert "rounded" not in choose_precision(half, "cpu", lambda: SLOW).reason


def test_full_weights_are_float32_whatever_the_processor(stored_bf16: Path) -> None:
    assert choose_precision(stored_bf16, "cpu", lambda: FAST, full=True).dtype == "f32"


def test_weights_stored_in_float32_stay_so(untied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtypes, "SMALL_PARAMETERS", 0)
    assert choose_precision(untied, "cpu", lambda: SLOW).dtype == "f32"


@pytest.mark.slow
def test_a_measurement_takes_every_way_and_leaves_the_threads() -> None:
    before = torch.get_num_threads()
    found = measure_products()
    assert min(found.f32_s, found.bf16_s, found.widened_s) > 0
    assert torch.get_num_threads() == before


def test_widening_weighs_less_the_more_tokens_share_it() -> None:
    # a tenth more at 64 tokens
    assert SLOW.widening_share(64) == pytest.approx(0.1)
    assert SLOW.widening_share(640) == pytest.approx(0.01)
