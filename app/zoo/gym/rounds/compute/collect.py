"""Fetches the revealed contributions of a round and decides which of them count.

In the order of their digests, which decides ties. A file that is missing, changed or not allowed is
refused, and so is a copy of an earlier commitment.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from zoo.gym.delta.file.reader import Delta
from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.reasons import fetch_all
from zoo.gym.rounds.contribution.check import open_contribution
from zoo.gym.rounds.contribution.views import views_of
from zoo.gym.rounds.forms.base import Contributions
from zoo.gym.rounds.protocol.manifest import Coding, Manifest
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.signing import PublicKey

_SHOWN = 3

Divide = Callable[[Sequence[Delta], Contributions], Contributions]
"""Makes contributions whose products and combination several processes compute."""


class NoResultError(InputError):
    """What was revealed makes no result, whoever computes it: the round can be made void."""

    def __init__(
        self, manifest: Manifest, said: str, reason: str, refused: Mapping[PublicKey, str]
    ) -> None:
        """Names the round, and the reason for which it may become void."""
        super().__init__(
            f"round {manifest.name}: {said}",
            hint=f"its maker can make the round void: {manifest.command('aggregate', '--yes')}",
        )
        self.refused = refused
        self.reason = reason


class TooFewError(NoResultError):
    """Fewer contributions count than the quorum."""

    def __init__(self, manifest: Manifest, found: int, refused: Mapping[PublicKey, str]) -> None:
        """Says how many count, and why others do not."""
        why = f"; refused {refusals_text(refused)}" if refused else ""
        counts = f"{found} of {manifest.quorum}"
        said = f"expected {manifest.quorum} contributions, got {counts}{why}"
        super().__init__(manifest, said, f"{counts} contributions count", refused)


@dataclass(frozen=True)
class Collected:
    """The contributions whose files are what the round allows.

    Attributes:
        deltas: in the order of their digests; of equal digests the earlier commitment first.
        keys: who contributed each.
        refused: why the files of others do not count.
    """

    deltas: Sequence[Delta]
    keys: Sequence[PublicKey]
    refused: Mapping[PublicKey, str]

    def without(self, refused: Mapping[PublicKey, str]) -> "Collected":
        """Returns the contributions without some that are refused for a reason."""
        kept = [row for row, key in enumerate(self.keys) if key not in refused]
        return Collected(
            [self.deltas[row] for row in kept],
            [self.keys[row] for row in kept],
            {**self.refused, **refused},
        )


def collect(state: State, storage: Storage, folder: Path) -> Collected:
    """Fetches the contributions of a round about weights, see `fetch_all`."""
    found, refused = fetch_all(
        state, storage, folder, partial(open_contribution, manifest=state.manifest)
    )
    return Collected([delta for _, delta in found], [key for key, _ in found], refused)


def refusals_text(refused: Mapping[PublicKey, str]) -> str:
    """Returns the first refusals as text."""
    shown = [f"{key.fingerprint}: {refused[key]}" for key in sorted(refused)[:_SHOWN]]
    rest = len(refused) - len(shown)
    return "; ".join([*shown, f"and {rest} more"] if rest else shown)


def in_form(
    deltas: Sequence[Delta], manifest: Coding, divide: Divide | None = None
) -> Contributions:
    """Returns the contributions as the rules see them: views of the mapped files.

    Args:
        deltas: their files.
        manifest: what decided their bytes.
        divide: lets several processes compute; only this one if None.

    Raises:
        InputError: there are none.
    """
    if not deltas:
        raise InputError("contributions: expected at least 1, got 0")
    found = views_of(deltas, manifest)
    return found if divide is None else divide(deltas, found)
