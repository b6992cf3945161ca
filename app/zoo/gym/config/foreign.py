"""Keys that other trainers' files carry: other spellings of ours, keys without effect, refusals.

A key is never ignored in silence. It is one of ours, or another spelling of one (`ALIASES`), or
recognised without effect and told (`WITHOUT_EFFECT`), or refused by name (`MISSING`), or unknown.
"""

ALIASES = {
    "model": "model_name_or_path",
    "base_model": "model_name_or_path",
    "data": "dataset",
    "algorithm": "stage",
    "epochs": "num_train_epochs",
    "max_epochs": "num_train_epochs",
    "output": "output_dir",
}
"""Other published spellings of our keys."""

WITHOUT_EFFECT = {
    "dataloader_num_workers": "rows are kept in memory",
    "ddp_timeout": "one process trains",
    "do_eval": "val_size says whether there are evaluations",
    "do_train": "the command says it",
    "eval_strategy": "eval_steps says when to evaluate",
    "load_best_model_at_end": "the best step is always the one that is kept",
    "logging_steps": "every step is logged",
    "overwrite_cache": "there is no cache of encoded rows",
    "per_device_eval_batch_size": "chosen by the length of the rows",
    "plot_loss": "the losses are in the run's events",
    "preprocessing_num_workers": "rows are encoded by one process",
    "sequence_parallel": "there is one device",
    "template": "the model's own chat template is used",
    "use_unsloth": "the loop is our own",
}
"""Keys of published files that change nothing here, with the reason."""

SWITCHES = frozenset(
    {"bf16", "do_eval", "do_train", "overwrite_cache", "plot_loss"}
    | {"sequence_parallel", "use_unsloth"}
)
"""Those of them that are flags without a value."""

MISSING = {
    "adapter_name_or_path": "training on top of an adapter does not exist yet",
    "additional_target": "modules beside the adapter cannot be trained yet",
    "create_new_adapter": "training on top of an adapter does not exist yet",
    "deepspeed": "training over several processes does not exist yet",
    "distributed": "training over several processes does not exist yet",
    "eval_dataset": "a second file for evaluation does not exist yet: val_size holds rows out",
    "flash_attn": "the choice of attention does not exist yet",
    "fp16": "float16 training does not exist: expected dtype bf16 or f32",
    "freeze_trainable_layers": "freeze tuning does not exist yet",
    "fsdp": "training over several processes does not exist yet",
    "loraplus_lr_ratio": "LoRA+ does not exist yet",
    "mask_history": "learning the last answer alone does not exist yet",
    "mix_strategy": "mixing data sets by share does not exist yet",
    "neat_packing": "packing rows does not exist yet",
    "neftune_noise_alpha": "NEFTune does not exist yet",
    "optim": "another optimizer than AdamW does not exist yet: expected adamw_torch",
    "packing": "packing rows does not exist yet",
    "pissa_init": "PiSSA does not exist yet",
    "pure_bf16": "training in bf16 alone does not exist: expected dtype bf16",
    "quantization": "training on a quantised base does not exist yet",
    "quantization_bit": "training on a quantised base does not exist yet",
    "quantization_method": "training on a quantised base does not exist yet",
    "resume_from_checkpoint": "expected the command 'zoo-gym runs resume RUN'",
    "reward": "reinforcement learning does not exist yet",
    "reward_model": "reinforcement learning does not exist yet",
    "rope_scaling": "stretching the context does not exist yet",
    "save_total_limit": "the number of kept checkpoints cannot be set yet",
    "streaming": "streamed data does not exist yet",
    "system": "a system prompt for all rows does not exist yet: expected it in the rows",
    "train_on_prompt": "learning the prompts does not exist yet",
    "trust_remote_code": "code inside a model folder is never run",
    "use_dora": "DoRA does not exist yet",
}
"""Keys of published files for what does not exist here, with the sentence that refuses them."""

AS_HERE = {
    ("optim", "adamw_torch"): "it is the optimizer here",
    ("optim", "adamw_torch_fused"): "it is the optimizer here",
    ("flash_attn", "auto"): "transformers chooses the attention",
}
"""Published values of such keys that name what is done here anyway, with the reason."""

MISSING_PREFIXES = {
    "dpo_": "preference methods do not exist yet",
    "galore_": "GaLore does not exist yet",
    "grpo_": "reinforcement learning does not exist yet",
    "gspo_": "reinforcement learning does not exist yet",
    "kto_": "preference methods do not exist yet",
    "pref_": "preference methods do not exist yet",
    "ppo_": "reinforcement learning does not exist yet",
}
"""The same for whole families of keys."""

MISSING_VALUES = {
    ("stage", name): f"the method '{name}' does not exist yet: expected 'sft'"
    for name in ("dpo", "gspo", "grpo", "kto", "orpo", "ppo", "pt", "rloo", "rm")
} | {
    ("finetuning_type", name): f"the method '{name}' does not exist yet: expected 'lora' or 'full'"
    for name in ("dora", "freeze", "galore", "oft", "qlora")
}
"""Published values of our own keys for what does not exist here."""

OFF = (None, False, "", "none", "no", "false", "null")
"""Values that ask for nothing: a missing feature that is switched off is no error."""


def refusal(key: str) -> str | None:
    """Returns the sentence that refuses `key` by name, or None when it is not a known one."""
    if key in MISSING:
        return MISSING[key]
    return next((text for start, text in MISSING_PREFIXES.items() if key.startswith(start)), None)


def switched_off(value: object) -> bool:
    """Returns whether `value` asks for nothing; 0 does, too."""
    return (value.lower() if isinstance(value, str) else value) in OFF
