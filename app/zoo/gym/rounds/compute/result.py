"""The files of a result: the combined change as a delta, and the report that explains it.

Matrices are coded in 8 bits, groups of 128 (measured: 99.6 % of the gain is kept); vectors are
stored as plain differences. Factors stay factors, stacked and weighted, where they are smaller.

The report is all that a stranger needs to check the result, as canonical JSON. It lists the
contributions in the order of their digests, the weight of each, why others do not count, and the
digest of their Gram matrix, which is stored beside it: n * n scalar products of 16 bytes each, row
by row, two's complement, little endian, in units of 2^-80.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.codecs.tensor import Encoded, encode_tensor
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.reader import Delta, load_delta
from zoo.gym.delta.file.terms import TensorTerms
from zoo.gym.delta.file.writer import Spool, write_delta
from zoo.gym.errors import InputError
from zoo.gym.files import json_object
from zoo.gym.rounds.arrays import F32
from zoo.gym.rounds.contribution.check import round_header
from zoo.gym.rounds.encodings import Piece
from zoo.gym.rounds.protocol.manifest import Coding, Tensor
from zoo.gym.rounds.protocol.objects import is_hex
from zoo.gym.rounds.storage.chunks import StoredFile
from zoo.gym.signing import PublicKey, canonical

FORMAT = "zoo-gym round report 1"
BY_WEIGHT = "weight"
"""How points are shared out where nothing was measured on held-out examples."""

AUMANN_SHAPLEY = "aumann_shapley"
"""How they are shared out where it was: see `zoo.gym.rounds.measure.losses`."""


@dataclass(frozen=True)
class Report:
    """What a result was made of.

    Attributes:
        rule: method, f and mixed, as they were used.
        contributions: key and digest of each that is no copy, in the order of the Gram matrix.
        refused: the reason for each key that does not count.
        weights: of the contributions; none for rules that work column by column.
        rest: the weight of no change.
        refit: what the result was multiplied by; None without a re-fit.
        paid_by: how the pool is shared out.
        newcomers: those on whom the cap is; None if it is on nobody, as all are new.
        standings: BLAKE3 of the standings after the round.
        gram: BLAKE3 of the Gram matrix.
    """

    round: str
    rule: Mapping[str, Any]
    contributions: Sequence[tuple[PublicKey, str]]
    refused: Mapping[PublicKey, str]
    weights: Sequence[float] | None
    rest: float
    refit: float | None
    paid_by: str
    points: Mapping[PublicKey, int]
    newcomers: Sequence[PublicKey] | None
    standings: str
    gram: str
    result: StoredFile

    @property
    def counted(self) -> Sequence[PublicKey]:
        """The keys that count: no copies, and none that the rule refused."""
        return [key for key, _ in self.contributions if key not in self.refused]

    def as_bytes(self) -> bytes:
        """Returns the report as it is stored."""
        weights, newcomers = self.weights, self.newcomers
        return canonical(
            report_body(
                self.round,
                self.rule,
                self.contributions,
                self.refused,
                rewards_body(self.paid_by, {str(key): paid for key, paid in self.points.items()}),
                self.result,
                weights=None if weights is None else list(weights),
                rest=self.rest,
                refit=self.refit,
                newcomers=None if newcomers is None else [str(key) for key in newcomers],
                standings=self.standings,
                gram=self.gram,
            )
        )


def report_body(
    round_: str,
    rule: Mapping[str, object],
    contributions: Iterable[tuple[PublicKey, str]],
    refused: Mapping[PublicKey, str],
    rewards: Mapping[str, Any],
    result: StoredFile,
    **more: object,
) -> dict[str, Any]:
    """Returns the fields of a report.

    Args:
        contributions: those that the result is made of, key and digest.
        rewards: see `rewards_body`.
        more: the fields that only some kinds of round have.
    """
    return {
        "format": FORMAT,
        "round": round_,
        "rule": dict(rule),
        "contributions": [{"key": str(key), "digest": digest} for key, digest in contributions],
        "refused": [{"key": str(key), "reason": refused[key]} for key in sorted(refused)],
        "rewards": dict(rewards),
        "result": vars(result),
        **more,
    }


def rewards_body(rule: str, points: Mapping[str, int]) -> dict[str, Any]:
    """Returns how the pool is shared out, and the points of each key as text."""
    return {"rule": rule, "points": dict(sorted(points.items()))}


def read_report(content: bytes) -> Mapping[str, Any]:
    """Returns the fields of a report.

    Raises:
        InputError: it is none.
    """
    fields: dict[str, Any] = json_object(content) or {}
    if fields.get("format") != FORMAT or canonical(fields) != content:
        raise InputError(
            f"report: expected canonical JSON of format '{FORMAT}', got other bytes",
            code="rounds.report_damaged",
        )
    for name, keys in (("contributions", {"key", "digest"}), ("refused", {"key", "reason"})):
        if not _lists_texts(fields.get(name), keys):
            listed = " and ".join(sorted(keys, reverse=True))
            raise InputError(
                f"report.{name}: expected a list of {listed}, got another value",
                code="rounds.report_damaged",
            )
    for name in ("gram", "standings"):
        if not (fields.get(name) is None or is_hex(fields[name])):
            raise InputError(
                f"report.{name}: expected a digest, got {fields[name]!r:.80}",
                code="rounds.report_damaged",
            )
    return fields


def _lists_texts(value: object, names: set[str]) -> bool:
    types = dict.fromkeys(names, str)
    return isinstance(value, list) and all(
        _types(entry) == types for entry in cast("list[object]", value)
    )


def _types(value: object) -> dict[str, type]:
    """Returns the type of each field of a JSON object; none of anything else."""
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return {name: type(field) for name, field in fields.items()}


def stored_file(report: Mapping[str, Any]) -> StoredFile:
    """Returns where the result of a report is stored.

    Raises:
        InputError: the report does not say it.
    """
    if _types(report.get("result")) != {"digest": str, "bytes": int, "chunks": str}:
        raise InputError(
            "report.result: expected digest, bytes and chunks, got others",
            code="rounds.report_damaged",
        )
    return StoredFile(**report["result"])


EIGHT_BITS = Dense("int", bits=8)
_CODE_OF_0 = 1 << 7


def write_result(
    pieces: Iterator[Piece],
    manifest: Coding,
    recipe: Mapping[str, JsonValue],
    out: Path,
    *,
    factor: float = 1.0,
) -> Delta:
    """Writes the combined change of a round.

    Args:
        pieces: of all tensors in order, see `rules.aggregate.combine`.
        factor: multiplies every change; one that a re-fit chose.

    Raises:
        InputError: nothing is left of the contributions, or a value overflows its code.
        StorageError: the file cannot be written.
    """
    with Spool(out.parent) as spool:
        for tensor, change in _tensors(pieces, manifest.tensors, factor):
            spool.add_tensor(_coded(tensor, change))
        if not any(tensor.terms for tensor in spool.tensors):
            raise InputError(
                "result: expected a change, got contributions that cancel out or round to 0",
                code="rounds.cancel_out",
            )
        write_delta(out, round_header("dense", spool.tensors, manifest, recipe), spool)
    return load_delta(out)


def _tensors(
    pieces: Iterator[Piece], tensors: Sequence[Tensor], factor: float
) -> "Iterator[tuple[Tensor, F32]]":
    import numpy as np

    for tensor in tensors:
        flat = np.empty(tensor.size, np.float32)
        filled = 0
        while filled < tensor.size:
            piece = next(pieces)
            assert (piece.tensor, piece.start) == (tensor.name, filled), "pieces are in order"
            flat[filled : filled + piece.values.size] = piece.values
            filled += piece.values.size
        if factor != 1.0:
            flat *= np.float32(factor)
        yield tensor, flat.reshape(tensor.shape)


def _coded(tensor: Tensor, change: F32) -> Encoded:
    """Returns a coded tensor, without a term if it does not change, or its change rounds to 0."""
    import numpy as np

    nothing = Values(np.zeros_like(change), "f32", "base")
    coded = encode_tensor(tensor.name, nothing, Values(change, "f32", tensor.name), EIGHT_BITS)
    codes = coded.arrays.get("int.codes") if coded else None
    if coded is None or (codes is not None and (codes == _CODE_OF_0).all()):
        return Encoded(TensorTerms(name=tensor.name, shape=tensor.shape, terms=()), {})
    return coded
