"""Every kind of adapter that peft has: it acts as plain peft says, or it is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.backends import reference
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Sampling, Stat
from zoo.backends.torch.quiet import quiet

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
LINEAR = ["q_proj", "v_proj", "up_proj"]
CAUSAL = "CAUSAL_LM"

TAKEN: dict[str, Callable[[], Any]] = {
    "lora": lambda: peft.LoraConfig(target_modules=LINEAR, r=4),
    "rslora": lambda: peft.LoraConfig(target_modules=LINEAR, r=4, use_rslora=True),
    "dora": lambda: peft.LoraConfig(target_modules=LINEAR, r=4, use_dora=True),
    "lora_bias": lambda: peft.LoraConfig(target_modules=LINEAR, r=4, lora_bias=True),
    "lora on the embedding": lambda: peft.LoraConfig(target_modules=["embed_tokens"], r=4),
    "lora on the head": lambda: peft.LoraConfig(target_modules=["lm_head"], r=4),
    "dora on the head": lambda: peft.LoraConfig(target_modules=["lm_head"], r=4, use_dora=True),
    "whole head": lambda: peft.LoraConfig(target_modules=LINEAR, modules_to_save=["lm_head"]),
    "token rows": lambda: peft.LoraConfig(target_modules=LINEAR, trainable_token_indices=[5, 6]),
    "two ranks": lambda: peft.LoraConfig(
        target_modules=LINEAR, r=4, rank_pattern={"q_proj": 2}, alpha_pattern={"up_proj": 3}
    ),
    "an expression": lambda: peft.LoraConfig(target_modules=r".*layers\.(0|1)\..*?(q|up)_proj"),
    "one layer": lambda: peft.LoraConfig(target_modules=LINEAR, layers_to_transform=[1]),
    "without one": lambda: peft.LoraConfig(target_modules=LINEAR, exclude_modules=["up_proj"]),
    "adalora": lambda: peft.AdaLoraConfig(target_modules=LINEAR, total_step=10),
    "loha": lambda: peft.LoHaConfig(target_modules=LINEAR, r=4),
    "lokr": lambda: peft.LoKrConfig(target_modules=LINEAR, r=4),
    "ia3": lambda: peft.IA3Config(target_modules=LINEAR, feedforward_modules=["up_proj"]),
    "oft": lambda: peft.OFTConfig(target_modules=LINEAR, oft_block_size=16, r=0),
    "hra": lambda: peft.HRAConfig(target_modules=LINEAR),
    "norms": lambda: peft.LNTuningConfig(target_modules=["input_layernorm"]),
}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "prompt": (
        lambda: peft.PromptTuningConfig(task_type=CAUSAL, num_virtual_tokens=4),
        "got PROMPT_TUNING, which acts on the prompt",
    ),
    "prefix": (
        lambda: peft.PrefixTuningConfig(task_type=CAUSAL, num_virtual_tokens=4),
        "got PREFIX_TUNING, which acts on the prompt",
    ),
    "p-tuning": (
        lambda: peft.PromptEncoderConfig(
            task_type=CAUSAL, num_virtual_tokens=4, encoder_hidden_size=16
        ),
        "got P_TUNING, which acts on the prompt",
    ),
    "alora": (
        lambda: peft.LoraConfig(
            task_type=CAUSAL, target_modules=LINEAR, alora_invocation_tokens=[5, 6]
        ),
        "alora_invocation_tokens: expected one that acts on every token",
    ),
}


def write(base: Path, folder: Path, config: Any) -> Any:
    """Has peft make an adapter that does something, and returns its model."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    with quiet():
        model: Any = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    model.eval().save_pretrained(folder)
    return model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", TAKEN)
def test_an_adapter_that_is_taken_acts_as_plain_peft_says(
    kind: str, untied: Path, tmp_path: Path
) -> None:
    plain = write(untied, tmp_path, TAKEN[kind]())
    policy = load_backend("cpu").load(untied, LoadSpec(adapter=tmp_path))
    batch = reference.example_batch()
    with torch.no_grad():
        logits = plain(input_ids=torch.from_numpy(batch.ids_BT)).logits[:, :-1]
    expected = torch.log_softmax(logits, -1).gather(-1, torch.from_numpy(batch.ids_BT)[:, 1:, None])
    got = policy.score(batch, frozenset({Stat.LOGPROBS}))[Stat.LOGPROBS][:, 1:]
    mask = batch.loss_mask_BT[:, 1:]
    np.testing.assert_allclose(got[mask], expected[..., 0].numpy()[mask], rtol=1e-4, atol=1e-4)
    policy.generate([[5, 6]], Sampling(max_new_tokens=2), keys=[0])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", REFUSED)
def test_an_adapter_that_acts_on_prompts_is_refused(
    kind: str, untied: Path, tmp_path: Path
) -> None:
    make, said = REFUSED[kind]
    write(untied, tmp_path, make())
    with raises("backends.adapter_not_supported", said):
        load_backend("cpu").load(untied, LoadSpec(adapter=tmp_path))


@pytest.fixture
def lora(tied: Path, tmp_path: Path) -> Path:
    policy = load_backend("cpu").load(tied, LoadSpec(train=LoraSpec(rank=4, alpha=8.0)))
    policy.save_result(tmp_path, base=str(tied))
    return tmp_path


def change(folder: Path, **settings: object) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | settings))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["q_proj"]},
        {"layers_to_transform": [0], "target_modules": ["q_proj", "v_proj", "up_proj"]},
        {"exclude_modules": ["up_proj"]},
        {"exclude_modules": r".*layers\.1\.mlp.*"},
    ],
    ids=str,
)
def test_tensors_that_the_config_leaves_out_are_refused(
    settings: dict[str, object], lora: Path, tied: Path
) -> None:
    change(lora, **settings)
    with raises("models.adapter_tensors", r"expected only tensors covered by adapter_config\.json"):
        load_backend("cpu").load(tied, LoadSpec(adapter=lora))


@pytest.mark.slow
def test_a_tensor_that_the_config_asks_for_is_not_made_up(lora: Path, tied: Path) -> None:
    tensors = load_file(lora / WEIGHTS)
    tensors.pop("base_model.model.model.layers.1.mlp.up_proj.lora_B.weight")
    save_file(tensors, lora / WEIGHTS)
    with raises("models.adapter_tensors", r"expected all tensors required by adapter_config\.json"):
        load_backend("cpu").load(tied, LoadSpec(adapter=lora))


RUNAWAY = r"([\w.]+)+!"


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": RUNAWAY},
        {"exclude_modules": RUNAWAY},
        {"rank_pattern": {RUNAWAY: 2}},
        {"layers_pattern": [RUNAWAY], "layers_to_transform": [0]},
        {"modules_to_save": [RUNAWAY]},
    ],
    ids=min,
)
@pytest.mark.slow
def test_an_expression_that_runs_away_is_refused(
    settings: dict[str, object], lora: Path, tied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.models.patterns.LIMIT_S", 0.3)
    change(lora, **settings)
    with raises("models.pattern_too_slow"):
        load_backend("cpu").load(tied, LoadSpec(adapter=lora))
