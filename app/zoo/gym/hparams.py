"""The published module of `get_train_args` and `run_sft`, which are those of `zoo.gym`."""

from zoo.gym.published.hparams import get_train_args, run_sft

__all__ = ["get_train_args", "run_sft"]
