"""The reference of an adapter's policy: the same model with the adapter disabled."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from zoo.backends.base import Batch, Rollout, Sampling, Scorer, Stat
from zoo.backends.torch.adapters import start
from zoo.backends.torch.loss import DeviceBatch, LossModule, Teacher

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.torch.policy import TorchPolicy


class ReferencePolicy(Scorer):
    """A policy with its adapter disabled, for scoring and as a teacher."""

    def __init__(self, policy: "TorchPolicy") -> None:
        self._policy, self.divided = policy, policy.divided

    @property
    def module(self) -> LossModule:
        """The module of the policy."""
        return self._policy.module

    def _off(self) -> AbstractContextManager[None]:
        assert self._policy.peft_model is not None
        return start.as_before_training(self._policy.peft_model)

    def score(
        self,
        batch: Batch,
        needs: frozenset[Stat],
        *,
        teacher: Scorer | None = None,
        key: int | None = None,
    ) -> "dict[Stat, NDArray[np.float32]]":
        """Returns each statistic of the base model; see `Policy.score`."""
        with self._off():
            return self._policy.score(batch, needs, teacher=teacher, key=key)

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, *, keys: Sequence[int]
    ) -> list[Rollout]:
        """Continues each prompt with the base model; see `Policy.generate`."""
        with self._off():
            return self._policy.generate(prompts, sampling, keys=keys)

    def logits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Returns the base model's logits; see `Policy.logits`."""
        with self._off():
            return self._policy.logits(ids)

    def hidden_and_head(self, batch: DeviceBatch) -> Teacher:
        """Returns the base model's hidden states at the learned tokens."""
        with self._off():
            return self._policy.hidden_and_head(batch)
