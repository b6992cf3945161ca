"""Every kind of training: as plain peft and transformers compute it, saved, restored, reopened."""

from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.backends import reference
from tests.backends.conftest import write_tiny
from tests.backends.families import write_family
from tests.backends.objectives_for_tests import SFT
from tests.backends.policies import KINDS, LORA, PISSA, as_reference, moved, step
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Sampling, Stat
from zoo.backends.spec import Train
from zoo.backends.torch.adapters.names import canonical
from zoo.backends.torch.adapters.start import principal_factors
from zoo.backends.torch.policy import TorchPolicy
from zoo.backends.torch.quiet import quiet
from zoo.core.errors import InputError

ADAPTERS = [kind for kind in KINDS if kind not in ("freeze", "full")]
LOGPROBS = frozenset({Stat.LOGPROBS})
pytestmark = pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")


@pytest.fixture(params=KINDS)
def train(request: pytest.FixtureRequest) -> Train:
    return KINDS[request.param]


def loaded(folder: Path, train: Train, *, seed: int = 1, dtype: str = "f32") -> TorchPolicy:
    spec = LoadSpec(train=train, dtype=dtype, seed=seed)
    return as_reference(load_backend("cpu").load(folder, spec))


def opened(result: Path, base: Path) -> Any:
    """The result as plain peft, or plain transformers, opens it, ready to be trained."""
    with quiet():
        if not (result / "adapter_config.json").is_file():
            return AutoModelForCausalLM.from_pretrained(result)
        model = AutoModelForCausalLM.from_pretrained(base)
        return peft.PeftModel.from_pretrained(model, result, is_trainable=True)


def scores(policy: Any) -> Any:
    return policy.score(reference.example_batch(), LOGPROBS)[Stat.LOGPROBS]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["tied", "untied"])
def test_loss_and_gradients_are_those_of_the_result_in_plain_peft(
    request: pytest.FixtureRequest, model: str, train: Train, tmp_path: Path
) -> None:
    folder, batch = request.getfixturevalue(model), reference.example_batch()
    policy = moved(loaded(folder, train))
    policy.save_result(tmp_path, base=str(folder))
    plain = opened(tmp_path, folder)
    ids, mask = torch.from_numpy(batch.ids_BT), torch.from_numpy(batch.loss_mask_BT)[:, 1:]
    logits = plain(input_ids=ids, use_cache=False).logits[:, :-1]
    chosen = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]
    loss = -(chosen * mask).sum() / batch.constants["window_tokens"]
    loss.backward()  # type: ignore[no-untyped-call]
    assert policy.accumulate(SFT, batch, key=0)["loss"] == pytest.approx(loss.item(), rel=1e-5)
    expected = {
        canonical(name.removeprefix("base_model.model.")): p.grad.numpy()
        for name, p in plain.named_parameters()
        if p.grad is not None
    }
    mine = dict(policy.gradients())
    # the first half of PiSSA's result is trained, the second half is the start
    theirs = {name: expected[name][tuple(map(slice, mine[name].shape))] for name in mine}
    assert reference.relative_error(mine, theirs) < 1e-5


@pytest.mark.slow
def test_training_starts_from_the_base_and_reaches_every_trained_tensor(
    untied: Path, train: Train
) -> None:
    base = scores(load_backend("cpu").load(untied, LoadSpec(dtype="f32")))
    policy = loaded(untied, train)
    np.testing.assert_allclose(scores(policy), base, atol=2e-4)
    moved(policy).accumulate(SFT, reference.example_batch(), key=0)
    still = [name for name, gradient in policy.gradients() if not gradient.any()]
    assert not still


@pytest.mark.slow
@pytest.mark.parametrize("kind", ADAPTERS)
def test_an_adapter_for_another_architecture_is_refused_by_the_name_of_a_module(
    tied: Path, tmp_path: Path, kind: str
) -> None:
    loaded(tied, KINDS[kind]).save_result(tmp_path / "adapter", base=str(tied))
    for other, named in (
        (write_tiny(tmp_path / "narrow", tied=True, intermediate_size=64), "_proj"),
        (write_family(tmp_path / "gpt2", "gpt2"), "(q_proj|embed_tokens|lm_head)"),
    ):
        with pytest.raises(InputError, match=rf"adapter: adapter does not fit .*{named}"):
            load_backend("cpu").load(other, LoadSpec(adapter=tmp_path / "adapter"))


@pytest.mark.slow
def test_the_reference_after_training_is_the_base(tied: Path, train: Train) -> None:
    base = scores(load_backend("cpu").load(tied, LoadSpec(dtype="f32")))
    policy = loaded(tied, train)
    step(policy, reference.example_batch(), 1)
    with policy.reference() as frozen:
        np.testing.assert_array_equal(scores(frozen), base)
    assert np.abs(scores(policy) - base).max() > 1e-3
    assert all(p.requires_grad for p in policy.parameters.values())


@pytest.mark.slow
def test_a_restored_policy_continues_bit_for_bit(tied: Path, tmp_path: Path, train: Train) -> None:
    batch = reference.example_batch()
    kept = loaded(tied, train, seed=3)
    step(kept, batch, 1)
    kept.save_checkpoint(tmp_path)
    step(kept, batch, 2)
    resumed = loaded(tied, train, seed=99)
    resumed.load_checkpoint(tmp_path)
    step(resumed, batch, 2)
    for (name, mine), (other, theirs) in zip(kept.trained(), resumed.trained(), strict=True):
        assert name == other
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(scores(kept), scores(resumed))
    with kept.reference() as base, resumed.reference() as other_base:
        np.testing.assert_array_equal(scores(base), scores(other_base))


@pytest.mark.slow
def test_a_result_is_reopened_as_it_was_trained(tied: Path, tmp_path: Path, train: Train) -> None:
    policy = moved(loaded(tied, train))
    sampling = Sampling(max_new_tokens=4, temperature=0.0)
    expected, said = scores(policy), policy.generate([[5, 6, 7]] * 2, sampling, keys=[0, 1])
    policy.save_result(tmp_path, base=str(tied))
    policy.reopen(tmp_path)
    np.testing.assert_allclose(scores(policy), expected, atol=1e-4)
    again = policy.generate([[5, 6, 7]] * 2, sampling, keys=[0, 1])
    assert [one.ids for one in again] == [one.ids for one in said]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "bf16-widened"])
def test_dora_starts_as_a_16_bit_base_and_not_as_its_rounded_norms(
    stored_bf16: Path, dtype: str
) -> None:
    train = LoraSpec(rank=4, alpha=8.0, dora=True, targets=("q_proj", "up_proj"))
    policy = loaded(stored_bf16, train, dtype=dtype)
    with policy.reference() as base:
        np.testing.assert_array_equal(scores(policy), scores(base))


@pytest.mark.slow
def test_dora_on_a_16_bit_head_is_computed_in_float32(stored_bf16: Path, untied: Path) -> None:
    policy = moved(loaded(untied, LoraSpec(rank=4, alpha=8.0, dora=True, targets=("lm_head",))))
    model: Any = policy.module.model
    exact = scores(policy)
    model.lm_head.base_layer.bfloat16()
    rounded = scores(policy)
    assert 0 < np.abs(rounded - exact).max() < 0.1
    model.lm_head.base_layer.float()
    np.testing.assert_allclose(scores(policy), rounded, atol=1e-4)


@pytest.mark.slow
def test_a_reward_model_has_the_magnitudes_of_dora_merged(tied: Path, tmp_path: Path) -> None:
    train = LoraSpec(rank=4, alpha=8.0, dora=True)
    spec = LoadSpec(train=train, dtype="f32", seed=1, value_head=True, reward_model=True)
    policy = moved(as_reference(load_backend("cpu").load(tied, spec)))
    expected = policy.logits([5, 6, 7])
    policy.save_result(tmp_path, base=str(tied))
    policy.reopen(tmp_path)
    np.testing.assert_allclose(policy.logits([5, 6, 7]), expected, atol=1e-4)


@pytest.mark.slow
def test_dora_on_stacked_experts_is_refused(tmp_path: Path) -> None:
    folder = write_family(tmp_path, "mixtral")
    with raises("backends.not_linear", "use_dora: expected linear layers, got the stacked exp"):
        loaded(folder, LoraSpec(rank=4, alpha=8.0, dora=True))


@pytest.mark.slow
def test_pissa_has_the_start_and_the_gradients_of_pefts(untied: Path) -> None:
    policy, batch = loaded(untied, PISSA), reference.example_batch()
    settings = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=4,
        lora_alpha=8,
        target_modules="all-linear",
        init_lora_weights="pissa",
    )
    with quiet():
        plain: Any = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(untied), settings)
    ids, mask = torch.from_numpy(batch.ids_BT), torch.from_numpy(batch.loss_mask_BT)[:, 1:]
    logits = plain(input_ids=ids, use_cache=False).logits[:, :-1]
    chosen = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]
    loss = -(chosen * mask).sum() / batch.constants["window_tokens"]
    loss.backward()  # type: ignore[no-untyped-call]
    assert policy.accumulate(SFT, batch, key=0)["loss"] == pytest.approx(loss.item(), rel=1e-5)
    expected = {
        canonical(name.removeprefix("base_model.model.")): p.grad.numpy()
        for name, p in plain.named_parameters()
        if p.grad is not None
    }
    assert reference.relative_error(dict(policy.gradients()), expected) < 1e-4


def test_pissa_finds_nearly_the_same_values_in_few_iterations() -> None:
    torch.manual_seed(0)
    weight = torch.randn(40, 6) @ torch.randn(6, 30) + 0.01 * torch.randn(40, 30)
    exact, fast = (principal_factors(weight, 6, iterations) for iterations in (-1, 16))
    torch.testing.assert_close(exact[1] @ exact[0], fast[1] @ fast[0], rtol=1e-4, atol=1e-4)
    assert float((weight - exact[1] @ exact[0]).norm()) < 0.4


@pytest.mark.slow
def test_pissa_leaves_a_16_bit_base_as_it_was(stored_bf16: Path) -> None:
    policy, base = (loaded(stored_bf16, train, dtype="bf16") for train in (PISSA, LORA))
    own = dict(policy.module.model.named_parameters())
    for name, value in base.module.model.named_parameters():
        if "lora_" not in name:
            assert torch.equal(own[name], value)


@pytest.mark.slow
def test_a_reward_model_has_the_subtracted_start_of_pissa_merged(
    tied: Path, tmp_path: Path
) -> None:
    spec = LoadSpec(train=PISSA, dtype="f32", seed=1, value_head=True, reward_model=True)
    policy = moved(as_reference(load_backend("cpu").load(tied, spec)))
    expected = policy.logits([5, 6, 7])
    policy.save_result(tmp_path, base=str(tied))
    policy.reopen(tmp_path)
    np.testing.assert_allclose(policy.logits([5, 6, 7]), expected, atol=1e-4)


@pytest.mark.slow
def test_pissa_on_an_embedding_or_experts_is_refused(untied: Path, tmp_path: Path) -> None:
    train = LoraSpec(rank=4, alpha=8.0, init="pissa", targets=("embed_tokens",))
    with raises("backends.not_linear", "pissa_init: expected linear layers, got Embedding"):
        loaded(untied, train)
    with raises("backends.not_linear", "pissa_init: expected linear layers, got stacked experts"):
        loaded(write_family(tmp_path, "mixtral"), PISSA)


def test_pissa_of_more_than_all_singular_values_is_refused(untied: Path) -> None:
    with raises("torch.rank_too_large", "lora_rank: expected at most 32 with pissa_init"):
        loaded(untied, LoraSpec(rank=33, alpha=8.0, init="pissa"))
