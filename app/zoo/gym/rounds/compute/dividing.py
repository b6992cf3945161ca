"""Lets other processes compute parts of a round: what `round aggregate` and `round work` share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zoo.gym.delta.file.reader import Delta
from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.collect import Divide, collect, in_form
from zoo.gym.rounds.forms.base import Contributions
from zoo.gym.rounds.protocol.manifest import Base, Caps, Coding, Form, Manifest, Tensor
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.work.divided import Divided, DividedContributions, Watch
from zoo.gym.rounds.work.jobs import Parts
from zoo.gym.rounds.work.worker import Open


@dataclass(frozen=True)
class _Part:
    """Some tensors of a round, see `Coding`."""

    base: Base
    tensors: tuple[Tensor, ...]
    form: Form
    caps: Caps


@dataclass
class RoundParts:
    """Some tensors of a round's contributions, whose files are fetched once.

    Attributes:
        state: of the round.
        storage: where the files are.
        folder: of the round on this machine.
    """

    state: State
    storage: Storage
    folder: Path
    _deltas: dict[str, Delta] = field(default_factory=dict[str, Delta])

    def __call__(self, digests: Sequence[str], names: Sequence[str]) -> Contributions:
        """Returns some tensors of the contributions with these digests, in this order.

        Raises:
            InputError: the file of one is missing or not allowed.
        """
        if not self._deltas:
            found = collect(self.state, self.storage, self.folder)
            self._deltas = {delta.digest: delta for delta in found.deltas}
        missing = next((one for one in digests if one not in self._deltas), None)
        if missing is not None:
            raise InputError(
                f"contribution {missing[:12]}: expected its file, which is refused here"
            )
        return in_form([self._deltas[one] for one in digests], _part(self.state.manifest, names))


def dividing(
    open_queue: Open, state: State, parts: Parts, watch: Watch, threads: int | None
) -> Divide:
    """Returns what divides the contributions of a round over a queue."""
    engine = Divided(open_queue, state.id, state.manifest.tensors, parts, threads, watch=watch)

    def divide(deltas: Sequence[Delta], contributions: Contributions) -> Contributions:
        return DividedContributions(contributions, [delta.digest for delta in deltas], engine)

    return divide


def _part(manifest: Manifest, names: Sequence[str]) -> Coding:
    wanted = set(names)
    tensors = tuple(tensor for tensor in manifest.tensors if tensor.name in wanted)
    return _Part(manifest.base, tensors, manifest.form, manifest.caps)
