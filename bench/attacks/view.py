"""What an attacker knows: everything that the honest contributors send."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.digits.setting import Setting


@dataclass(frozen=True)
class View:
    """The first f contributors are the attacker's.

    Attributes:
        setting: the round.
        f: how many contributions are malicious.
        seed: of random attacks.
    """

    setting: Setting
    f: int
    seed: int

    @property
    def own(self) -> NDArray[np.float32]:
        """What the attacker's contributors would send if they were honest, [f, D]."""
        return self.setting.honest[: self.f]

    @property
    def honest(self) -> NDArray[np.float32]:
        """What the others send, [n - f, D]."""
        return self.setting.honest[self.f :]

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """The mean of the honest, [D]."""
        mean: NDArray[np.float64] = self.honest.astype("float64").mean(axis=0)
        return mean

    @cached_property
    def spread(self) -> NDArray[np.float64]:
        """Their standard deviation by column, [D]."""
        spread: NDArray[np.float64] = self.honest.astype("float64").std(axis=0)
        return spread

    def all_send(self, delta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns one delta as the contribution of every malicious contributor, [f, D]."""
        return np.repeat(delta[None], self.f, axis=0)


Attack: TypeAlias = Callable[[View], "NDArray[np.floating]"]
"""Returns the malicious contributions, [f, D]."""
