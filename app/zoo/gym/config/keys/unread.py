"""What the values of other settings leave unread: an adapter's under another, a schedule's ...

A given one is refused by name, whatever its value, and stored settings leave it out. Methods add
theirs in `TrainConfig.unread`.
"""

from typing import TYPE_CHECKING

from zoo.gym.config.keys.optimizer import READ_BY_OPTIMIZERS
from zoo.gym.config.tuning import unread_by_tuning

if TYPE_CHECKING:
    from zoo.gym.config.train import TrainConfig

QUANTIZATION = ("quantization_method", "quantization_type", "double_quantization")
"""Settings that need `quantization_bit`."""

ROWS_IN_MEMORY = "(rows given in Python)"
"""The value of `dataset` if rows were given; a run stores them in a file of its own."""


def unread_settings(config: "TrainConfig") -> dict[str, str]:
    """Returns why nothing reads a setting, by key, of those that all methods have."""
    return {
        **unread_by_tuning(config),
        **_by_optimizer(config),
        **_by_codes(config),
        **_by_data(config),
    }


def _by_optimizer(config: "TrainConfig") -> dict[str, str]:
    name = config.optim
    unread = {
        key: f"has no effect with optim {name}: expected optim {' or '.join(names)}"
        for key, names in READ_BY_OPTIMIZERS.items()
        if name not in names
    }
    if name == "badam":
        text = "has no effect with optim badam, which trains layers alone: expected another optim"
        unread["freeze_extra_modules"] = text
        if config.badam_switch_mode == "fixed":
            text = "has no effect with badam_switch_mode fixed, which trains a single layer"
            unread["badam_switch_interval"] = text
    return unread


def _by_codes(config: "TrainConfig") -> dict[str, str]:
    if config.quantization_bit is None:
        text = "has no effect without quantization_bit: expected quantization_bit too"
        return dict.fromkeys(QUANTIZATION, text)
    if config.quantization_method == "mlx":
        text = "has no effect with quantization_method mlx: expected bnb"
    elif config.quantization_bit == 8:
        text = "has no effect with quantization_bit 8: expected quantization_bit 4"
    else:
        return {}
    return dict.fromkeys(QUANTIZATION[1:], text)


def _by_data(config: "TrainConfig") -> dict[str, str]:
    unread: dict[str, str] = {}
    if config.eval_dataset:
        unread["val_size"] = "has no effect with eval_dataset, whose rows are held out"
    elif config.val_size == 0:
        why = "has no effect without held-out rows: val_size is 0"
        unread |= dict.fromkeys(("eval_steps", "early_stopping_steps"), why)
    if config.dataset == (ROWS_IN_MEMORY,):
        unread["dataset_dir"] = "has no effect on rows: expected names of files in dataset"
    if config.lr_scheduler_type != "wsd":
        unread["decay_ratio"] = "has no effect without lr_scheduler_type wsd"
    if config.mix_strategy == "concat":
        expected = "expected mix_strategy interleave_under or interleave_over"
        unread["interleave_probs"] = f"has no effect with mix_strategy concat: {expected}"
    return unread
