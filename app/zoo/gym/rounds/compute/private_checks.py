"""What anybody can check of a private round without its key: all but the noisy sum.

The contributions are sealed and the noise is secret, so the numbers themselves cannot be computed
again. Everything else can: who is in the sum, the promise, the factors A, the points, and that the
result is no longer than clipped contributions and such a noise can be.
"""

from collections.abc import Callable, Iterator, Mapping
from math import sqrt
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from zoo.gym.delta.file.reader import Delta, tensor_parts
from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.checks import Check, made, refuse_unlogged, same_field
from zoo.gym.rounds.compute.private import (
    PRIVATE_RULE,
    PrivateResult,
    Sealed,
    collect_sealed,
    equal_points,
    private_report,
    published,
)
from zoo.gym.rounds.compute.report import BY_WEIGHT, stored_file
from zoo.gym.rounds.life.opening import Opened
from zoo.gym.rounds.privacy.contribution import values_of
from zoo.gym.rounds.privacy.mechanism import fixed_parts, private_header, record_of
from zoo.gym.rounds.privacy.terms import privacy_of
from zoo.gym.rounds.protocol.state import State
from zoo.gym.signing import PublicKey, parse_key

_UNLIKELY = 10.0
"""Standard deviations: noise beyond them has a probability below 1e-22."""


def private_checks(opened: Opened, folder: Path) -> Iterator[Check]:
    """Yields the checks of a published private round.

    Args:
        opened: the round.
        folder: of the round on this machine.

    Raises:
        StorageError: the storage cannot be read, or a file not be written here.
    """
    results: list[PrivateResult] = []
    sealed: list[Sealed] = []

    def read() -> str:
        found = published(opened, folder)
        if not found.report["contributions"]:
            raise InputError("report.contributions: expected a contribution, got none")
        results.append(found)
        return f"{results[0].report['result']['bytes']} bytes"

    def collect() -> str:
        sealed.append(collect_sealed(opened.state, opened.storage, folder))
        refuse_unlogged(sealed[0].refused, opened.state)
        return f"{len(sealed[0].files)} sealed files of the right size"

    for name, act in (("published files", read), ("contributions", collect)):
        yield made(name, act)
    if results and sealed:
        yield from _of_result(opened.state, results[0], sealed[0])
    said = "contributions are sealed and the noise is secret: not computed again"
    yield Check("noisy sum", said, ok=None)


def _of_result(state: State, result: PrivateResult, sealed: Sealed) -> Iterator[Check]:
    report = result.report
    steps: dict[str, Callable[[], str]] = {
        "rule": lambda: _same(report.get("rule"), dict(PRIVATE_RULE), PRIVATE_RULE["method"]),
        "who is in the sum": lambda: _members(state, result, sealed),
        "refusals in the log": lambda: _same(
            _texts(state.refused), _texts(result.refused), f"{len(state.refused)} refused"
        ),
        "rewards": lambda: _rewards(state, report),
        "privacy": lambda: _promise(state, result),
        "header of the result": lambda: _header(state, result),
        "factors A": lambda: _factors(state, result.delta),
        "size of the result": lambda: _size(state, result),
        "fields of the report": lambda: _fields(state, result),
    }
    for name, act in steps.items():
        yield made(name, act)


def _same(found: object, expected: object, said: object = "") -> str:
    if found != expected:
        raise InputError(f"expected {str(expected)[:150]}, got {str(found)[:150]}")
    return str(said)


def _texts(refused: Mapping[PublicKey, str]) -> dict[str, str]:
    return {str(key): reason for key, reason in refused.items()}


def _members(state: State, result: PrivateResult, sealed: Sealed) -> str:
    """Checks that nobody was left out but for an unfit file, or a seal that did not open."""
    listed = [(one["key"], one["digest"]) for one in result.report["contributions"]]
    fit = [(str(key), state.reveals[key].digest) for key, _ in sealed.files]
    _same(listed, [one for one in fit if one in listed])
    broken, said = _texts(sealed.refused), _texts(result.refused)
    _same({key: said.get(key) for key in broken}, broken)
    members = {key for key, _ in listed}
    _same(sorted(members | said.keys()), sorted(str(key) for key in state.reveals))
    if both := members & said.keys():
        raise InputError(f"expected each contribution once, got {min(both)} counted and refused")
    unopened = len(said) - len(broken)
    more = f"; {unopened} refused by the maker's word alone" if unopened else ""
    return f"{len(listed)} contributions, {len(said)} refused{more}"


def _rewards(state: State, report: Mapping[str, Any]) -> str:
    keys = [one["key"] for one in report["contributions"]]
    expected = {"rule": BY_WEIGHT, "points": equal_points(state, keys)}
    return _same(report.get("rewards"), expected, f"{state.manifest.pool} points in equal parts")


def _fields(state: State, result: PrivateResult) -> str:
    """Checks that the report says nothing but what follows from who is in the sum."""
    report = result.report
    keys = [parse_key(one["key"]) for one in report["contributions"]]
    if strange := [key for key in keys if key not in state.reveals]:
        raise InputError(f"expected contributors who revealed, got {strange[0].fingerprint}")
    expected = private_report(state, keys, result.refused, stored_file(report))
    return f"{_same_fields(expected, report)} of them"


def _same_fields(expected: Mapping[str, Any], found: Mapping[str, Any]) -> int:
    names = sorted(expected.keys() | found.keys())
    if wrong := [name for name in names if not same_field(expected, found, name)]:
        said = ", ".join(ascii(name)[:40] for name in wrong[:5])
        raise InputError(f"expected what follows from the round, got another {said}")
    return len(expected)


def _promise(state: State, result: PrivateResult) -> str:
    privacy = privacy_of(state.manifest)
    counted = len(result.report["contributions"])
    expected = record_of(privacy, values_of(state.manifest), counted)
    _same(result.report.get("privacy"), expected.model_dump(mode="json"))
    return (
        f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, sigma {privacy.noise:.6g}, noise "
        f"to signal {expected.noise_to_signal:.3g}"
    )


def _header(state: State, result: PrivateResult) -> str:
    """Checks that the file says nothing but what follows from the terms and who is in the sum."""
    counted = len(result.report["contributions"])
    recipe: dict[str, JsonValue] = {"round": state.id, "rule": dict(PRIVATE_RULE)}
    expected = private_header(counted, state.manifest, privacy_of(state.manifest), recipe).content()
    return f"{_same_fields(expected, result.delta.header.content())} fields"


def _factors(state: State, delta: Delta) -> str:
    """Checks that the result has the tensors of the round, with the A of its seed."""
    manifest, privacy = state.manifest, privacy_of(state.manifest)
    _tensors(state, delta)
    for tensor in delta.header.tensors:
        parts = tensor_parts(delta, tensor)
        fixed = fixed_parts(privacy.seed, tensor.name, manifest.caps.rank, tensor.shape[1])
        if any(parts[name].tobytes() != part.tobytes() for name, part in fixed.items()):
            raise InputError(f"tensor {tensor.name!r}: expected the A of the round's seed")
    return f"{len(delta.header.tensors)} tensors of rank {manifest.caps.rank}"


def _tensors(state: State, delta: Delta) -> None:
    """Refuses a file whose parts are not those of the round."""
    _same(
        delta.header.tensors,
        private_header(1, state.manifest, privacy_of(state.manifest), {}).tensors,
    )


def _size(state: State, result: PrivateResult) -> str:
    """Checks that the mean is no longer than clipped contributions and the noise can be."""
    import numpy as np

    privacy, counted = privacy_of(state.manifest), len(result.report["contributions"])
    _tensors(state, result.delta)
    square = 0.0
    for tensor in result.delta.header.tensors:
        b = tensor_parts(result.delta, tensor)["B.values"].astype(np.float64)
        square += float(np.square(b).sum())
    noise = privacy.noise * privacy.clip / counted
    most = privacy.clip + noise * (sqrt(values_of(state.manifest)) + _UNLIKELY)
    if sqrt(square) > most:
        raise InputError(f"expected a norm of at most {most:.4g}, got {sqrt(square):.4g}")
    return f"norm {sqrt(square):.4g}, at most {most:.4g}"
