"""Makes the manifest of a new round from a base, or lessons, and a few choices."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path

from pydantic import BaseModel

from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import FLOATS, Weights, is_tied, open_weights, own_tensors
from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol.lessons import EVIDENCE, MOST_CANDIDATES, NO_BASE, Lessons
from zoo.gym.rounds.protocol.manifest import (
    FORMAT,
    Evaluation,
    Form,
    Manifest,
    Newcomers,
    parse_manifest,
)
from zoo.gym.rounds.protocol.privacy import Privacy, count_values, sealed_bytes
from zoo.gym.rounds.rules.method import AggregationMethod
from zoo.gym.signing import PublicKey

_IN_A_LAYER = re.compile(r"\.\d+\.")
_HEADER_BYTES, _TENSOR_BYTES = 100_000, 1000
DAY_S = 86_400
MOST = 1000
"""The most contributors, unless the maker wants others."""

_YEAR_S = 365 * DAY_S
_NONE = ("f", "evaluation", "refit", "newcomers", "previous", "privacy", "lessons")


@dataclass(frozen=True)
class Common:
    """The choices of a maker that every kind of round has.

    Attributes:
        quorum: fewer contributions make it void.
        most: the most contributors; as many as the kind takes by default if None.
        commit_s: from now to the deadline of commitments, in seconds.
        reveal_s: from then to that of reveals.
        witnesses: keys that sign the log's heads.
    """

    name: str
    quorum: int = 10
    most: int | None = None
    commit_s: int = 7 * DAY_S
    reveal_s: int = 2 * DAY_S
    pool: int = 1000
    witnesses: tuple[PublicKey, ...] = ()

    def manifest(
        self, key: PublicKey, gates: Sequence[PublicKey], now: datetime, **kind_fields: object
    ) -> Manifest:
        """Returns a manifest.

        Args:
            now: the time from which the deadlines are counted.
            kind_fields: the fields that differ from kind to kind; those left out are null.

        Raises:
            InputError: the terms contradict each other.
        """
        revealed_s = self.commit_s + self.reveal_s
        roles = {"log": [key], "gate": gates, "witness": self.witnesses}
        fields: dict[str, object] = {
            **dict.fromkeys(_NONE),
            "format": FORMAT,
            "name": self.name,
            "quorum": self.quorum,
            "most": MOST if self.most is None else self.most,
            "deadlines": {
                "commit": _time(now, self.commit_s),
                "reveal": _time(now, revealed_s),
                "extension_s": min(self.commit_s, _YEAR_S),
            },
            "pool": self.pool,
            "keys": [
                {"role": role, "key": str(holder), "expires": _time(now, revealed_s + _YEAR_S)}
                for role, named in roles.items()
                for holder in named
            ],
        }
        return parse_manifest(fields | kind_fields)


@dataclass(frozen=True)
class Terms:
    """The choices of the maker of a round about weights.

    Attributes:
        f: how many contributors may be malicious; 30 %, if the rule can, if None.
        rank: the largest rank of form lowrank.
        tensors: patterns of names; the matrices inside the layers if empty.
        measured: what a gate measures; nothing if None.
        newcomers: what earlier rounds say of keys, and the cap on the others; none if None.
        privacy: what a private round promises; none if None.
    """

    common: Common
    form: Form = "signs"
    method: AggregationMethod = AggregationMethod.BYZANTINE_ROBUST
    f: int | None = None
    rank: int = 64
    tensors: tuple[str, ...] = ()
    measured: "MeasuredTerms | None" = None
    newcomers: Newcomers | None = None
    privacy: Privacy | None = None


@dataclass(frozen=True)
class MeasuredTerms:
    """What a round's maker lets be measured.

    Attributes:
        gate: the key that signs it.
        evaluation: held-out examples; none if None.
        refit: the SHA-256 of public examples on which the result's size is chosen.
        previous: the digest of the last result, which the new one may not be worse than.
    """

    gate: PublicKey
    evaluation: Evaluation | None = None
    refit: str | None = None
    previous: str | None = None


def manifest_for(
    base: Path, base_id: str, revision: str | None, terms: Terms, key: PublicKey, now: datetime
) -> Manifest:
    """Returns the manifest of a round about a base, whose deadlines are counted from `now`.

    Raises:
        NotAvailableError: the base is missing.
        InputError: no tensor matches, or the terms contradict each other.
    """
    weights = open_weights(base)
    names = tensor_names(weights, terms.tensors)
    shapes = {name: weights.shape(name) for name in names}
    measured = terms.measured
    return terms.common.manifest(
        key,
        [measured.gate] if measured else [],
        now,
        kind="delta",
        base={"identity": identity(weights, names), "model": base_id, "revision": revision or ""},
        tensors=[{"name": name, "shape": list(shapes[name])} for name in names],
        form=terms.form,
        caps={"rank": terms.rank, **_largest(shapes, terms)},
        method=terms.method.value,
        f=terms.f,
        evaluation=_dumped(measured.evaluation if measured else None),
        refit=measured.refit if measured else None,
        newcomers=_dumped(terms.newcomers),
        previous=measured.previous if measured else None,
        privacy=_dumped(terms.privacy),
    )


def _dumped(terms: BaseModel | None) -> dict[str, object] | None:
    return None if terms is None else terms.model_dump(mode="json")


def tensor_names(base: Weights, patterns: Sequence[str] = ()) -> list[str]:
    """Returns the tensors of a round, sorted.

    Args:
        patterns: of names; the matrices inside the layers if empty.

    Raises:
        InputError: nothing matches.
    """
    floats = float_tensors(base)
    if patterns:
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in floats):
                raise InputError(
                    f"--tensors {pattern}: expected names of the base, got none",
                    code="rounds.no_tensors",
                )
        return [name for name in floats if any(fnmatchcase(name, one) for one in patterns)]
    matrices = [name for name in floats if len(base.shape(name)) == 2 and _IN_A_LAYER.search(name)]
    if not matrices:
        raise InputError(
            f"{base.source}: expected matrices inside numbered layers, got none",
            hint="name the tensors of the round: --tensors PATTERN",
            code="rounds.no_tensors",
        )
    return matrices


def float_tensors(base: Weights) -> list[str]:
    """Returns the tensors that a fine-tune can change, sorted."""
    names = sorted(own_tensors(base, tied=is_tied(base)))
    return [name for name in names if base.dtype(name) in FLOATS and 0 not in base.shape(name)]


def _largest(shapes: dict[str, tuple[int, ...]], terms: Terms) -> dict[str, float]:
    """Returns how large a contribution can be: its file, with room for the header, and a value."""
    if terms.privacy:
        size = sealed_bytes(count_values(shapes, terms.rank))
        return {"file_bytes": size, "value": terms.privacy.clip}
    total = _HEADER_BYTES + _TENSOR_BYTES * len(shapes)
    for shape in shapes.values():
        rows, columns, size = shape[0], shape[-1], prod(shape)
        if terms.form == "signs":
            total += size // columns * -(-columns // 8) + 4
        elif terms.form == "float":
            total += 4 * size
        else:
            total += 4 * terms.rank * (rows + columns)
    return {"file_bytes": total, "value": 1.0 if terms.form == "signs" else 1000.0}


def _time(now: datetime, after_s: int) -> str:
    then = now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=after_s)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


FILE_BYTES = 200_000
"""The largest contribution: 48 lessons with licences and parents have less."""


def lessons_manifest(
    common: Common,
    model: str,
    lessons: Lessons,
    gates: Sequence[PublicKey],
    key: PublicKey,
    now: datetime,
) -> Manifest:
    """Returns the manifest of a round of lessons.

    Args:
        common: what the maker chose; without a number of contributors as many as can be measured.
        now: the time from which the deadlines are counted.

    Raises:
        InputError: the terms contradict each other.
    """
    if common.most is None:
        common = replace(common, most=min(MOST, MOST_CANDIDATES // lessons.most))
    return common.manifest(
        key,
        gates,
        now,
        kind="experience",
        base={"identity": NO_BASE, "model": model, "revision": ""},
        tensors=[],
        form="lessons",
        caps={"file_bytes": FILE_BYTES, "rank": 1, "value": 1.0},
        method=EVIDENCE,
        lessons=lessons.model_dump(mode="json"),
    )
