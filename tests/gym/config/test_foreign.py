"""Settings of LLaMA-Factory take effect, or the reason why they do not is reported."""

from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.config.test_load import NEEDED, faults, write
from zoo.gym.config import load_config

IGNORED = [
    "do_train=true",
    "template=qwen3",
    "bf16=false",
    "fp16=false",
    "quantization=none",
    "push_to_hub=false",
    "run_name=mine",
    "save_strategy=steps",
    "trust_remote_code=true",
]


@pytest.mark.parametrize("item", IGNORED)
def test_a_published_key_without_effect_is_reported(item: str) -> None:
    loaded = load_config([], [*NEEDED, item], {})
    assert [ignored.key for ignored in loaded.ignored] == [item.partition("=")[0]]
    assert loaded.config == load_config([], NEEDED, {}).config


@pytest.mark.parametrize("method", ["orpo", "simpo"])
def test_a_loss_of_llama_factory_that_is_a_method_here_chooses_it(method: str) -> None:
    items = [*NEEDED, f"pref_loss={method}", "pref_beta=0.3"]
    config = load_config([], [*items, "stage=dpo"], {}).config
    assert config == load_config([], [*NEEDED, "pref_beta=0.3", f"stage={method}"], {}).config
    with raises("config.invalid", r"pref_loss=.*: has no effect with stage sft"):
        load_config([], items, {})


@pytest.mark.parametrize("stage", ["grpo", "gspo", "rloo", "ppo"])
def test_the_length_of_answers_in_files_of_llama_factory_has_its_effect(
    tmp_path: Path, stage: str
) -> None:
    path = write(tmp_path, f"stage: {stage}\nmax_new_tokens: 37\ntop_k: 0\ntop_p: 0.9\n")
    loaded = load_config([path], NEEDED, {})
    assert getattr(loaded.config, "max_completion_length") == 37  # noqa: B009
    assert loaded.origins["max_completion_length"].endswith("train.yaml:2")
    keys = {one.key for one in loaded.ignored}
    assert {"top_k", "top_p"} <= keys
    assert "max_new_tokens" not in keys


def test_the_length_of_answers_is_refused_twice_and_in_other_methods_without_effect(
    tmp_path: Path,
) -> None:
    text = "max_new_tokens: 37\nmax_completion_length: 38\n"
    with raises("config.invalid", r"max_completion_length: already given as .*max_new_tok"):
        load_config([write(tmp_path, f"stage: ppo\n{text}")], NEEDED, {})
    with raises("config.invalid", "max_new_tokens: expected 1 to 1,048,576, got 0"):
        load_config([write(tmp_path, "stage: ppo\nmax_new_tokens: 0\n")], NEEDED, {})
    (idle,) = load_config([write(tmp_path, "max_new_tokens: 37\n")], NEEDED, {}).ignored
    assert idle.key == "max_new_tokens"


def test_the_kind_of_a_reward_model_is_that_of_its_folder_and_no_server(tmp_path: Path) -> None:
    path = write(tmp_path, "stage: ppo\nreward_model_type: full\nreward_model: org/name\n")
    (idle,) = load_config([path], NEEDED, {}).ignored
    assert (idle.key, idle.reason) == (
        "reward_model_type",
        "the folder of the reward model determines it",
    )
    assert faults(tmp_path, "stage: ppo\nreward_model_type: api\n") == [
        "train.yaml:4: reward_model_type: a reward from a server is not supported yet"
    ]


def test_a_weight_of_0_switches_a_loss_off_and_another_is_refused(tmp_path: Path) -> None:
    text = "stage: kto\nkto_ftx: {}\n"
    (idle,) = load_config([write(tmp_path, text.format("0.0"))], NEEDED, {}).ignored
    assert (idle.key, idle.reason) == ("kto_ftx", "switched off")
    assert faults(tmp_path, text.format("0.1")) == [
        "train.yaml:4: kto_ftx: learning the good answers besides is not supported yet"
    ]


@pytest.mark.parametrize(
    "item",
    [
        *("shift_attn=true", "mixture_of_depths=convert", "grpo_normalize_advantages=true"),
        *("use_llama_pro=true", "resize_vocab=true", "new_special_tokens=<a>", "export_dir=out"),
        *("vllm_maxlen=2048", "freeze_vision_tower=true", "image_max_pixels=9", "use_kt=true"),
        *("disable_shuffling=true", "default_system=Hi", "model_revision=main", "use_swanlab=true"),
    ],
)
def test_a_published_key_of_what_is_not_here_is_refused_with_a_reason(item: str) -> None:
    with raises("config.invalid") as caught:
        load_config([], [*NEEDED, item], {})
    assert "Did you mean" not in caught.value.message
    assert caught.value.message.partition(": ")[2] not in {"", "no such setting"}


@pytest.mark.parametrize("item", ["repetition_penalty=1.1", "use_fast_tokenizer=true"])
def test_a_published_key_that_changes_nothing_here_has_a_reason(item: str) -> None:
    (ignored,) = load_config([], [*NEEDED, item], {}).ignored
    assert ignored.key == item.partition("=")[0]
    assert ignored.reason


def test_a_misspelled_key_still_has_a_hint() -> None:
    with raises("config.invalid", "Did you mean 'freeze_trainable_layers'"):
        load_config([], [*NEEDED, "freeze_trainable_layer=2"], {})


COMMON = """model_name_or_path: zen-pico
stage: sft
finetuning_type: lora
lora_rank: 8
lora_alpha: 16
lora_target: q_proj,v_proj
dataset: a.jsonl
template: chatml
cutoff_len: 64
per_device_train_batch_size: 2
gradient_accumulation_steps: 3
learning_rate: 1.0e-5
num_train_epochs: 2.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
val_size: 0.1
output_dir: out
report_to: none
"""


def test_the_common_keys_of_llama_factory_have_their_effect(tmp_path: Path) -> None:
    path = write(tmp_path, COMMON)
    loaded = load_config([path], [], {})
    keys = [line.partition(":")[0] for line in COMMON.splitlines()]
    assert loaded.ignored == ()
    assert all(
        loaded.origins[{"bf16": "dtype"}.get(key, key)].startswith(f"{path}:") for key in keys
    )
    with raises("config.invalid", "expected the command 'zoo-gym runs resume RUN'"):
        load_config([path], ["resume_from_checkpoint=x"], {})
