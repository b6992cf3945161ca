"""Fetches the revealed contributions of a round and decides which of them count.

In the order of their digests, which decides ties. A file that is missing, changed or not allowed is
refused, in the same words on every machine. One that was not stored when the result was computed
may be stored later: so readers take that reason from the log, and compute all others again; nobody
can change a published round afterwards.

Copies of earlier commitments are refused by the exact Gram matrix. Signs that agree in 95 % of the
columns are a copy (honest contributions of one base agreed in 70 to 79 %): a cosine of .90. Plain
values with signs that agree as often have a cosine of .988 if they are normally distributed:
cos(pi * .05).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from zoo.gym.delta.file.reader import Delta
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rounds.arrays import Gram
from zoo.gym.rounds.contribution.check import open_contribution
from zoo.gym.rounds.encodings import Piece
from zoo.gym.rounds.protocol.manifest import Form, Manifest
from zoo.gym.rounds.protocol.objects import Reveal, as_text
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.rules.aggregate import TOO_SHORT, Selection, gram_of, undersized
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import StoredFile, fetch_new
from zoo.gym.signing import PublicKey

Contribution = TypeVar("Contribution")

NOT_STORED = "not stored when the result was computed"


def fetch_revealed(reveal: Reveal, storage: Storage, path: Path) -> None:
    """Fetches a revealed file unless it is there, whole.

    Raises:
        NotAvailableError: it is not stored, or with other bytes.
        StorageError: the storage cannot be read, or the file not be written.
    """
    try:
        fetch_new(StoredFile(reveal.digest, reveal.bytes, reveal.chunks), storage, path)
    except (InputError, NotAvailableError) as error:
        reason = error.message.removeprefix(f"{storage.address}: ")
        raise NotAvailableError(f"{NOT_STORED}: {reason}", code="rounds.not_stored") from None


def fetch_all(
    state: State, storage: Storage, folder: Path, opened: Callable[[Path], Contribution]
) -> tuple[list[tuple[PublicKey, Contribution]], dict[PublicKey, str]]:
    """Fetches what was revealed; files that are in the folder already are not fetched again.

    Args:
        state: of a round, after its reveals are closed.

    Returns:
        The contributions that the round allows, in the order of their digests, of equal ones the
        earlier commitment first; and the reason for which each other one does not count.

    Raises:
        StorageError: the storage cannot be read, or a file not be written: nobody is refused.
    """
    position = {key: number for number, key in enumerate(state.commits)}
    keys = sorted(state.reveals, key=lambda key: (state.reveals[key].digest, position[key]))
    fetched: list[tuple[PublicKey, Contribution]] = []
    refused = refused_by_word(state)
    for key in (key for key in keys if key not in refused):
        reveal = state.reveals[key]
        try:
            fetch_revealed(reveal, storage, folder / reveal.digest)
            fetched.append((key, opened(folder / reveal.digest)))
        except (InputError, NotAvailableError) as error:
            # it may quote what the contributor sent: such an error has no path, and quotes `quoted`
            refused[key] = as_text(error.message)
    return fetched, refused


def refused_by_word(state: State) -> dict[PublicKey, str]:
    """Returns the refusals of files that were not stored: by the word of the log's writer alone."""
    return {
        key: reason
        for key, reason in state.refused.items()
        if reason.startswith(NOT_STORED) and key not in state.gate_refusals
    }


SAME: dict[Form, Fraction] = {
    "signs": Fraction(90, 100),
    "lowrank": Fraction(988, 1000),
    "float": Fraction(988, 1000),
}
"""The cosine from which on a contribution is a copy."""

_NO_CHANGE = "expected a change of the base, got none"


def without_copies(
    gram: Gram, positions: Sequence[int], form: Form, names: Sequence[str]
) -> "tuple[dict[int, str], Gram]":
    """Returns why contributions do not count, by row, and the scalar products of the others.

    One that changes nothing, or nearly nothing, would earn without having worked.

    Args:
        gram: exact scalar products, [n, n, 2].
        positions: of each contribution's commitment in the log.
        names: of their contributors, for the reasons.
    """
    refused = dict.fromkeys(undersized(gram), TOO_SHORT)
    refused |= {row: _NO_CHANGE for row in range(len(gram)) if not gram[row, row].any()}
    for row, original in copies(gram, positions, form, refused).items():
        refused[row] = f"a copy of the contribution of {names[original]}"
    return refused, gram_of(gram, [row for row in range(len(gram)) if row not in refused])


def copies(
    gram: Gram, positions: Sequence[int], form: Form, but: Collection[int] = ()
) -> dict[int, int]:
    """Returns which contribution each copy is one of.

    Args:
        gram, positions: see `without_copies`.
        but: contributions that are refused anyway, which nobody is a copy of.
    """
    from zoo.core.gram import exact_products

    products = exact_products(gram)
    least = SAME[form] ** 2
    matches: dict[int, int] = {}
    originals: list[int] = []
    rows = (row for row in range(len(positions)) if row not in but)
    for row in sorted(rows, key=positions.__getitem__):
        match = next(
            (original for original in originals if _is_copy(products, row, original, least)), None
        )
        if match is None:
            originals.append(row)
        else:
            matches[row] = match
    return matches


def _is_copy(products: list[list[int]], row: int, other: int, least: Fraction) -> bool:
    product, norms = products[row][other], products[row][row] * products[other][other]
    if product <= 0 or not norms:
        return False
    return product * product * least.denominator >= least.numerator * norms


_SHOWN = 3


class Divide(Protocol):
    """Computes with contributions, named by their digests, in several processes."""

    def gram(self, digests: Sequence[str]) -> Gram:
        """Returns their exact scalar products, [n, n, 2]."""
        ...

    def combined(self, selection: Selection, digests: Sequence[str]) -> Iterator[Piece]:
        """Yields the combination that a rule has selected, tensor by tensor."""
        ...


class NoResultError(InputError):
    """What was revealed makes no result, whoever computes it: the round can be made void."""

    def __init__(
        self, manifest: Manifest, message: str, reason: str, refused: Mapping[PublicKey, str]
    ) -> None:
        """Names the round, and the reason for which it may become void."""
        super().__init__(
            f"round {manifest.name}: {message}",
            hint=f"its maker can make the round void: {manifest.command('aggregate', '--yes')}",
            code="rounds.no_result_possible",
        )
        self.refused = refused
        self.reason = reason


class TooFewError(NoResultError):
    """Fewer contributions count than the quorum."""

    def __init__(self, manifest: Manifest, count: int, refused: Mapping[PublicKey, str]) -> None:
        """Says how many count, and why others do not."""
        why = f"; refused {refusals_text(refused)}" if refused else ""
        counts = f"{count} of {manifest.quorum}"
        message = f"expected {manifest.quorum} contributions, got {counts}{why}"
        super().__init__(manifest, message, f"{counts} contributions count", refused)


@dataclass(frozen=True)
class Work:
    """A round that is computed on this machine, after its reveals are closed.

    Attributes:
        folder: keeps what was fetched.
        divide: computes in several processes, see `on_ray`; only this one does if None.
    """

    state: State
    storage: Storage
    folder: Path
    threads: int | None = None
    divide: Divide | None = None


@dataclass(frozen=True)
class Collected:
    """The contributions that the round allows.

    Attributes:
        deltas: in the order of their digests; of equal digests the earlier commitment first.
        keys: who contributed each.
        refused: the reason for each of the others.
    """

    deltas: Sequence[Delta]
    keys: Sequence[PublicKey]
    refused: Mapping[PublicKey, str]

    @property
    def digests(self) -> list[str]:
        """The digests of the files, which `fetch_all` names by them."""
        return [delta.path.name for delta in self.deltas]

    def without(self, refused: Mapping[PublicKey, str]) -> "Collected":
        """Returns the contributions without some that are refused for a reason."""
        rows = [row for row, key in enumerate(self.keys) if key not in refused]
        return Collected(
            [self.deltas[row] for row in rows],
            [self.keys[row] for row in rows],
            {**self.refused, **refused},
        )


def collect(state: State, storage: Storage, folder: Path) -> Collected:
    """Fetches the contributions of a round about weights, see `fetch_all`."""
    fetched, refused = fetch_all(
        state, storage, folder, partial(open_contribution, manifest=state.manifest)
    )
    return Collected([delta for _, delta in fetched], [key for key, _ in fetched], refused)


def refusals_text(refused: Mapping[PublicKey, str]) -> str:
    """Returns the first refusals as text."""
    texts = [f"{key.fingerprint}: {refused[key]}" for key in sorted(refused)[:_SHOWN]]
    rest = len(refused) - len(texts)
    return "; ".join([*texts, f"and {rest} more"] if rest else texts)
