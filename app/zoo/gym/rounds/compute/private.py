"""Draws and publishes the result of a private round, once, and checks it without its key.

Contributions are opened, clipped and added up here alone; what leaves is the noisy sum. Nothing
that one contributor sends decides what becomes of another's: no rule selects, and copies count.

The order on disk: the ledger, then the noise, then the result and its report, then the ledger's
note of the report, then the storage, then the log. A program that is cut before the note draws
again, and spends again; afterwards it publishes what was drawn.

The contributions are sealed and the noise is secret, so nobody can compute the numbers again. All
else can be checked: who is in the sum, the promise, the factors A, the points, and that the result
is no longer than clipped contributions and such a noise can be.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import JsonValue

from zoo.gym.delta.file.reader import Delta, load_delta, tensor_parts
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_small, storage_errors, write_beside
from zoo.gym.rounds.arrays import Whole
from zoo.gym.rounds.compute.collect import TooFewError, fetch_all
from zoo.gym.rounds.compute.publish import refusals_of, result_entry, voiding, work_folder
from zoo.gym.rounds.compute.result import (
    BY_WEIGHT,
    read_report,
    report_body,
    rewards_body,
    stored_file,
)
from zoo.gym.rounds.compute.verify import Check, made, published_report, refuse_unlogged, same_field
from zoo.gym.rounds.payouts.points import share_out
from zoo.gym.rounds.privacy import ledger, sealing
from zoo.gym.rounds.privacy.contribution import check_sealed, open_values, values_of
from zoo.gym.rounds.privacy.mechanism import (
    add_noise,
    fixed_parts,
    private_header,
    record_of,
    write_private_result,
)
from zoo.gym.rounds.privacy.promise import check_signal
from zoo.gym.rounds.privacy.sealing import forget_round_key, load_round_key
from zoo.gym.rounds.protocol.objects import as_text
from zoo.gym.rounds.protocol.privacy import privacy_of
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.rounds.session.opening import Opened, open_round
from zoo.gym.rounds.session.writing import writer_of
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import StoredFile, describe, fetch, store_all
from zoo.gym.signing import OwnKey, PublicKey, canonical, parse_key

PRIVATE_RULE: Mapping[str, JsonValue] = {"method": "private_mean", "f": 0, "mixed": False}
"""Each contribution is clipped, and so moves the mean by clip / contributors at most."""

_RESULT, _REPORT = "result.safetensors", "report.json"


@dataclass(frozen=True)
class PrivateResult:
    """The published result of a private round, and why each refused key does not count."""

    delta: Delta
    report: Mapping[str, Any]
    refused: Mapping[PublicKey, str]


def publish_private(
    storage: Storage,
    key: OwnKey,
    *,
    force: bool = False,
    void: bool = False,
    threads: int | None = None,
) -> PrivateResult:
    """Draws the result of a private round and publishes it; a published one is read again.

    Args:
        key: of the log's writer, on the machine that has the round's key.
        force: publish also where the noise is larger than any signal.
        void: make the round void if fewer contributions count than the quorum.

    Raises:
        GymError: too few contributions count: the round is void.
        InputError: too few contributions count, or the noise would drown them.
        NotAvailableError: the round is in another phase, its key is not here, or what was drawn
            is lost.
        StorageError: a file cannot be read or written; no result is in the log.
    """
    opened = open_round(storage)
    folder = work_folder(opened.state.id)
    if opened.state.closed:
        forget_round_key(privacy_of(opened.manifest).key)  # a program killed after the log left it
    if opened.state.phase is Phase.PUBLISHED:
        # what was drawn here and lost in the storage: nobody can draw it again
        if (settled := ledger.report_of(opened.state.id)) is not None:
            with suppress(NotAvailableError):  # the storage has it, or nobody
                drawn, content = _drawn(opened.state, folder, settled)
                store_all([drawn.delta.path], [content], opened.storage)
        return published(opened, folder)
    with writer_of(storage, key) as append:
        state = append.state
        state.expect_compute()
        settled = ledger.report_of(state.id)
        if settled is None:
            with voiding(append, key, agreed=void):
                settled = _draw(state, storage, folder, force=force, threads=threads)
        drawn, content = _drawn(state, folder, settled)
        store_all([drawn.delta.path], [content], storage)
        result = result_entry(state, key, stored_file(drawn.report).digest, content)
        append.add([*refusals_of(drawn.refused, state, key), result])
        forget_round_key(privacy_of(state.manifest).key)
        return drawn


Sealed: TypeAlias = tuple[list[tuple[PublicKey, Path]], dict[PublicKey, str]]
"""Key and file of each allowed contribution, by digest; and the reason for each refused one."""


def collect_sealed(state: State, storage: Storage, folder: Path) -> Sealed:
    """Fetches the sealed files and checks all that anybody can check, see `fetch_all`."""

    def checked(path: Path) -> Path:
        check_sealed(path, state.manifest)
        return path

    return fetch_all(state, storage, folder, checked)


def _draw(state: State, storage: Storage, folder: Path, *, force: bool, threads: int | None) -> str:
    """Books and draws the noise, writes result and report, and returns the report's digest."""
    from zoo.core import digest

    privacy, manifest = privacy_of(state.manifest), state.manifest
    total, counted, refused = _exact_sum(state, storage, folder)
    if len(counted) < manifest.quorum:
        raise TooFewError(manifest, len(counted), refused)
    forced, ended = manifest.command("aggregate", "--force"), manifest.command("void")
    hint = f"its terms and contributors are fixed: {forced} publishes it; {ended} --because TEXT"
    hint += " ends the round without a result"
    check_signal(privacy, values_of(manifest), len(counted), force=force, hint=hint)
    spending = ledger.Spending(privacy.epsilon, privacy.delta, privacy.noise)
    number = ledger.spend(state.id, [str(key) for key in counted], spending)
    add_noise(total, privacy, threads=threads)
    recipe: dict[str, JsonValue] = {"round": state.id, "rule": dict(PRIVATE_RULE)}
    delta = write_private_result(total, len(counted), manifest, privacy, recipe, folder / _RESULT)
    report = canonical(private_report(state, counted, refused, describe(delta.path)[0]))
    write_beside(folder / _REPORT, report.decode(), sync=True)
    settled = digest(report)
    ledger.settle(state.id, number, settled)
    return settled


def _exact_sum(
    state: State, storage: Storage, folder: Path
) -> "tuple[Whole, list[PublicKey], dict[PublicKey, str]]":
    """Returns the sum without noise, who is in it, and why others are not."""
    import numpy as np

    privacy, manifest = privacy_of(state.manifest), state.manifest
    private = load_round_key(privacy.key, manifest.command("void", "--because TEXT"))
    sealed, refused = collect_sealed(state, storage, folder)
    counted: list[PublicKey] = []
    total = np.zeros(values_of(manifest), np.int64)
    for key, path in sealed:
        info = sealing.info_for(state.id, str(key))
        try:
            total += open_values(path, manifest, privacy, private, info)
            counted.append(key)
        except InputError as error:
            refused[key] = as_text(f"contribution: {error.message}")
    return total, counted, refused


def private_report(
    state: State, counted: Sequence[PublicKey], refused: Mapping[PublicKey, str], stored: StoredFile
) -> dict[str, Any]:
    """Returns the fields of a report, given who is in the sum, who is not, and the result."""
    manifest = state.manifest
    record = record_of(privacy_of(manifest), values_of(manifest), len(counted))
    return report_body(
        state.id,
        PRIVATE_RULE,
        [(key, state.reveals[key].digest) for key in counted],
        refused,
        _equal_rewards(state, [str(key) for key in counted]),
        stored,
        weights=None,
        rest=0.0,
        refit=None,
        gram=None,
        privacy=record.model_dump(mode="json"),
    )


def _equal_rewards(state: State, keys: Sequence[str]) -> dict[str, Any]:
    """Returns the pool in equal parts: any other share would say what somebody contributed."""
    return rewards_body(BY_WEIGHT, share_out(dict.fromkeys(keys, 1.0), state.manifest.pool))


def checked_points(state: State, report: Mapping[str, Any]) -> dict[str, int]:
    """Returns the points of a published report, if they are those of all whom the log counts.

    Raises:
        InputError: the report counts others than revealed and were not refused, or its points are
            no equal parts.
    """
    counted = {
        str(key): entry.digest for key, entry in state.reveals.items() if key not in state.refused
    }
    listed = [(entry["key"], entry["digest"]) for entry in report["contributions"]]
    rewards = _equal_rewards(state, list(counted))
    if sorted(listed) != sorted(counted.items()):
        got = "other contributions than the log counts"
    elif report.get("rewards") != rewards:
        got = "other points than equal parts"
    else:
        points: dict[str, int] = rewards["points"]
        return points
    raise InputError(
        f"round {state.manifest.name}: expected the pool in equal parts for all whom the log "
        f"counts, got {got}",
        hint=f"{state.manifest.command('verify')} shows what differs",
        code="rounds.unequal_points",
    )


def _drawn(state: State, folder: Path, settled: str) -> tuple[PrivateResult, bytes]:
    """Returns what was drawn, which the ledger has named, and the bytes of its report."""
    from zoo.core import digest

    lost = NotAvailableError(
        f"round {state.manifest.name}: expected the result that was drawn in {folder}, got "
        "another file or none",
        hint="another one is never drawn for a round: its contributors have spent their privacy",
        code="rounds.drawn_lost",
    )
    try:
        with storage_errors(folder):
            content = read_small(folder / _REPORT)
    except FileNotFoundError:
        raise lost from None
    path = folder / _RESULT
    if digest(content) != settled or not path.is_file():
        raise lost
    report = read_report(content)
    if describe(path)[0] != stored_file(report):
        raise lost
    return PrivateResult(load_delta(path), report, _refused(report)), content


def published(opened: Opened, folder: Path) -> PrivateResult:
    """Returns the published result, fetched and checked against the log.

    Raises:
        InputError: the report is not the one of the log, or its result another file.
        NotAvailableError: a chunk is missing.
        StorageError: it cannot be read or written.
    """
    report = published_report(opened)
    path = folder / "published.safetensors"
    fetch(stored_file(report), opened.storage, path)
    return PrivateResult(load_delta(path), report, _refused(report))


def _refused(report: Mapping[str, Any]) -> dict[PublicKey, str]:
    return {parse_key(entry["key"]): str(entry["reason"]) for entry in report["refused"]}


_UNLIKELY = 10.0
"""Standard deviations: noise beyond them has a probability below 1e-22."""


def private_checks(opened: Opened, folder: Path) -> Iterator[Check]:
    """Yields the checks of a published private round.

    Raises:
        StorageError: the storage cannot be read, or a file not be written here.
    """
    results: list[PrivateResult] = []
    sealed: list[Sealed] = []

    def read() -> str:
        result = published(opened, folder)
        if not result.report["contributions"]:
            raise InputError(
                "report.contributions: expected a contribution, got none",
                code="rounds.report_damaged",
            )
        results.append(result)
        return f"{result.report['result']['bytes']} bytes"

    def collect() -> str:
        sealed.append(collect_sealed(opened.state, opened.storage, folder))
        files, refused = sealed[0]
        refuse_unlogged(refused, opened.state)
        return f"{len(files)} sealed files of the right size"

    yield made("published files", read)
    yield made("contributions", collect)
    if results and sealed:
        yield from _of_result(opened.state, results[0], sealed[0])
    detail = "contributions are sealed and the noise is secret: not computed again"
    yield Check("noisy sum", detail, ok=None)


def _of_result(state: State, result: PrivateResult, sealed: Sealed) -> Iterator[Check]:
    report = result.report
    steps: dict[str, Callable[[], str]] = {
        "rule": lambda: _same(report.get("rule"), dict(PRIVATE_RULE), PRIVATE_RULE["method"]),
        "who is in the sum": lambda: _members(state, result, sealed),
        "refusals in the log": lambda: _same(
            _texts(state.refused), _texts(result.refused), f"{len(state.refused)} refused"
        ),
        "rewards": lambda: _same(
            report.get("rewards"),
            _equal_rewards(state, [entry["key"] for entry in report["contributions"]]),
            f"{state.manifest.pool} points in equal parts",
        ),
        "privacy": lambda: _promise(state, result),
        "header of the result": lambda: _header(state, result),
        "factors A": lambda: _factors(state, result.delta),
        "size of the result": lambda: _size(state, result),
        "fields of the report": lambda: _fields(state, result),
    }
    for name, act in steps.items():
        yield made(name, act)


def _same(actual: object, expected: object, detail: object = "") -> str:
    if actual != expected:
        raise InputError(
            f"expected {str(expected)[:150]}, got {str(actual)[:150]}", code="rounds.other_report"
        )
    return str(detail)


def _texts(refused: Mapping[PublicKey, str]) -> dict[str, str]:
    return {str(key): reason for key, reason in refused.items()}


def _members(state: State, result: PrivateResult, sealed: Sealed) -> str:
    """Checks that nobody was left out but for an unfit file, or a seal that did not open."""
    listed = [(entry["key"], entry["digest"]) for entry in result.report["contributions"]]
    files, broken = sealed[0], _texts(sealed[1])
    fit = [(str(key), state.reveals[key].digest) for key, _ in files]
    _same(listed, [entry for entry in fit if entry in listed])
    reasons = _texts(result.refused)
    _same({key: reasons.get(key) for key in broken}, broken)
    members = {key for key, _ in listed}
    _same(sorted(members | reasons.keys()), sorted(str(key) for key in state.reveals))
    if both := members & reasons.keys():
        raise InputError(
            f"expected each contribution once, got {min(both)} counted and refused",
            code="rounds.other_report",
        )
    unopened = len(reasons) - len(broken)
    more = f"; {unopened} refused by the maker's word alone" if unopened else ""
    return f"{len(listed)} contributions, {len(reasons)} refused{more}"


def _fields(state: State, result: PrivateResult) -> str:
    """Checks that the report says nothing but what follows from who is in the sum."""
    report = result.report
    keys = [parse_key(entry["key"]) for entry in report["contributions"]]
    if strange := [key for key in keys if key not in state.reveals]:
        raise InputError(
            f"expected contributors who revealed, got {strange[0].fingerprint}",
            code="rounds.other_report",
        )
    expected = private_report(state, keys, result.refused, stored_file(report))
    return f"{_check_fields(expected, report)} of them"


def _check_fields(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> int:
    names = sorted(expected.keys() | actual.keys())
    if wrong := [name for name in names if not same_field(expected, actual, name)]:
        wrong_names = ", ".join(ascii(name)[:40] for name in wrong[:5])
        raise InputError(
            f"expected what follows from the round, got another {wrong_names}",
            code="rounds.other_report",
        )
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
    return f"{_check_fields(expected, result.delta.header.content())} fields"


def _factors(state: State, delta: Delta) -> str:
    """Checks that the result has the tensors of the round, with the A of its seed."""
    manifest, privacy = state.manifest, privacy_of(state.manifest)
    _tensors(state, delta)
    for tensor in delta.header.tensors:
        parts = tensor_parts(delta, tensor)
        fixed = fixed_parts(privacy.seed, tensor.name, manifest.caps.rank, tensor.shape[1])
        if any(parts[name].tobytes() != part.tobytes() for name, part in fixed.items()):
            raise InputError(
                f"tensor {tensor.name!r}: expected the A of the round's seed",
                code="rounds.other_factors",
            )
    return f"{len(delta.header.tensors)} tensors of rank {manifest.caps.rank}"


def _tensors(state: State, delta: Delta) -> None:
    """Refuses a file with other parts than those of the round."""
    header = private_header(1, state.manifest, privacy_of(state.manifest), {})
    _same(delta.header.tensors, header.tensors)


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
        raise InputError(
            f"expected a norm of at most {most:.4g}, got {sqrt(square):.4g}",
            code="rounds.norm_too_large",
        )
    return f"norm {sqrt(square):.4g}, at most {most:.4g}"
