"""The training loop, its data, its plan and its result.

`run_sft` is the published function of this name; see `zoo.gym.published.hparams`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.gym.published.hparams import run_sft as run_sft

__all__ = ["run_sft"]


def __getattr__(name: str) -> object:
    if name == "run_sft":
        from zoo.gym.published.hparams import run_sft

        return run_sft
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
