"""LoftQ: it starts nearer to the base than the quantised base, and names that one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from tests.backends import reference
from tests.backends.policies import as_reference, step
from tests.backends.test_quantized_files import written
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, QuantizationSpec, Stat
from zoo.backends.spec import Train
from zoo.backends.torch.policy import TorchPolicy
from zoo.backends.torch.quiet import peft_alone, quiet
from zoo.core.errors import GymWarning

pytest.importorskip("bitsandbytes")
pytestmark = pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")

LOFTQ = LoraSpec(rank=16, alpha=32.0, init="loftq")
NF4 = QuantizationSpec()


def loaded(
    folder: Path, train: Train | None = LOFTQ, base: QuantizationSpec | None = NF4, **more: Any
) -> TorchPolicy:
    spec = LoadSpec(train=train, dtype="f32", quantization=base, seed=1, **more)
    return as_reference(load_backend("cpu").load(folder, spec))


def scores(policy: Any) -> Any:
    return policy.score(reference.example_batch(), frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]


def far(one: Any, other: Any) -> float:
    return float(np.abs(scores(one) - scores(other)).mean())


@pytest.mark.slow
@pytest.mark.parametrize("change", [{}, {"rslora": True}, {"alpha": 4.0}], ids=str)
def test_the_start_is_nearer_to_the_base_than_the_codes_are(tied: Path, change: Any) -> None:
    exact, codes = loaded(tied, None, None), loaded(tied, None)
    start = loaded(tied, replace(LOFTQ, **change))
    assert far(start, exact) < 0.75 * far(codes, exact)
    whole = loaded(tied, replace(LOFTQ, rank=32, **change))
    assert far(whole, exact) < far(start, exact)


@pytest.mark.slow
def test_a_start_of_full_rank_is_the_base(tied: Path) -> None:
    narrow = LoraSpec(rank=32, alpha=64.0, init="loftq", targets=("k_proj", "v_proj"))
    policy, exact = loaded(tied, narrow), loaded(tied, None, None)
    mine: Any = policy.module.model
    plain: Any = exact.module.model
    for name in ("k_proj", "v_proj"):
        layer = mine.model.layers[0].self_attn.get_submodule(name)
        hidden = torch.randn(3, 64)
        weight = plain.model.layers[0].self_attn.get_submodule(name)
        torch.testing.assert_close(layer(hidden), weight(hidden), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_reference_is_the_start_and_everything_learns(tied: Path, tmp_path: Path) -> None:
    policy = loaded(tied)
    start = scores(policy)
    step(policy, reference.example_batch(), 1)
    policy.save_checkpoint(tmp_path)
    assert all(p.requires_grad for p in policy.parameters.values())
    assert not any(".start." in name for name in policy.parameters)
    with policy.reference() as frozen:
        np.testing.assert_array_equal(scores(frozen), start)
    resumed = loaded(tied, replace(LOFTQ))
    resumed.load_checkpoint(tmp_path)
    for one in (policy, resumed):
        step(one, reference.example_batch(), 2)
    np.testing.assert_array_equal(scores(policy), scores(resumed))
    assert np.abs(scores(policy) - start).max() > 1e-3


@pytest.mark.slow
def test_plain_peft_opens_the_result_on_the_base_that_it_names(tied: Path, tmp_path: Path) -> None:
    policy = loaded(tied)
    step(policy, reference.example_batch(), 1)
    expected = policy.logits([5, 6, 7])
    policy.save_result(tmp_path, base=str(tied))
    named = json.loads((tmp_path / "adapter_config.json").read_text())["loftq_config"]
    assert named == {"loftq_bits": 4, "loftq_iter": 1, "kind": "nf4", "double": True}
    settings: Any = BitsAndBytesConfig
    codes = settings(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
    )
    with quiet(), peft_alone():
        base = AutoModelForCausalLM.from_pretrained(tied, quantization_config=codes)
        plain: Any = peft.PeftModel.from_pretrained(base, tmp_path)
    with torch.no_grad():
        # in evaluation mode bitsandbytes multiplies in bf16 on processors with bf16 units
        found = plain.train()(input_ids=torch.tensor([[5, 6, 7]])).logits[0]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    policy.reopen(tmp_path)
    np.testing.assert_allclose(policy.logits([5, 6, 7]), expected, atol=1e-4)


@pytest.mark.slow
def test_the_result_brings_its_base_and_refuses_another(tied: Path, tmp_path: Path) -> None:
    policy = loaded(tied, base=QuantizationSpec(4, "fp4", double=False))
    step(policy, reference.example_batch(), 1)
    policy.save_result(tmp_path, base=str(tied))
    for train in (None, "adapter"):
        again = loaded(tied, train, None, adapter=tmp_path)
        np.testing.assert_allclose(scores(again), scores(policy), atol=1e-4)
        again.save_result(tmp_path / "again", base=str(tied))
        config = json.loads((tmp_path / "again" / "adapter_config.json").read_text())
        assert config["loftq_config"]["kind"] == "fp4"
        with raises("torch.other_codes_of_base", "loftq_config: expected the base in 4 bits"):
            loaded(tied, train, NF4, adapter=tmp_path)
        named = QuantizationSpec(4, "fp4", double=False, method="bnb")
        np.testing.assert_array_equal(
            scores(loaded(tied, train, named, adapter=tmp_path)), scores(again)
        )


@pytest.mark.slow
def test_files_in_the_codes_that_it_names_are_its_base(tied: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    loaded(tied).save_result(first, base=str(tied))
    expected = loaded(tied, None, NF4, adapter=first)
    found = loaded(written(tmp_path / "4", tied, 4), None, None, adapter=first)
    np.testing.assert_allclose(scores(found), scores(expected), atol=1e-4)
    with raises("torch.other_codes_of_base", "got files in other codes"):
        loaded(written(tmp_path / "8", tied, 8), None, None, adapter=first)


@pytest.mark.slow
def test_what_needs_plain_weights_is_refused_by_name(tied: Path, tmp_path: Path) -> None:
    loaded(tied).save_result(tmp_path, base=str(tied))
    for name, more in {
        "stream_layers": {"stream_layers": True},
        "sharding full": {"sharded": True},
        "stage rm": {"reward_model": True, "value_head": True},
    }.items():
        with raises("torch.other_codes_of_base", f"got {name}, which needs plain weights"):
            loaded(tied, "adapter", None, adapter=tmp_path, **more)


@pytest.mark.slow
def test_a_start_without_a_loss_is_refused(tied: Path, untied: Path) -> None:
    with pytest.raises(ValueError, match="quantization: expected 4 bits with loftq"):
        loaded(tied, base=None)
    with raises("torch.no_layers_in_codes"):
        loaded(untied, replace(LOFTQ, targets=("lm_head",)))
    with raises("torch.rank_too_large", "lora_rank: expected at most 32 with loftq_init"):
        loaded(tied, replace(LOFTQ, rank=33))


@pytest.mark.slow
def test_that_no_delta_can_be_made_is_said_before_the_training(tied: Path) -> None:
    with pytest.warns(GymWarning, match="no delta can .* what quantising the base lost"):
        loaded(tied)


@pytest.mark.slow
def test_layers_that_are_not_quantised_start_without_effect(untied: Path) -> None:
    train = replace(LOFTQ, targets=("q_proj", "lm_head"))
    values = dict(loaded(untied, train).trained())
    assert not values["lm_head.lora_B.weight"].any()
    assert values["lm_head.lora_A.weight"].any()
    assert all(value.any() for name, value in values.items() if "q_proj" in name)


@pytest.mark.slow
@pytest.mark.parametrize("whole", ["lm_head", "embed_tokens"])
@pytest.mark.parametrize("model", ["untied", "tied"])
def test_modules_beside_it_go_back_to_the_base_in_the_reference(
    model: str, whole: str, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(model)
    policy = loaded(folder, replace(LOFTQ, whole=(whole,)))
    start = scores(policy)
    step(policy, reference.example_batch(), 1)
    with policy.reference() as frozen:
        np.testing.assert_array_equal(scores(frozen), start)
    assert all(p.requires_grad for p in policy.parameters.values())
