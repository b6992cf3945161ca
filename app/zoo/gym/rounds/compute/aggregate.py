"""Computes the result of a round and its report; the same files for everybody.

Nothing is written to the round here: the log's writer publishes what this returns (`publish`), and
whoever verifies the round compares with it (`verify`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from zoo.gym.delta.file.reader import Delta
from zoo.gym.errors import InputError
from zoo.gym.files import write_beside
from zoo.gym.rounds.compute.collect import Collected, collect, in_form
from zoo.gym.rounds.compute.copies import copies
from zoo.gym.rounds.compute.report import Report
from zoo.gym.rounds.compute.result import write_result
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.rewards.points import share_out
from zoo.gym.rounds.rules.aggregate import Selection, combine, gram_of, select
from zoo.gym.rounds.rules.method import Rule, takes_given
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import describe
from zoo.gym.signing import PublicKey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Computed:
    """A result that was computed on this machine.

    Attributes:
        delta: its file.
        report: what it was made of.
        gram: the bytes of the Gram matrix.
    """

    delta: Delta
    report: Report
    gram: bytes


def compute(
    state: State, storage: Storage, folder: Path, *, threads: int | None = None
) -> Computed:
    """Computes the result of a round whose reveals are closed.

    Args:
        state: of the round.
        storage: where the chunks are.
        folder: of the round on this machine; keeps what was fetched.
        threads: number of threads; all if None.

    Raises:
        InputError: fewer contributions count than the quorum, or than the rule needs.
        StorageError: a file cannot be read or written.
    """
    collected, gram = _without_copies(collect(state, storage, folder), state, threads)
    found, quorum = len(collected.deltas), state.manifest.quorum
    if found < quorum:
        raise InputError(
            f"round {state.manifest.name}: expected {quorum} contributions, got {found} of {quorum}"
        )
    rule = state.manifest.rule(found)
    contributions = in_form(collected.deltas, state.manifest)
    given = _given(rule, collected, state)
    selection = select(rule, contributions, given, gram=gram, threads=threads)
    recipe: dict[str, JsonValue] = {"round": state.id, "rule": dict(_described(selection.rule))}
    pieces = combine(selection, contributions, threads=threads)
    delta = write_result(pieces, state.manifest, recipe, folder / "result.safetensors")
    return Computed(delta, _report(state, collected, selection, delta, gram), _as_bytes(gram))


def _without_copies(
    collected: Collected, state: State, threads: int | None
) -> "tuple[Collected, NDArray[np.uint64]]":
    """Refuses copies of earlier commitments; returns the others and their Gram matrix."""
    import numpy as np

    if not collected.deltas:
        return collected, np.zeros((0, 0, 2), np.uint64)
    order = {key: number for number, key in enumerate(state.commits)}
    gram = in_form(collected.deltas, state.manifest).gram(threads=threads)
    positions = [order[key] for key in collected.keys]
    found = copies(gram, positions, state.manifest.form)
    refused = dict(collected.refused)
    for row, original in found.items():
        said = collected.keys[original].fingerprint
        refused[collected.keys[row]] = f"a copy of the contribution of {said}, which came first"
    kept = [row for row in range(len(collected.keys)) if row not in found]
    others = Collected(
        [collected.deltas[row] for row in kept], [collected.keys[row] for row in kept], refused
    )
    return others, gram_of(gram, kept)


def _given(rule: Rule, collected: Collected, state: State) -> "NDArray[np.float32] | None":
    """Returns what a rule weighs contributions by beside themselves."""
    import numpy as np

    what = takes_given(rule.method)
    if not what:
        return None
    if what == "reputations":
        raise InputError(f"{rule.method.value}: expected reputations, which this round has none of")
    return np.array([state.reveals[key].examples for key in collected.keys], np.float32)


def _report(
    state: State,
    collected: Collected,
    selection: Selection,
    delta: Delta,
    gram: "NDArray[np.uint64]",
) -> Report:
    from zoo.core import digest

    refused = dict(collected.refused)
    refused |= {collected.keys[row]: reason for row, reason in selection.refused.items()}
    weighing = selection.weighing
    return Report(
        round=state.id,
        rule=_described(selection.rule),
        contributions=[(key, state.reveals[key].digest) for key in collected.keys],
        refused=refused,
        weights=_weights(selection, len(collected.keys)),
        rest=0.0 if weighing is None else float(weighing.rest),
        points=_points(state, collected, selection),
        gram=digest(_as_bytes(gram)),
        result=describe(delta.path)[0],
    )


def _points(state: State, collected: Collected, selection: Selection) -> dict[PublicKey, int]:
    """Shares the pool out by weight; who has none, as of a refused contribution, gets nothing."""
    count = len(collected.keys)
    weights = _weights(selection, count)
    if weights is None:
        weights = [float(row in selection.kept) for row in range(count)]
    names = [str(key) for key in collected.keys]
    points = share_out(dict(zip(names, weights, strict=True)), state.manifest.pool)
    return {key: points[name] for key, name in zip(collected.keys, names, strict=True)}


def _weights(selection: Selection, count: int) -> list[float] | None:
    """Returns the weight of each contribution that was seen; 0 for refused ones."""
    if selection.weighing is None:
        return None
    found = [0.0] * count
    for row, weight in zip(selection.kept, selection.weighing.weights, strict=True):
        found[row] = float(weight)
    return found


def _described(rule: Rule) -> dict[str, str | int | bool]:
    return {"method": rule.method.value, "f": rule.f, "mixed": rule.mixes}


def _as_bytes(gram: "NDArray[np.uint64]") -> bytes:
    return gram.astype("<u8", copy=False).tobytes()


def save_report(computed: Computed, folder: Path) -> Path:
    """Writes the report beside the result and returns its path.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / "report.json"
    write_beside(path, computed.report.as_bytes().decode(), sync=True)
    return path
