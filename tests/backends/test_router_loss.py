"""The router loss of a mixture of experts: that of transformers, without padding."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends.objectives_for_tests import SFT, SORTED
from tests.backends.reference import example_batch, relative_error
from tests.breadth import families
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, SharedPrefix
from zoo.gym.train.accumulate import accumulate_window

FAMILIES = ("qwen3_moe", "qwen3_next", "mixtral", "gpt_oss")
LATER = ["mixtral", *(pytest.param(n, marks=pytest.mark.slow) for n in FAMILIES if n != "mixtral")]
"""One family; the others are in the slow tests."""

WEIGHT = 0.3
LORA = LoraSpec(4, 8.0)
ATTENTION = LoraSpec(4, 8.0, targets=("q_proj", "v_proj"))

pytestmark = pytest.mark.filterwarnings("ignore:no delta can be made of this adapter")

Made = Callable[[str], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folders: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name) / "base"
            families.build(name, folders[name])
        return folders[name]

    return make


def loaded(folder: Path, train: Any = "full", weight: float = WEIGHT) -> Any:
    spec = LoadSpec(train=train, dtype="f32", router_loss=weight, seed=1)
    return load_backend("cpu").load(folder, spec)


def rows(*lengths: int, width: int | None = None) -> Batch:
    """Random rows that learn all but their first token, padded to `width`."""
    random = np.random.default_rng(3)
    width = max(lengths) if width is None else width
    ids = np.zeros((len(lengths), width), np.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = random.integers(families.FIRST_ID, families.LAST_ID, length)
    places, lengths_B = np.arange(width)[None], np.array(lengths)
    mask = (places > 0) & (places < lengths_B[:, None])
    return Batch(ids, lengths_B, mask, constants={"window_tokens": float(mask.sum())})


def learned(policy: Any, *batches: Batch) -> tuple[dict[str, float], dict[str, Any]]:
    """Returns the metrics and the gradient of a window, and leaves no gradient behind."""
    tokens = float(sum(batch.loss_mask_BT.sum() for batch in batches))
    window = [replace(batch, constants={"window_tokens": tokens}) for batch in batches]
    found = accumulate_window(policy, SFT, window, [0] * len(window))
    gradients = dict(policy.gradients())
    policy.optimizer.clear()
    return found, gradients


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_loss_and_gradient_are_those_of_transformers(name: str, made: Made) -> None:
    from transformers import AutoModelForCausalLM

    batch = rows(12, 12)
    found, gradients = learned(loaded(made(name)), batch)
    model: Any = AutoModelForCausalLM.from_pretrained(made(name), dtype=torch.float32).train()
    ids = torch.from_numpy(batch.ids_BT)
    out = model(input_ids=ids, output_router_logits=True, use_cache=False)
    nll = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    (nll + WEIGHT * out.aux_loss).backward()
    expected = {
        name: np.zeros(tuple(p.shape), np.float32) if p.grad is None else p.grad.numpy()
        for name, p in model.named_parameters()
    }
    assert found["loss"] == pytest.approx(nll.item(), rel=1e-5)
    assert found["router_loss"] == pytest.approx(out.aux_loss.item(), rel=1e-6)
    assert relative_error(gradients, expected) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_padding_does_not_count(name: str, made: Made) -> None:
    policy = loaded(made(name))
    found, gradients = learned(policy, rows(12, 7))
    padded, others = learned(policy, rows(12, 7, width=20))
    assert padded["router_loss"] == pytest.approx(found["router_loss"], rel=1e-6)
    assert relative_error(others, gradients) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [LORA, ATTENTION], ids=["all", "attention"])
@pytest.mark.parametrize("name", FAMILIES)
def test_it_reaches_every_adapter_in_a_router_and_below_one(
    name: str, adapter: LoraSpec, made: Made
) -> None:
    policy, batch = loaded(made(name), adapter), rows(12, 12)
    random = np.random.default_rng(7)
    noise = ((key, random.normal(0, 0.05, value.shape), value) for key, value in policy.trained())
    policy.load_trained({key: (value + more).astype(np.float32) for key, more, value in noise})
    found, gradients = learned(policy, batch)
    ids = torch.from_numpy(batch.ids_BT)
    out = policy.module.model(input_ids=ids, output_router_logits=True, use_cache=False)
    nll = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    (nll + WEIGHT * out.aux_loss).backward()
    assert found["router_loss"] == pytest.approx(out.aux_loss.item(), rel=1e-6)
    assert relative_error(gradients, dict(policy.gradients())) < 1e-5
    policy.optimizer.clear()
    policy.module.router = None
    without = learned(policy, batch)[1]
    below = [key for key in gradients if "layers.0." in key and "experts" not in key]
    assert all(np.abs(gradients[key] - without[key]).max() > 0 for key in below)


@pytest.mark.slow
@pytest.mark.parametrize("name", LATER)
def test_recomputed_activations_give_the_same_gradient(name: str, made: Made) -> None:
    batch, spec = rows(12, 7), LoadSpec(train=LORA, dtype="f32", router_loss=WEIGHT, seed=1)
    again: Any = load_backend("cpu").load(made(name), replace(spec, gradient_checkpointing=True))
    found, gradients = learned(loaded(made(name), LORA), batch)
    others, recomputed = learned(again, batch)
    assert others == pytest.approx(found, rel=1e-6)
    assert relative_error(recomputed, gradients) < 1e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multiplies weights outside of their layers")
@pytest.mark.parametrize("dtype", ["bf16", "bf16-widened"])
@pytest.mark.parametrize("name", LATER)
def test_models_in_16_bits_have_it_too(name: str, dtype: str, made: Made) -> None:
    spec = LoadSpec(train=ATTENTION, dtype=dtype, router_loss=WEIGHT, seed=1)
    found, _ = learned(load_backend("cpu").load(made(name), spec), rows(12, 12))
    exact, _ = learned(loaded(made(name), ATTENTION), rows(12, 12))
    assert found["router_loss"] == pytest.approx(exact["router_loss"], rel=0.05)


@pytest.mark.slow
def test_tokens_are_spread_over_the_experts(made: Made) -> None:
    policy, batch = loaded(made("qwen3_moe"), weight=10.0), rows(12, 12)
    first, *_, last = (step(policy, batch) for _ in range(12))
    assert last["router_loss"] < first["router_loss"]


def step(policy: Any, batch: Batch) -> dict[str, float]:
    found: dict[str, float] = policy.accumulate(SFT, batch, key=0)
    policy.optimizer_step(1e-2, 1e9)
    return found


@pytest.mark.slow
def test_micro_batches_count_by_their_learned_tokens(made: Made) -> None:
    policy = loaded(made("qwen3_moe"))
    parts = rows(12), rows(5)
    alone = [learned(policy, part)[0]["router_loss"] for part in parts]
    together = learned(policy, *parts)[0]["router_loss"]
    assert together == pytest.approx((11 * alone[0] + 4 * alone[1]) / 15, rel=1e-6)


@pytest.mark.slow
def test_an_objective_that_couples_rows_has_it_too(made: Made) -> None:
    policy = loaded(made("qwen3_moe"))
    random = example_batch(width=12)
    batch = replace(random, ids_BT=random.ids_BT % 100 + 8)
    found = accumulate_window(policy, SORTED, [batch], [0])
    assert found["router_loss"] > 1
    gradient = dict(policy.gradients())["model.layers.0.mlp.gate.weight"]
    plain = loaded(made("qwen3_moe"), weight=0.0)
    accumulate_window(plain, SORTED, [batch], [0])
    assert np.abs(gradient - dict(plain.gradients())["model.layers.0.mlp.gate.weight"]).max() > 1e-6


@pytest.mark.slow
def test_rows_with_a_shared_prompt_are_computed_in_full(made: Made) -> None:
    policy, batch = loaded(made("qwen3_moe")), rows(12, 12)
    batch.ids_BT[1, :8] = batch.ids_BT[0, :8]
    mask = batch.loss_mask_BT & (np.arange(12) >= 8)
    batch = replace(batch, loss_mask_BT=mask)
    prefix = SharedPrefix(np.array([0, 0]), np.array([8]))
    alone, shared = (learned(policy, one)[0] for one in (batch, replace(batch, prefix=prefix)))
    assert shared == alone
    assert any("its router loss counts" in note for note in policy.notes(sampling=False))


@pytest.mark.slow
def test_a_model_without_a_router_loss_is_refused(tied: Path, made: Made) -> None:
    for folder, name in ((tied, "Qwen3ForCausalLM"), (made("deepseek_v3"), "DeepseekV3")):
        with raises("torch.no_router_loss", f"expected a mixture of experts .* got {name}"):
            loaded(folder)


@pytest.mark.slow
def test_an_adapter_that_no_router_depends_on_is_refused(made: Made) -> None:
    with raises("torch.no_trained_router"):
        loaded(made("qwen3_moe"), LoraSpec(4, 8.0, targets=("lm_head",)))


@pytest.mark.slow
def test_a_run_reports_the_router_loss(made: Made, tmp_path: Path) -> None:
    from zoo.gym.config import TrainConfig
    from zoo.gym.train.loading import load_policy

    given = {"model_name_or_path": "m", "dataset": "d.jsonl", "moe_aux_loss_coef": 0.5}
    config = TrainConfig.model_validate(given)
    policy: Any = load_policy(config, made("qwen3_moe"), load_backend("cpu"), threads=1)
    assert policy.module.router.weight == 0.5
    assert learned(policy, rows(9))[0]["router_loss"] > 1
