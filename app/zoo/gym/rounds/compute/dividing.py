"""Lets other processes compute parts of a round: what `round aggregate` and `round work` share."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zoo.gym.delta.file.reader import Delta
from zoo.gym.rounds.compute.collect import Divide, collect, in_form
from zoo.gym.rounds.forms.base import Contributions
from zoo.gym.rounds.protocol.manifest import Base, Caps, Coding, Form, Manifest, Tensor
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.work.divided import Divided, DividedContributions, Watch
from zoo.gym.rounds.work.jobs import MissingFileError, Parts
from zoo.gym.rounds.work.worker import Open
from zoo.gym.signing import PublicKey


@dataclass(frozen=True)
class _Part:
    """Some tensors of a round, see `Coding`."""

    base: Base
    tensors: tuple[Tensor, ...]
    form: Form
    caps: Caps


@dataclass
class RoundParts:
    """Some tensors of a round's contributions, whose files are fetched when they are needed first.

    Attributes:
        look: returns the state of the round, as it is now.
        storage: where the files are.
        folder: of the round on this machine.
    """

    look: Callable[[], State]
    storage: Storage
    folder: Path
    _state: State | None = None
    _deltas: dict[str, Delta] = field(default_factory=dict[str, Delta])
    _refused: Mapping[PublicKey, str] = field(default_factory=dict[PublicKey, str])

    def __call__(self, digests: Sequence[str], names: Sequence[str]) -> Contributions:
        """Returns some tensors of the contributions with these digests, in this order.

        Raises:
            MissingFileError: the file of one is missing or not allowed, also after another look at
                the round.
        """
        state = self._state
        if state is None or not self._deltas.keys() >= set(digests):
            state = self._fetch()
        missing = next((one for one in digests if one not in self._deltas), None)
        if missing is not None:
            raise self._missing(missing, state)
        return in_form([self._deltas[one] for one in digests], _part(state.manifest, names))

    def _fetch(self) -> State:
        state = self._state = self.look()
        found = collect(state, self.storage, self.folder)
        self._deltas = {_digest(delta): delta for delta in found.deltas}
        self._refused = found.refused
        return state

    def _missing(self, digest: str, state: State) -> MissingFileError:
        keys = [key for key, reveal in state.reveals.items() if reveal.digest == digest]
        reasons = [self._refused[key] for key in keys if key in self._refused]
        why = reasons[0] if reasons else f"nobody revealed it in a round in phase {state.phase}"
        verify = state.manifest.command("verify", word=shlex.quote(self.storage.address))
        return MissingFileError(
            f"contribution {digest[:12]}: expected its file at {self.storage.address}, got none: "
            f"{why}",
            hint="every worker needs the round that `round aggregate` computes, with all files: "
            f"{verify} shows what is missing",
        )


def dividing(
    open_queue: Open, state: State, parts: Parts, watch: Watch, threads: int | None
) -> Divide:
    """Returns what divides the contributions of a round over a queue."""
    engine = Divided(open_queue, state.id, state.manifest.tensors, parts, threads, watch=watch)

    def divide(deltas: Sequence[Delta], contributions: Contributions) -> Contributions:
        return DividedContributions(contributions, [_digest(delta) for delta in deltas], engine)

    return divide


def _digest(delta: Delta) -> str:
    """Returns the digest by which the file of a contribution was revealed, see `collect`."""
    return delta.path.name


def _part(manifest: Manifest, names: Sequence[str]) -> Coding:
    wanted = set(names)
    tensors = tuple(tensor for tensor in manifest.tensors if tensor.name in wanted)
    return _Part(manifest.base, tensors, manifest.form, manifest.caps)
