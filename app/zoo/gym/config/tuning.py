"""What each kind of training reads of the settings of adapters, and which contradict each other."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.gym.config.train import TrainConfig

LORA = ("lora", "dora")
"""The values of `finetuning_type` that train low-rank factors."""

OFT = ("oft",)
"""The value of `finetuning_type` that trains rotations."""

IN_PLACE = ("full", "freeze")
"""The values of `finetuning_type` that train weights of the base, without an adapter."""

READ_BY = {
    "adapter_name_or_path": ("lora",),
    "create_new_adapter": (*LORA, *OFT),
    "lora_rank": LORA,
    "lora_alpha": LORA,
    "lora_dropout": LORA,
    "lora_target": LORA,
    "lora_fixed_a": ("lora",),
    "base_identity": ("lora",),
    "delta_bits": ("lora",),
    "use_dora": LORA,
    "oft_rank": OFT,
    "oft_block_size": OFT,
    "oft_target": OFT,
    "module_dropout": OFT,
    "additional_target": (*LORA, *OFT),
    "freeze_trainable_layers": ("freeze",),
    "freeze_trainable_modules": ("freeze",),
    "freeze_extra_modules": ("freeze",),
    "use_rslora": LORA,
    "pissa_init": LORA,
    "pissa_iter": LORA,
    "loftq_init": LORA,
    "loraplus_lr_ratio": LORA,
}
"""The values of `finetuning_type` that read a setting."""


OF_START = ("pissa_init", "pissa_iter", "additional_target", "lora_fixed_a", "base_identity")
"""Settings of adapters that begin with the training."""

MERGE = "zoo-gym delta create ADAPTER, then zoo-gym delta apply"
"""How a base gets an adapter merged."""

NAMES = (
    ("lora_target", "layers"),
    ("oft_target", "layers"),
    ("freeze_trainable_modules", "modules"),
    ("galore_target", "modules"),
    ("apollo_target", "modules"),
)
"""Settings that are all or names, and of what."""


def unread_by_tuning(config: "TrainConfig") -> dict[str, str]:
    """Returns why nothing reads a setting of adapters or of `freeze`, by key."""
    kind, unread = config.finetuning_type, dict[str, str]()
    for key, kinds in READ_BY.items():
        if kind not in kinds and getattr(config, key) is not False:
            text = f"has no effect with finetuning_type {kind}"
            unread[key] = f"{text}: expected finetuning_type {_or(kinds)}"
    if kind in LORA and not config.pissa_init:
        unread["pissa_iter"] = "has no effect without pissa_init"
    if kind == "lora" and config.lora_fixed_a is None:
        unread["base_identity"] = "has no effect without lora_fixed_a"
    if config.adapter_name_or_path is not None:
        text = "has no effect with adapter_name_or_path, whose own settings are used"
        unread |= dict.fromkeys(OF_START, text)
        unread["delta_bits"] = (
            "has no effect with adapter_name_or_path: an adapter that is trained further is not "
            "coded in few bits"
        )
    if kind == "oft" and config.oft_rank:
        text = f"expected 0 with oft_rank {config.oft_rank}, got {config.oft_block_size}"
        unread["oft_block_size"] = text
    if kind == "freeze" and not config.freeze_trainable_layers:
        unread["freeze_trainable_modules"] = "has no effect with freeze_trainable_layers 0"
    return unread


def faults_of_tuning(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns (key, message) for settings of adapters that contradict each other."""
    kind, faults = config.finetuning_type, list[tuple[str, str]]()
    if config.create_new_adapter and config.adapter_name_or_path is not None:
        merged = "the result would be for a base with that adapter merged, which is in no file"
        text = f"cannot be with adapter_name_or_path: {merged}: make that base first, by {MERGE}"
        faults.append(("create_new_adapter", text))
    if kind in IN_PLACE and config.dtype.startswith("bf16"):
        text = f"has no effect with finetuning_type {kind}, which trains float32 weights"
        faults.append(("dtype", text))
    if kind == "dora" and config.use_dora is False:
        faults.append(("use_dora", "expected true with finetuning_type dora, got false"))
    if config.pissa_init and config.dora:
        faults.append(("pissa_init", "expected false with DoRA, whose magnitudes are of the base"))
    if config.loftq_init:
        faults += _faults_of_loftq(config)
    faults += _faults_of_fixed(config) + _faults_of_coded(config)
    if config.additional_target is not None:
        faults += _faults_of_whole(config, config.additional_target)
    if kind == "oft":
        faults += _faults_of_rotations(config)
    if kind == "freeze" and not config.freeze_trainable_layers:
        faults += _faults_of_no_layers(config)
    for key, noun in NAMES:
        names = [part.strip() for part in getattr(config, key).split(",")]
        if "all" in names and len(names) > 1:
            faults.append((key, f"expected all or names of {noun}, got {getattr(config, key)}"))
    return faults


def _faults_of_whole(config: "TrainConfig", tuning: str) -> list[tuple[str, str]]:
    if config.stage == "rm":
        text = "cannot be with stage rm, whose result has the adapter merged into the base"
        return [("additional_target", text)]
    key = "oft_target" if config.finetuning_type == "oft" else "lora_target"
    adapted = {part.strip() for part in getattr(config, key).split(",")}
    both = [part.strip() for part in tuning.split(",") if part.strip() in adapted]
    text = f"expected modules without an adapter, got one that {key} names, too"
    return [("additional_target", f"{text}: {name}") for name in both[:1]]


def _not_plain(config: "TrainConfig") -> list[str]:
    """Returns the settings of an adapter that is more than two factors for each layer."""
    stated = {
        "use_dora": config.dora,
        "pissa_init": config.pissa_init,
        "loftq_init": config.loftq_init,
        "additional_target": config.additional_target is not None,
    }
    return [key for key, is_stated in stated.items() if is_stated]


def _faults_of_fixed(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns what would train or replace factors that everybody has alike."""
    if config.lora_fixed_a is None:
        return []
    text = "cannot be with lora_fixed_a, which trains the factors B alone"
    faults = [(key, text) for key in _not_plain(config)]
    if config.base_identity is not None and config.lora_target == "all":
        faults.append(("base_identity", "expected names of layers in lora_target, got all"))
    if config.stage == "rm":
        faults.append(("lora_fixed_a", "cannot be with stage rm, whose result is a whole model"))
    return faults


def _faults_of_coded(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns what no delta of factors in few bits carries, or computes them in another way."""
    if config.delta_bits is None:
        return []
    text = "cannot be with delta_bits, which codes the factors of a plain adapter"
    faults = [(key, text) for key in _not_plain(config)]
    if config.lora_fixed_a is not None:
        faults.append(("lora_fixed_a", text))
    if config.stage == "rm":
        faults.append(("delta_bits", "cannot be with stage rm, whose result is a whole model"))
    if config.sharding != "none":
        text = "cannot be with sharding full: a group of values that share a scale would be divided"
        faults.append(("delta_bits", text))
    return faults


def _faults_of_loftq(config: "TrainConfig") -> list[tuple[str, str]]:
    if config.quantization_bit != 4:
        text = "expected false without quantization_bit 4, whose loss it starts from"
        return [("loftq_init", text)]
    if config.dora:
        return [("loftq_init", "expected false with DoRA, whose magnitudes are of the base")]
    if config.pissa_init:
        return [("loftq_init", "expected false with pissa_init, which is another start")]
    return []


def _faults_of_rotations(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns what is wrong with the size of blocks where it does not follow from their number."""
    rank, size = config.oft_rank, config.oft_block_size
    if not rank and size < 2:
        return [("oft_block_size", f"expected 2 or more without oft_rank, got {size}")]
    return []


def _faults_of_no_layers(config: "TrainConfig") -> list[tuple[str, str]]:
    if config.freeze_extra_modules is None:
        text = "expected a number other than 0 without freeze_extra_modules, got 0"
        return [("freeze_trainable_layers", text)]
    return []


def _or(names: tuple[str, ...]) -> str:
    """Returns `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
