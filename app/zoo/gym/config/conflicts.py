"""Settings of a run that contradict each other, or are given and read by nothing."""

from typing import TYPE_CHECKING

from zoo.backends.optimizer_spec import ELEMENTWISE
from zoo.gym.config.keys.optimizer import ONLY_IN_PLACE
from zoo.gym.config.tuning import IN_PLACE, READ_BY, faults_of_tuning
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from zoo.gym.config.train import TrainConfig

PAIRS = (("max_steps", "num_train_epochs"), ("warmup_steps", "warmup_ratio"))
"""Pairs of settings for the same thing; the first wins if both are set."""

LEAST_SHARE = 0.001
"""A smaller share of a file would hardly be drawn, or repeat the others endlessly."""


def disagreements(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns (key, message) for each setting that conflicts with others."""
    stated = config.given
    faults = [(key, text) for key, text in config.unread().items() if key in stated]
    faults += faults_of_tuning(config)
    faults += _faults_of_optimizer(config)
    faults += _faults_of_quantization(config)
    faults += _faults_of_streaming(config)
    faults += _faults_of_rope(config)
    faults += _faults_of_offloading(config)
    faults += _faults_of_sharding(config)
    if config.val_size >= 1 and config.val_size != int(config.val_size):
        text = f"expected a share below 1 or a whole number of rows, got {config.val_size:g}"
        faults.append(("val_size", text))
    faults += _faults_of_mix(config)
    return faults + _faults_of_schedule(config)


def _faults_of_schedule(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns a warm-up that never ends, or that ends in the decay of wsd."""
    warmup, steps, ratio = config.warmup_steps, config.max_steps, config.decay_ratio
    if warmup is None or steps is None:
        share = config.warmup_ratio or 0.0
        if ratio is not None and warmup is None and share + ratio > 1:
            text = f"expected at most {1 - share:g} with warmup_ratio {share:g}, got {ratio:g}"
            return [("decay_ratio", text)]
        return []
    if warmup >= steps:
        return [("warmup_steps", f"expected less than max_steps {steps}, got {warmup}")]
    # both are rounded up, so together they may be one step longer than the run
    if ratio is not None and warmup + ratio * steps > steps + 1:
        most = f"expected at most {(steps - warmup) / steps:g}"
        return [("decay_ratio", f"{most} with {warmup} warm-up steps of {steps}, got {ratio:g}")]
    return []


def _faults_of_optimizer(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns an optimizer for weights of the base that trains an adapter, and what is for one."""
    name, faults = config.optim, list[tuple[str, str]]()
    if name in ONLY_IN_PLACE and config.trains_adapter:
        text = f"{name} trains weights of the base: expected finetuning_type full or freeze"
        faults.append(("optim", f"{text}, got {config.finetuning_type}"))
        text = f"cannot be with optim {name}, which trains weights of the base"
        faults += [(key, text) for key in _for_adapters_alone(config)]
    return faults


def hint_of_optimizer(config: "TrainConfig") -> str | None:
    """Returns how to train with an optimizer for weights of the base, if an adapter is asked for.

    Every setting that has to go is named, or the other way: an optimizer for adapters.
    """
    if config.optim not in ONLY_IN_PLACE or not config.trains_adapter:
        return None
    for_adapters = _for_adapters_alone(config)
    leave = f" without {', '.join(for_adapters)}" if for_adapters else ""
    return f"finetuning_type=full{leave}; or leave optim out to train an adapter"


def _for_adapters_alone(config: "TrainConfig") -> list[str]:
    """Returns the given settings that only an adapter reads."""
    of_base = {"quantization_bit": config.quantization_bit, "stream_layers": config.stream_layers}
    of_adapter = (key for key, kinds in READ_BY.items() if not set(kinds) & set(IN_PLACE))
    return [key for key, is_given in of_base.items() if is_given] + [
        key for key in of_adapter if key in config.given and getattr(config, key) is not False
    ]


def _faults_of_quantization(config: "TrainConfig") -> list[tuple[str, str]]:
    if config.quantization_bit is None:
        return []
    faults: list[tuple[str, str]] = []
    if not config.trains_adapter:
        kind = config.finetuning_type
        text = f"cannot be with finetuning_type {kind}, which trains weights of the base"
        faults.append(("quantization_bit", f"{text}: expected lora, dora or oft"))
    elif config.stage == "rm":
        text = "cannot be with stage rm, whose result has the adapter merged into the base"
        faults.append(("quantization_bit", text))
    if config.quantization_method != "mlx" and config.quantization_bit == 8:
        faults += _readers_of_codes(config)
    return faults


def _readers_of_codes(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns the adapters that bitsandbytes' codes of 8 bits cannot have; MLX widens its own."""
    from zoo.backends.machine.detect import is_mlx

    if config.quantization_method is None and is_mlx(
        None if config.backend == "auto" else config.backend
    ):
        return []
    reads = {
        "finetuning_type": config.finetuning_type == "dora",
        "use_dora": config.use_dora,
        "pissa_init": config.pissa_init,
    }
    text = "reads the weights of the base: expected quantization_bit 4, got 8"
    return [(key, text) for key, is_given in reads.items() if is_given]


def _faults_of_streaming(config: "TrainConfig") -> list[tuple[str, str]]:
    if not config.stream_layers:
        return []
    if not config.keeps_base:
        text = f"expected an adapter, whose base does not change, got {config.finetuning_type}"
        return [("stream_layers", text)]
    if config.stage == "rm":
        text = "cannot be with stage rm, whose result has the adapter merged into the base"
        return [("stream_layers", text)]
    if config.quantization_bit is not None:
        text = "cannot be with stream_layers, which leaves the base as it is in its files"
        return [("quantization_bit", text)]
    if config.gradient_checkpointing is False:
        text = "expected true with stream_layers: activations would keep every layer in memory"
        return [("gradient_checkpointing", text)]
    return []


def _faults_of_offloading(config: "TrainConfig") -> list[tuple[str, str]]:
    if config.activation_offloading and config.gradient_checkpointing is False:
        text = "expected true with activation_offloading: it moves what activations are computed of"
        return [("gradient_checkpointing", text)]
    return []


def _faults_of_sharding(config: "TrainConfig") -> list[tuple[str, str]]:
    """Returns the settings that a model divided among processes cannot have."""
    if config.sharding == "none":
        return []
    faults: list[tuple[str, str]] = []
    if config.optim not in ELEMENTWISE:
        text = f"needs whole matrices: expected {', '.join(ELEMENTWISE)} with sharding full"
        faults.append(("optim", f"{config.optim} {text}"))
    if config.quantization_bit is not None:
        text = "cannot be with sharding full: the scales of its codes would not be divided"
        faults.append(("quantization_bit", text))
    for key in ("stream_layers", "enable_liger_kernel", "activation_offloading"):
        if getattr(config, key):
            faults.append((key, "cannot be with sharding full, which it was not tried with"))
    return faults


def require_processes(config: "TrainConfig") -> None:
    """Checks that there are processes to divide a model among.

    Raises:
        InputError: there is one.
    """
    if config.sharding != "none" and config.num_processes == 1:
        raise InputError(
            f"sharding: expected none with one process, got {config.sharding}",
            hint="num_processes=2, or torchrun --nproc-per-node 2 -m zoo.gym train ...",
            code="config.one_process",
        )


def _faults_of_rope(config: "TrainConfig") -> list[tuple[str, str]]:
    if config.rope_scaling is None:
        return []
    if config.trains_adapter:
        text = (
            f"cannot be with finetuning_type {config.finetuning_type}, whose result has no config: "
            "expected full or freeze, or a base whose config.json has rope_parameters"
        )
        return [("rope_scaling", text)]
    if config.stage == "rm":
        return [("rope_scaling", "cannot be with stage rm: expected a stage without a score")]
    return []


def _faults_of_mix(config: "TrainConfig") -> list[tuple[str, str]]:
    if config.interleave_probs is None or config.mix_strategy == "concat":
        return []
    shares = config.shares
    if shares and min(shares) >= LEAST_SHARE and abs(sum(shares) - 1) < 1e-6:
        return []
    text = f"expected numbers of at least {LEAST_SHARE} that add up to 1"
    return [("interleave_probs", f"{text}, got '{config.interleave_probs}'")]
