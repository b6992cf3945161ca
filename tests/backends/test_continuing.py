"""Training on top of an adapter: it starts from its values, which are the reference."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.backends import reference
from tests.backends.policies import DORA, LORA, as_reference, moved, step
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Stat
from zoo.backends.torch.policy import TorchPolicy
from zoo.backends.torch.quiet import quiet
from zoo.core.errors import GymWarning

pytestmark = pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")


def scores(policy: Any) -> Any:
    return policy.score(reference.example_batch(), frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS]


def loaded(folder: Path, spec: LoadSpec) -> TorchPolicy:
    return as_reference(load_backend("cpu").load(folder, spec))


@pytest.fixture(params=[LORA, DORA], ids=["lora", "dora"])
def first(request: pytest.FixtureRequest, tied: Path, tmp_path: Path) -> Path:
    """An adapter that does something."""
    policy = moved(loaded(tied, LoadSpec(train=request.param, dtype="f32", seed=1)))
    policy.save_result(tmp_path / "first", base=str(tied))
    return tmp_path / "first"


@pytest.mark.slow
def test_it_starts_from_the_adapter_which_stays_the_reference(tied: Path, first: Path) -> None:
    before = scores(loaded(tied, LoadSpec(adapter=first, dtype="f32")))
    policy = loaded(tied, LoadSpec(train="adapter", adapter=first, dtype="f32"))
    np.testing.assert_array_equal(scores(policy), before)
    names = set(policy.parameters)
    step(policy, reference.example_batch(), 1)
    with policy.reference() as start:
        np.testing.assert_array_equal(scores(start), before)
    assert np.abs(scores(policy) - before).max() > 1e-3
    assert all("lora_" in name and ".start." not in name for name in names)
    assert all(p.requires_grad for p in policy.parameters.values())


@pytest.mark.slow
def test_plain_peft_opens_the_result(tied: Path, first: Path, tmp_path: Path) -> None:
    policy = loaded(tied, LoadSpec(train="adapter", adapter=first, dtype="f32"))
    step(policy, reference.example_batch(), 1)
    policy.save_result(tmp_path / "second", base=str(tied))
    with quiet():
        base = AutoModelForCausalLM.from_pretrained(tied)
        plain = peft.PeftModel.from_pretrained(base, tmp_path / "second")
    with torch.no_grad():
        expected = plain(input_ids=torch.tensor([[5, 6, 7]])).logits[0]
    np.testing.assert_allclose(policy.logits([5, 6, 7]), expected, atol=1e-4)
    policy.reopen(tmp_path / "second")
    np.testing.assert_allclose(policy.logits([5, 6, 7]), expected, atol=1e-4)


@pytest.mark.slow
def test_a_restored_policy_has_the_reference_that_it_began_with(
    tied: Path, first: Path, tmp_path: Path
) -> None:
    spec = LoadSpec(train="adapter", adapter=first, dtype="f32")
    kept = loaded(tied, spec)
    step(kept, reference.example_batch(), 1)
    kept.save_checkpoint(tmp_path)
    resumed = moved(loaded(tied, spec))
    resumed.load_checkpoint(tmp_path)
    step(kept, reference.example_batch(), 2)
    step(resumed, reference.example_batch(), 2)
    np.testing.assert_array_equal(scores(kept), scores(resumed))
    with kept.reference() as mine, resumed.reference() as theirs:
        np.testing.assert_array_equal(scores(mine), scores(theirs))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (peft.LoHaConfig(target_modules=["q_proj"]), "expected a LoRA adapter, got LOHA"),
        (peft.LoraConfig(target_modules=["q_proj"], bias="all"), "expected bias 'none', got 'all'"),
        (
            peft.LoraConfig(target_modules=["q_proj"], modules_to_save=["lm_head"]),
            "modules_to_save: whole modules cannot be trained further",
        ),
    ],
    ids=["loha", "bias", "modules"],
)
def test_what_cannot_be_trained_further_is_refused(
    untied: Path, tmp_path: Path, settings: Any, said: str
) -> None:
    with quiet():
        model: Any = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(untied), settings)
    model.save_pretrained(tmp_path)
    with raises("torch.adapter_not_continued", said):
        loaded(untied, LoadSpec(train="adapter", adapter=tmp_path))


@pytest.mark.slow
def test_an_adapter_that_changes_its_base_is_refused(tied: Path, first: Path) -> None:
    file = first / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"init_lora_weights": "olora"}))
    with raises(
        "torch.adapter_not_continued", "expected an adapter that leaves its base as it was"
    ):
        loaded(tied, LoadSpec(train="adapter", adapter=first))


@pytest.mark.slow
def test_that_no_delta_can_be_made_is_said_again(tied: Path, tmp_path: Path) -> None:
    loaded(tied, LoadSpec(train=DORA, dtype="f32")).save_result(tmp_path, base=str(tied))
    with pytest.warns(GymWarning, match="no delta can be made .* DoRA's magnitudes"):
        loaded(tied, LoadSpec(train="adapter", adapter=tmp_path))


def test_a_new_adapter_beside_another_is_refused(tied: Path) -> None:
    with raises("backends.setting_not_supported", "adapter: expected none for training"):
        loaded(tied, LoadSpec(train=LoraSpec(), adapter=Path("some")))
