"""Modules that are trained whole beside an adapter: chosen by name, in float32, and given back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.backends import reference
from tests.backends.objectives_for_tests import SFT
from tests.backends.policies import LORA, OFT, as_reference, moved, step
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, QuantizationSpec, Stat
from zoo.backends.spec import Train
from zoo.backends.torch.adapters.whole import without_adapter
from zoo.backends.torch.policy import TorchPolicy
from zoo.core.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")

WHOLE = replace(LORA, whole=("embed_tokens", "lm_head", "model.norm"))


def loaded(folder: Path, train: Train = WHOLE, *, dtype: str = "f32", **more: Any) -> TorchPolicy:
    spec = LoadSpec(train=train, dtype=dtype, seed=1, **more)
    return as_reference(load_backend("cpu").load(folder, spec))


def scores(policy: Any) -> Any:
    return policy.score(reference.example_batch(), frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]


def test_only_the_modules_of_these_names_are_trained_whole(untied: Path) -> None:
    policy = loaded(untied, replace(LORA, whole=("norm", "lm_head")))
    whole = {name for name in policy.parameters if "lora_" not in name}
    assert whole == {"model.norm.modules_to_save.weight", "lm_head.modules_to_save.weight"}


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (replace(LORA, whole=("lm_hed",)), "additional_target: expected names that modules end"),
        (replace(LORA, whole=("",)), "additional_target: expected names that modules end with"),
        (replace(LORA, whole=("rotary_emb",)), "additional_target: expected modules with weights"),
        (
            replace(LORA, targets=("q_proj", "lm_head"), whole=("lm_head",)),
            "lora_target: expected names that layers end with, got 'lm_head'",
        ),
        (
            replace(LORA, targets=("up_proj", "q_proj"), whole=("self_attn",)),
            "lora_target: expected names that layers end with, got 'q_proj'",
        ),
    ],
    ids=lambda value: str(getattr(value, "whole", "")),
)
def test_names_without_effect_are_refused(untied: Path, train: LoraSpec, said: str) -> None:
    with pytest.raises(InputError, match=said):
        loaded(untied, train)


@pytest.mark.slow
def test_a_quantised_module_is_refused_and_one_that_is_not_is_trained(tied: Path) -> None:
    for bits in (4, 8):
        quantized = QuantizationSpec(bits)
        with raises(
            "backends.already_quantised", "expected modules that are not quantised, got 'model"
        ):
            loaded(tied, replace(LORA, whole=("down_proj",)), quantization=quantized)
        policy = loaded(tied, replace(LORA, whole=("norm",)), quantization=quantized)
        assert "model.norm.modules_to_save.weight" in policy.parameters


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "bf16-widened"])
def test_copies_of_a_16_bit_base_are_trained_in_float32(stored_bf16: Path, dtype: str) -> None:
    policy = loaded(stored_bf16, dtype=dtype)
    assert {p.dtype for p in policy.parameters.values()} == {torch.float32}
    with policy.reference() as base:
        np.testing.assert_allclose(scores(policy), scores(base), atol=0.05)
    before = {name: value for name, value in policy.trained() if "modules_to_save" in name}
    policy.accumulate(SFT, reference.example_batch(), key=1)
    policy.optimizer_step(1e-5, 1.0)  # a step that 16 bits would lose
    after = dict(policy.trained())
    assert all((after[name] != value).mean() > 0.01 for name, value in before.items())


@pytest.mark.slow
def test_a_tied_embedding_is_one_matrix_that_stays_tied(tied: Path) -> None:
    policy = loaded(tied, replace(LORA, whole=("embed_tokens",)))
    step(policy, reference.example_batch(), 1)
    model: Any = policy.module.model
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert embedding.weight is head.weight
    assert embedding.weight is not embedding.original_module.weight
    with raises("torch.shared_with_head"):
        loaded(tied, replace(OFT, whole=("embed_tokens",)))


@pytest.mark.slow
def test_rotations_have_modules_beside_them(untied: Path) -> None:
    policy = loaded(untied, replace(OFT, whole=("lm_head",)))
    base = scores(policy)
    step(policy, reference.example_batch(), 1)
    with policy.reference() as frozen:
        np.testing.assert_array_equal(scores(frozen), base)


@pytest.mark.slow
def test_a_model_without_its_adapter_has_the_modules_of_the_base(untied: Path) -> None:
    policy = moved(loaded(untied))
    peft_model: Any = policy.peft_model
    plain: Any = without_adapter(peft_model)
    base: Any = as_reference(load_backend("cpu").load(untied, LoadSpec(dtype="f32"))).module.model
    for name, value in base.named_parameters():
        assert torch.equal(value, plain.get_parameter(name))


@pytest.mark.slow
def test_a_result_that_lost_a_module_is_not_opened(untied: Path, tmp_path: Path) -> None:
    policy = moved(loaded(untied))
    policy.save_result(tmp_path, base=str(untied))
    file = tmp_path / "adapter_model.safetensors"
    tensors = load_file(file)
    del tensors["base_model.model.lm_head.weight"]
    save_file(tensors, file)
    with raises("models.library_refused", "adapter does not fit this model: no entry for"):
        policy.reopen(tmp_path)
