"""A given setting that the others leave unread is refused by name, also at its default."""

from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config import dump_config, extend_config, load_config
from zoo.gym.config.stages import METHODS, all_fields, config_class, stages_with
from zoo.gym.config.train import TrainConfig

NEEDED = ["model_name_or_path=m", "dataset=a,b"]

FULL, OFT = ["finetuning_type=full"], ["finetuning_type=oft"]
FREEZE = ["finetuning_type=freeze"]
GALORE, APOLLO, BADAM = ([*FULL, f"optim={name}"] for name in ("galore", "apollo", "badam"))
FIXED = ["lora_target=q_proj", "lora_fixed_a=" + "5a" * 32]
FOUR = ["quantization_bit=4"]

BELONGING: list[tuple[str, list[str], list[str]]] = [
    ("lora_rank lora_alpha lora_dropout lora_target use_rslora use_dora", FULL, []),
    ("lora_rank lora_alpha lora_dropout lora_target use_rslora use_dora", OFT, []),
    ("pissa_init loraplus_lr_ratio", OFT, []),
    ("lora_fixed_a", FULL, []),
    ("lora_fixed_a", ["adapter_name_or_path=a"], []),
    ("base_identity", ["lora_target=q_proj"], FIXED),
    ("base_identity", FULL, FIXED),
    ("delta_bits", FULL, []),
    ("delta_bits", OFT, []),
    ("delta_bits", ["adapter_name_or_path=a"], []),
    ("loftq_init", [*OFT, *FOUR], FOUR),
    ("additional_target", FULL, OFT),
    ("pissa_iter", [], ["pissa_init=true"]),
    ("pissa_init pissa_iter additional_target", ["adapter_name_or_path=a"], ["pissa_init=true"]),
    ("adapter_name_or_path create_new_adapter", FULL, []),
    ("oft_rank oft_target module_dropout", [], OFT),
    ("oft_block_size", [], OFT),
    ("oft_block_size", [*OFT, "oft_rank=4"], OFT),
    ("freeze_trainable_layers freeze_trainable_modules freeze_extra_modules", FULL, FREEZE),
    (
        "freeze_trainable_modules",
        [*FREEZE, "freeze_trainable_layers=0", "freeze_extra_modules=x"],
        FREEZE,
    ),
    ("freeze_extra_modules", [*FREEZE, "optim=badam"], FREEZE),
    ("galore_target galore_rank galore_update_interval galore_scale", FULL, GALORE),
    ("apollo_target apollo_rank apollo_update_interval", GALORE, APOLLO),
    ("apollo_scale apollo_proj apollo_scale_type", GALORE, APOLLO),
    ("apollo_rank apollo_scale_type", [*FULL, "optim=apollo_mini"], APOLLO),
    ("badam_mode badam_switch_mode badam_switch_interval badam_start_block", FULL, BADAM),
    ("badam_switch_interval", [*BADAM, "badam_switch_mode=fixed"], BADAM),
    ("quantization_method quantization_type double_quantization", [], FOUR),
    ("quantization_type double_quantization", ["quantization_bit=8"], FOUR),
    ("quantization_type double_quantization", [*FOUR, "quantization_method=mlx"], FOUR),
    ("decay_ratio", [], ["lr_scheduler_type=wsd"]),
    ("eval_steps early_stopping_steps", ["val_size=0"], []),
    ("val_size", ["eval_dataset=a"], []),
    ("interleave_probs", [], ["mix_strategy=interleave_under"]),
    ("use_bias_correction_kl", ["stage=grpo"], ["stage=grpo", "beta=0.1"]),
    ("epsilon delta", ["stage=grpo", "loss_type=cispo"], ["stage=grpo"]),
    ("epsilon_high", ["stage=grpo", "loss_type=sapo"], ["stage=grpo"]),
    ("kl_estimator", ["stage=ppo", "beta=0"], ["stage=ppo"]),
    ("missing_eos_penalty", ["stage=ppo", "mask_truncated_completions=true"], ["stage=ppo"]),
    ("label_smoothing", ["stage=dpo", "pref_loss=hinge"], ["stage=dpo"]),
    ("f_divergence_type", ["stage=dpo", "pref_loss=sft"], ["stage=dpo"]),
    ("pref_beta ld_alpha", ["stage=dpo", "pref_loss=sft"], ["stage=dpo"]),
    ("discopop_tau", ["stage=dpo"], ["stage=dpo", "pref_loss=discopop"]),
    (
        "f_alpha_divergence_coef",
        ["stage=dpo"],
        ["stage=dpo", "f_divergence_type=alpha_divergence"],
    ),
    ("tdpo_alpha", ["stage=tdpo", "tdpo_loss=tdpo1"], ["stage=tdpo"]),
    ("label_smoothing", ["stage=cpo", "cpo_loss=ipo"], ["stage=cpo"]),
    ("simnpo_gamma", ["stage=unlearn"], ["stage=unlearn", "unlearn_loss=simnpo"]),
    ("retention", ["stage=rm"], []),
]
"""Settings, what leaves them unread, and what reads them."""

VALUES: dict[str, object] = {
    "lora_alpha": 8,
    "lora_dropout": 0.1,
    "use_rslora": "true",
    "use_dora": "true",
    "pissa_init": "true",
    "loftq_init": "true",
    "loraplus_lr_ratio": 16,
    "delta_bits": 1,
    "lora_fixed_a": "5a" * 32,
    "base_identity": "5a" * 32,
    "additional_target": "embed_tokens",
    "adapter_name_or_path": "a",
    "create_new_adapter": "true",
    "oft_rank": 4,
    "module_dropout": 0.1,
    "freeze_extra_modules": "embed_tokens",
    "apollo_scale": 3,
    "badam_switch_interval": 3,
    "badam_start_block": 1,
    "quantization_method": "bnb",
    "quantization_type": "nf4",
    "double_quantization": "true",
    "decay_ratio": 0.1,
    "eval_steps": 3,
    "early_stopping_steps": 3,
    "interleave_probs": "0.5,0.5",
    "delta": 3,
    "epsilon_high": 0.3,
    "missing_eos_penalty": 1,
    "label_smoothing": 0.1,
    "ld_alpha": 0.5,
    "simnpo_gamma": 0.1,
    "retention": "true",
}
"""Values of settings that are off by default; others are given at their default."""

ALWAYS = {
    *("model_name_or_path", "dataset", "dataset_dir", "stage", "cutoff_len", "max_samples"),
    *(
        "columns",
        "me",
        "mix_strategy",
        "eval_dataset",
        "think",
        "split_special_tokens",
        "append_eos",
        "template",
        "date",
        "finetuning_type",
    ),
    *("quantization_bit", "per_device_train_batch_size", "gradient_accumulation_steps"),
    *("learning_rate", "num_train_epochs", "max_steps", "lr_scheduler_type", "warmup_steps"),
    *("warmup_ratio", "weight_decay", "max_grad_norm", "moe_aux_loss_coef"),
    *("neftune_noise_alpha", "optim", "seed", "backend", "num_processes", "sharding", "dtype"),
    *("rope_scaling", "gradient_checkpointing", "activation_offloading", "enable_liger_kernel"),
    *("flash_attn", "stream_layers", "packing", "save_steps", "save_only_model"),
    *("save_total_limit", "output_dir", "overwrite_output_dir", "report_to", "offline"),
}
"""Settings that are read, or refused, whatever the others are; or reported as without effect."""


def load(*items: str) -> TrainConfig:
    return load_config([], [*NEEDED, *items], {}).config


def item(key: str, stages: list[str]) -> str:
    """The setting at its default, or another value if it is off by default."""
    stage = stages[0] if stages else "sft"
    value = VALUES.get(key, config_class(stage).model_fields[key].default)
    assert value, key
    return f"{key}={value}"


CASES = [
    pytest.param(key, unread, read, id=f"{key} {' '.join(unread)}")
    for keys, unread, read in BELONGING
    for key in keys.split()
]


def stages_of(items: list[str]) -> list[str]:
    return [one.removeprefix("stage=") for one in items if one.startswith("stage=")]


@pytest.mark.parametrize(("key", "unread", "read"), CASES)
def test_a_setting_of_another_choice_is_refused_by_name(
    key: str, unread: list[str], read: list[str]
) -> None:
    given = item(key, stages_of(unread))
    with raises("config.invalid") as caught:
        load(*unread, given)
    lines = [one for one in caught.value.message.splitlines() if one.startswith(f"{given}: ")]
    assert lines
    assert any(words in lines[0] for words in ("has no effect", "expected 0 with oft_rank"))
    assert load(*read, *([] if given in read else [given])).model_fields_set >= {key}


OF_STAGE = {
    "distill": ["teacher_model=m"],
    "distill_delta": ["teacher_model=m", "delta_file=d.safetensors"],
    "lessons": ["lessons=l.json"],
}
"""What a stage needs besides the data."""


def test_every_common_setting_belongs_to_a_choice_or_is_always_read() -> None:
    common = {key for key in all_fields() if len(stages_with(key)) == len(METHODS)}
    belonging = {key for keys, _, _ in BELONGING for key in keys.split()}
    assert common - belonging == ALWAYS
    assert not ALWAYS & belonging


@pytest.mark.parametrize(
    "key", [key for key in all_fields() if len(stages_with(key)) < len(METHODS)]
)
def test_a_setting_of_another_method_is_refused_by_name(key: str) -> None:
    other = next(stage for stage in METHODS if stage not in stages_with(key))
    with raises("config.invalid", f"{key}=1: has no effect with stage {other}: expected"):
        load(f"stage={other}", f"{key}=1", *OF_STAGE.get(other, []))


OFF = ["use_rslora=false", "pissa_init=false", "lora_dropout=0", "loraplus_lr_ratio=null"]


def test_what_is_off_anyway_may_be_switched_off() -> None:
    assert load(*FULL, *OFF).finetuning_type == "full"


@pytest.mark.parametrize("stage", METHODS)
@pytest.mark.parametrize("kind", ["lora", "full", "oft", "freeze"])
def test_stored_settings_are_read_back_whatever_the_others_are(
    stage: str, kind: str, tmp_path: Any
) -> None:
    kind = "full" if stage == "distill_delta" else kind
    found = load(f"stage={stage}", f"finetuning_type={kind}", *OF_STAGE.get(stage, []))
    (tmp_path / "config.yaml").write_text(dump_config(found))
    assert load_config([tmp_path / "config.yaml"], [], {}).config == found
    assert TrainConfig(**found.model_dump()) == found
    assert extend_config(found, {"max_steps": 3}).max_steps == 3


def test_settings_that_nothing_reads_are_not_stored() -> None:
    stored = load(*FULL).model_dump()
    assert not {"lora_rank", "oft_target", "galore_rank", "pissa_iter"} & stored.keys()
    assert load().model_dump()["lora_rank"] == 16
