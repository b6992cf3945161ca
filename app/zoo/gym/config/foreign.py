"""Keys in files of other trainers: other spellings of ours, keys without effect, refused keys.

No key is ignored silently. It is one of ours, another spelling of one (`ALIASES`), recognised
without effect and reported (`WITHOUT_EFFECT`), refused by name (`MISSING`), or unknown.
"""

from zoo.gym.config.stages import METHODS

ALIASES = {
    "reward_model": "reward",
    "model": "model_name_or_path",
    "neat_packing": "packing",
    "use_unsloth_gc": "activation_offloading",
    "base_model": "model_name_or_path",
    "data": "dataset",
    "algorithm": "stage",
    "epochs": "num_train_epochs",
    "max_epochs": "num_train_epochs",
    "output": "output_dir",
    "teacher_model_name_or_path": "teacher_model",
    "undesirable_weight": "kto_rejected_weight",
    "desirable_weight": "kto_chosen_weight",
    "dpo_label_smoothing": "label_smoothing",
    "loss_weights": "pref_loss_weights",
    "num_generations": "group_size",
    "clip_range": "epsilon",
    "temperature_train": "temperature",
    "grpo_group_size": "group_size",
    "grpo_beta": "beta",
    "grpo_clip_range": "epsilon",
    "gspo_group_size": "group_size",
    "gspo_beta": "beta",
    "gspo_clip_range": "epsilon",
    "cliprange": "epsilon",
    "kl_coef": "beta",
    "num_ppo_epochs": "num_iterations",
    "ppo_epochs": "num_iterations",
    "ppo_whiten_rewards": "whiten_rewards",
}
"""Other published spellings of our keys."""

WITHOUT_EFFECT = {
    "block_diag_attn": "packed rows see only themselves",
    "data_shared_file_system": "each process reads the data itself",
    "ignore_pad_token_for_loss": "padding is never learned",
    "include_effective_tokens_per_second": "every step reports the learned tokens per second",
    "low_cpu_mem_usage": "weights are read from their files as they are needed",
    "preprocessing_batch_size": "rows are encoded one by one",
    "print_param_status": "zoo-gym delta inspect shows what a result changes",
    "skip_special_tokens": "answers are shown without the tokens that end them",
    "tokenized_path": "there is no cache of encoded rows",
    "tool_format": "the model's own chat template writes tools",
    "use_fast_tokenizer": "tokenizers are always fast ones",
    "use_kv_cache": "answers are always sampled with a cache",
    "use_reentrant_gc": "activations are never recomputed by reentrant functions",
    "apollo_scale_front": "the growth of steps is limited by the ratio of two, both scaled or not",
    "badam_verbose": "badam_switch_mode and badam_switch_interval say which layers train",
    "dataloader_num_workers": "one process reads the rows",
    "ddp_timeout": "a process that ends is noticed at once",
    "do_eval": "val_size determines whether there are evaluations",
    "do_sample": "the method determines whether answers are sampled",
    "do_train": "the command determines it",
    "eval_strategy": "eval_steps determines when to evaluate",
    "load_best_model_at_end": "the best step is always kept",
    "logging_steps": "every step is logged",
    "max_new_tokens": "it limits the answers of a chat, zoo-gym chat --max_new_tokens, and with"
    " stages that sample answers it is max_completion_length",
    "overwrite_cache": "there is no cache of encoded rows",
    "per_device_eval_batch_size": "chosen from the length of the rows",
    "pissa_convert": "the result of PiSSA is always an adapter for the unchanged base",
    "plot_loss": "the losses are in the run's events",
    "precompute_ref_log_probs": "the reference is always scored before step 1",
    "preprocessing_num_workers": "rows are encoded by one process",
    "sequence_parallel": "each process computes whole rows",
    "evaluation_strategy": "eval_steps determines when to evaluate",
    "reward_model_type": "the folder of the reward model determines it",
    "run_name": "zoo-gym runs rename gives a run a name",
    "save_strategy": "save_steps determines when to save",
    "top_k": "answers are sampled from all tokens, as they are learned",
    "top_p": "answers are sampled from all tokens, as they are learned",
    "trust_remote_code": "code inside a model folder is never run",
    "use_ref_model": "the method determines whether there is a reference",
    "use_unsloth": "zoo-gym has its own training loop",
    **dict.fromkeys(
        ("length_penalty", "num_beams", "repetition_penalty"),
        "it is a setting of answers, not of training",
    ),
}
"""Keys of published files that have no effect here, with the reason."""

_TEMPLATES = """
aeva alpaca bailing bailing_v2 breeze chatglm3 chatml_de cohere cpm4 custom dbrx deepseek
deepseek3 deepseekcoder deepseekr1 default dots_ocr empty ernie ernie_nothink ernie_vl exaone
falcon falcon_h1 fewshot gemma2 gemma3 gemma3n gemma4 gemma4n glm4 glm4_5v glm4_7 glm4_moe glm4v
glm_ocr glmz1 gpt_oss granite3 granite3_vision granite4 hunyuan hunyuan_small hy3 hy_dense_1_8b
hy_dense_7b index intern2 intern_s1 intern_vl keye_vl kimi_vl lfm2 lfm2_vl llama2 llama2_zh llama4
llava llava_next llava_next_llama3 llava_next_mistral llava_next_qwen llava_next_video
llava_next_video_mistral llava_next_video_yi llava_next_yi mimo mimo_v2 mimo_vl minicpm_o
minicpm_v minicpm_v_4_6 minimax1 minimax2 ministral ministral3 mistral_small mllama moonlight
moss_vl olmo openchat openchat-3.6 opencoder paligemma paligemma_chat phi4 phi4_mini phi_small
pixtral qwen2_audio qwen2_omni qwen2_vl qwen3 qwen3_5 qwen3_5_nothink qwen3_6 qwen3_nothink
qwen3_omni qwen3_omni_nothink qwen3_vl qwen3_vl_nothink sailor seed_coder seed_oss smollm smollm2
solar starchat telechat2 vicuna video_llava xuanyuan yi yi_vl youtu youtu_vl yuan zephyr
"""

OTHER_TEMPLATES = frozenset(_TEMPLATES.split())
"""LLaMA-Factory's names of templates that are not among ours."""

OWN_TEMPLATE = "the model's own chat template is used"


def without_effect(key: str, value: object) -> str | None:
    """Returns why a published key, or this value of it, has no effect here; None if it has one."""
    if key == "template" and isinstance(value, str) and value in OTHER_TEMPLATES:
        return OWN_TEMPLATE
    return WITHOUT_EFFECT.get(key)


VALUES_OF_SWITCHES = {
    "bf16": ("dtype", "bf16"),
    "use_adam_mini": ("optim", "adam_mini"),
    "use_muon": ("optim", "muon"),
    "use_galore": ("optim", "galore"),
    "use_apollo": ("optim", "apollo"),
    "use_badam": ("optim", "badam"),
}
"""Published switches that are a value of one of our settings here."""

THINKING = "enable_thinking"
"""LLaMA-Factory's switch for thinking in answers."""

THINK = {"true": "template", "false": "drop"}
"""What it means, as our `think`."""

SWITCHES = frozenset(
    {"do_eval", "do_sample", "do_train", "overwrite_cache", "pissa_convert", "plot_loss"}
    | {"sequence_parallel", "use_ref_model", "use_unsloth"}
    | VALUES_OF_SWITCHES.keys()
)
"""Published keys that are flags without a value."""

NEW_TOKENS = "new tokens are not supported: the vocabulary is that of the base"

REPORTED = "SwanLab is not supported: expected report_to, or the events of the run"

SEEING = "text alone is learned: images, audio and video are not supported"

OTHER_ENGINE = "answers are sampled by the engine that trains"

DIVIDED_BY_LAUNCHER = "the launcher sets it: expected num_processes"

DIVIDED = "expected sharding full with num_processes, which divides the model by torch's FSDP2"

MISSING = {
    "add_special_tokens": NEW_TOKENS,
    "add_tokens": NEW_TOKENS,
    "init_special_tokens": NEW_TOKENS,
    "new_special_tokens": NEW_TOKENS,
    "new_special_tokens_config": NEW_TOKENS,
    "resize_vocab": NEW_TOKENS,
    "adapter_folder": "expected adapter_name_or_path with the folder of one adapter",
    "apollo_proj_type": "matrices are projected on their shorter side: expected none",
    "galore_proj_type": "matrices are projected on their shorter side: expected none",
    "asft_alpha": "not supported: expected use_dft_loss",
    "use_asft_loss": "not supported: expected use_dft_loss",
    "eaft_alpha": "not supported: expected use_dft_loss",
    "use_eaft_loss": "not supported: expected use_dft_loss",
    "buffer_size": "streamed data is not supported yet",
    "cache_dir": "expected HF_HOME in the environment",
    "compute_accuracy": "not supported: held-out losses and answers are shown",
    "compute_dtype": "expected dtype",
    "default_system": "a system prompt for all rows is not supported yet: expected it in the rows",
    "device_map": "a model on several devices is not supported yet",
    "disable_gradient_checkpointing": "expected gradient_checkpointing false",
    "disable_shuffling": "rows are always drawn in an order of the seed",
    "early_stopping_patience": "expected early_stopping_steps",
    "enable_torch_profiler": "profiling is not supported",
    "eval_num_beams": "answers to held-out rows are always greedy",
    "eval_on_each_dataset": "held-out rows of all files are one figure: not supported yet",
    "grpo_normalize_advantages": "expected scale_rewards: group for true, none for false",
    "gspo_normalize_advantages": "expected scale_rewards: group for true, none for false",
    "hf_hub_token": "expected HF_TOKEN in the environment",
    "ms_hub_token": "models are taken from the Hugging Face hub alone",
    "om_hub_token": "models are taken from the Hugging Face hub alone",
    "loraplus_lr_embedding": "embeddings with a rate of their own are not supported",
    "master_addr": DIVIDED_BY_LAUNCHER,
    "master_port": DIVIDED_BY_LAUNCHER,
    "mixture_of_depths": "models with a mixture of depths are not supported",
    "model_max_length": "expected cutoff_len",
    "model_revision": "expected it in the name: model_name_or_path=ORG/NAME@REVISION",
    "offload_folder": "expected stream_layers, which leaves the base in its files",
    "preserve_thinking": "expected think: keep, template or drop",
    "ref_model_quantization_bit": "another reference than the base model is not supported yet",
    "reward_model_adapters": "expected reward with the folder of one reward model",
    "reward_model_quantization_bit": "a reward model is never quantised",
    "shift_attn": "shifted sparse attention is not supported: expected rope_scaling for long rows",
    "train_from_scratch": "models are fine-tuned: expected one with weights",
    "upcast_layernorm": "expected dtype f32, in which all is computed",
    "upcast_lmhead_output": "expected dtype f32, in which all is computed",
    "use_llama_pro": "new blocks are not supported: expected finetuning_type lora or freeze",
    "use_v1_kernels": "expected enable_liger_kernel",
    "apollo_layerwise": "steps in the backward pass are not supported: use badam",
    "badam_mask_mode": "badam's mode ratio is not supported: expected badam_mode layer",
    "badam_update_ratio": "badam's mode ratio is not supported: expected badam_mode layer",
    "galore_layerwise": "steps in the backward pass are not supported: use badam",
    "deepspeed": f"DeepSpeed is not supported: {DIVIDED}",
    "fp16": "float16 training is not supported: expected dtype bf16 or f32",
    "fsdp": f"no such setting: {DIVIDED}",
    "fsdp_config": f"no such setting: {DIVIDED}",
    "kto_ftx": "learning the good answers besides is not supported yet",
    "mask_history": "learning only the last answer is not supported yet",
    "pref_bco_weight": "expected it in pref_loss: sigmoid,bco_pair, with pref_loss_weights",
    "pref_ftx": "expected it in pref_loss: sigmoid,sft, with pref_loss_weights",
    "push_to_hub": "a result stays on this machine until zoo-gym push sends it",
    "pure_bf16": "pure bf16 training is not supported: expected dtype bf16",
    "quantization": "expected 4, 8, nf4, fp4, int8 or {method: bnb, bits: 4} for the base;"
    " bitdelta or deltaquant, with bits or without, for the adapter",
    "quantization_device_map": "a model on several devices is not supported yet",
    "ref_model": "another reference than the base model is not supported yet",
    "ref_model_adapters": "another reference than the base model is not supported yet",
    "resume_from_checkpoint": "expected the command 'zoo-gym runs resume RUN'",
    "reward_weights": "expected weights in reward: {numeric: 1, format: 0.2}",
    "serving": "expected the file in zoo-gym serve --config FILE",
    "streaming": "streamed data is not supported yet",
    "sync_ref_model": "a reference that follows the model is not supported yet",
    "system": "a system prompt for all rows is not supported yet: expected it in the rows",
    "torch_compile": "compiling is not supported: rows of every new length are compiled anew",
    "train_on_prompt": "learning the prompts is not supported yet",
}
"""Keys of published files for unsupported features, with the error message."""

MISSING_PREFIXES = {
    **dict.fromkeys(
        (
            "audio_",
            "crop_to_patches",
            "freeze_language_",
            "freeze_multi_",
            "freeze_vision_",
            "image_",
            "media_dir",
            "use_audio_",
            "video_",
        ),
        SEEING,
    ),
    **dict.fromkeys(("infer_", "sglang_", "vllm_"), OTHER_ENGINE),
    **dict.fromkeys(
        ("hyper_parallel_", "megatron_", "use_hyper_", "use_mca", "use_megatron"),
        f"no such setting: {DIVIDED}",
    ),
    **dict.fromkeys(
        ("kt_", "use_kt"),
        "KTransformers is not supported: expected stream_layers for a base larger than memory",
    ),
    "export_": "a result is exported after training, not by a setting of it",
    "fp8": "fp8 training is not supported: expected dtype bf16 or f32",
    "profile": "profiling is not supported",
    "ray_": "Ray is not supported: expected num_processes",
    "swanlab_": REPORTED,
    "use_swanlab": REPORTED,
    "grpo_": "no such setting: expected the name without grpo_, such as beta",
    "gspo_": "no such setting: expected the name without gspo_, such as beta",
    "ppo_": "no such setting of ppo: expected one of its own, such as beta",
}
"""The same for whole families of keys."""

MISSING_VALUES = (
    {
        ("loss_type", "dft"): "expected use_dft_loss true with stage sft",
        ("finetuning_type", "galore"): "GaLore is an optimizer here: expected finetuning_type full"
        " with use_galore",
        ("finetuning_type", "badam"): "BAdam is an optimizer here: expected finetuning_type full"
        " with use_badam",
        ("finetuning_type", "apollo"): "APOLLO is an optimizer here: expected finetuning_type full"
        " with use_apollo",
        ("finetuning_type", "pissa"): "PiSSA is a start of LoRA: expected finetuning_type lora with"
        " pissa_init true",
        ("finetuning_type", "loftq"): "LoftQ is a start of LoRA: expected finetuning_type lora with"
        " loftq_init true and quantization_bit 4",
        ("finetuning_type", "rslora"): "rsLoRA is a scale of LoRA: expected finetuning_type lora"
        " with use_rslora true",
        ("finetuning_type", "loraplus"): "LoRA+ is a rate of LoRA: expected finetuning_type lora"
        " with loraplus_lr_ratio",
        (
            "finetuning_type",
            "vera",
        ): "VeRA is not supported: its result is exact elsewhere only with"
        " its projections in the file, which make it larger than a LoRA: expected lora",
        ("badam_mode", "ratio"): "masks of single weights are not supported: expected layer",
        ("flash_attn", "fa2"): "expected sdpa, which runs FlashAttention 2 where there is CUDA",
        ("flash_attn", "fa3"): "expected sdpa, which runs FlashAttention 2 where there is CUDA",
        ("reward_model_type", "api"): "a reward from a server is not supported yet",
        (
            "rope_scaling",
            "dynamic",
        ): "its positions change with the longest text: expected linear, yarn or llama3",
    }
    | {
        ("stage", name): f"the method '{name}' is not supported yet: expected {', '.join(METHODS)}"
        for name in ("pt",)
    }
    | {
        ("quantization_method", name): f"{name} {why}: expected bnb"
        for name, why in {
            "aqlm": "is a format of models that are quantised already, which are not trained here",
            "awq": "is a format of models that are quantised already, which are not trained here",
            "eetq": "needs a library that is no longer maintained",
            "fp8": "is a format of models that are quantised already, which are not trained here",
            "gptq": "is a format of models that are quantised already, which are not trained here",
            "hqq": "is not supported",
            "mxfp4": "is a format of models that are quantised already, which are not trained here",
            "quanto": "is not supported",
            "torchao": "is not supported",
        }.items()
    }
)
"""Published values for unsupported features."""

STAGE_OF_LOSS = {"orpo": "orpo", "simpo": "simpo"}
"""LLaMA-Factory's values of `pref_loss` with stage dpo that are methods of their own here."""

OFF = (None, False, "", "none", "no", "false", "null")
"""Values that switch a feature off: that is no error for an unsupported feature."""


def refusal(key: str) -> str | None:
    """Returns the message that refuses `key` by name, or None if it is not a known one."""
    if key in MISSING:
        return MISSING[key]
    return next((text for start, text in MISSING_PREFIXES.items() if key.startswith(start)), None)


def switched_off(value: object) -> bool:
    """Returns whether `value` switches a feature off, as 0 does."""
    return (value.lower() if isinstance(value, str) else value) in OFF
