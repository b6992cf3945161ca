"""Draws and publishes the result of a private round: once.

Contributions are opened, clipped and added up here alone; what leaves is the noisy sum. Nothing
that one contributor sends decides what becomes of another's: no rule selects, and copies count.

The order on disk: the ledger, then the noise, then the result and its report, then the ledger's
note of the report, then the storage, then the log. A program that is cut before the note draws
again, and spends again; afterwards it publishes what was drawn.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from zoo.gym.delta.file.reader import Delta, load_delta
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_small, storage_errors, write_beside
from zoo.gym.rounds.compute.checks import published_report
from zoo.gym.rounds.compute.collect import TooFewError
from zoo.gym.rounds.compute.publish import refusals_of, result_entry, voiding, work_folder
from zoo.gym.rounds.compute.reasons import fetch_all
from zoo.gym.rounds.compute.report import BY_WEIGHT, read_report, report_body, stored_file
from zoo.gym.rounds.life.opening import Opened, open_round
from zoo.gym.rounds.life.writing import writer_of
from zoo.gym.rounds.privacy import ledger, sealing
from zoo.gym.rounds.privacy.contribution import check_sealed, open_values, values_of
from zoo.gym.rounds.privacy.mechanism import add_noise, record_of, write_private_result
from zoo.gym.rounds.privacy.promise import check_signal
from zoo.gym.rounds.privacy.round_key import forget_round_key, load_round_key
from zoo.gym.rounds.privacy.terms import privacy_of
from zoo.gym.rounds.protocol.fields import as_text
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.rounds.rewards.points import share_out
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import StoredFile, describe, fetch, store, store_bytes
from zoo.gym.signing import OwnKey, PublicKey, canonical, parse_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PRIVATE_RULE: Mapping[str, JsonValue] = {"method": "private_mean", "f": 0, "mixed": False}
"""Each contribution is clipped, and so moves the mean by clip / contributors at most."""

_RESULT, _REPORT = "result.safetensors", "report.json"


@dataclass(frozen=True)
class PrivateResult:
    """The published result of a private round.

    Attributes:
        delta: its file.
        report: the fields of its report.
        refused: the reason for each key whose contribution does not count.
    """

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
        storage: of the round.
        key: of the log's writer, on the machine that has the round's key.
        force: publish also where the noise is larger than any signal.
        void: make the round void if fewer contributions count than the quorum.
        threads: number of threads that draw; all if None.

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
                _store(*_drawn(opened.state, folder, settled), opened.storage)
        return published(opened, folder)
    with writer_of(storage, key) as append:
        state = append.state
        state.expect_compute()
        settled = ledger.report_of(state.id)
        if settled is None:
            with voiding(append, key, agreed=void):
                settled = _draw(state, storage, folder, force=force, threads=threads)
        found, content = _drawn(state, folder, settled)
        _store(found, content, storage)
        result = result_entry(state, key, stored_file(found.report).digest, content)
        append.add([*refusals_of(found.refused, state, key), result])
        forget_round_key(privacy_of(state.manifest).key)
        return found


def _store(found: PrivateResult, content: bytes, storage: Storage) -> None:
    store(found.delta.path, storage)
    store_bytes(content, storage)


@dataclass(frozen=True)
class Sealed:
    """The sealed contributions whose files are what the round allows.

    Attributes:
        files: key and file of each, in the order of their digests.
        refused: why the files of others do not count.
    """

    files: Sequence[tuple[PublicKey, Path]]
    refused: Mapping[PublicKey, str]


def collect_sealed(state: State, storage: Storage, folder: Path) -> Sealed:
    """Fetches what was revealed, as far as everybody can check it, see `fetch_all`."""

    def checked(path: Path) -> Path:
        check_sealed(path, state.manifest)
        return path

    return Sealed(*fetch_all(state, storage, folder, checked))


def _draw(state: State, storage: Storage, folder: Path, *, force: bool, threads: int | None) -> str:
    """Books and draws the noise, writes result and report, and returns the report's digest."""
    from zoo.core import digest

    privacy, manifest = privacy_of(state.manifest), state.manifest
    total, kept, refused = _exact_sum(state, storage, folder)
    if len(kept) < manifest.quorum:
        raise TooFewError(manifest, len(kept), refused)
    forced, ended = manifest.command("aggregate", "--force"), manifest.command("void")
    hint = f"its terms and contributors are fixed: {forced} publishes it; {ended} --because TEXT"
    hint += " ends the round without a result"
    check_signal(privacy, values_of(manifest), len(kept), force=force, hint=hint)
    spending = ledger.Spending(privacy.epsilon, privacy.delta, privacy.noise)
    number = ledger.spend(state.id, [str(key) for key in kept], spending)
    add_noise(total, privacy, threads=threads)
    recipe: dict[str, JsonValue] = {"round": state.id, "rule": dict(PRIVATE_RULE)}
    delta = write_private_result(total, len(kept), manifest, privacy, recipe, folder / _RESULT)
    report = canonical(private_report(state, kept, refused, describe(delta.path)[0]))
    write_beside(folder / _REPORT, report.decode(), sync=True)
    found = digest(report)
    ledger.settle(state.id, number, found)
    return found


def _exact_sum(
    state: State, storage: Storage, folder: Path
) -> "tuple[NDArray[np.int64], list[PublicKey], dict[PublicKey, str]]":
    """Returns the sum without noise, who is in it, and why others are not."""
    import numpy as np

    privacy, manifest = privacy_of(state.manifest), state.manifest
    private = load_round_key(privacy.key, manifest.command("void", "--because TEXT"))
    sealed = collect_sealed(state, storage, folder)
    refused, kept = dict(sealed.refused), list[PublicKey]()
    total = np.zeros(values_of(manifest), np.int64)
    for key, path in sealed.files:
        info = sealing.info_for(state.id, str(key))
        try:
            total += open_values(path, manifest, privacy, private, info)
            kept.append(key)
        except InputError as error:
            refused[key] = as_text(f"contribution: {error.message}")
    return total, kept, refused


def private_report(
    state: State, kept: Sequence[PublicKey], refused: Mapping[PublicKey, str], stored: StoredFile
) -> dict[str, Any]:
    """Returns the fields of a report, given who is in the sum, who is not, and the result."""
    manifest = state.manifest
    record = record_of(privacy_of(manifest), values_of(manifest), len(kept))
    return report_body(
        state.id,
        PRIVATE_RULE,
        [(key, state.reveals[key].digest) for key in kept],
        refused,
        (BY_WEIGHT, equal_points(state, [str(key) for key in kept])),
        stored,
        weights=None,
        rest=0.0,
        refit=None,
        gram=None,
        privacy=record.model_dump(mode="json"),
    )


def equal_points(state: State, keys: Sequence[str]) -> dict[str, int]:
    """Returns the pool in equal parts: any other share would say what somebody contributed."""
    return share_out(dict.fromkeys(sorted(keys), 1.0), state.manifest.pool)


def checked_points(state: State, report: Mapping[str, Any]) -> dict[str, int]:
    """Returns the points of a published report, if they are those of all whom the log counts.

    Raises:
        InputError: the report counts others than revealed and were not refused, or its points are
            no equal parts.
    """
    counted = {
        str(key): one.digest for key, one in state.reveals.items() if key not in state.refused
    }
    listed = [(one["key"], one["digest"]) for one in report["contributions"]]
    points = equal_points(state, list(counted))
    if sorted(listed) != sorted(counted.items()):
        got = "other contributions than the log counts"
    elif report.get("rewards") != {"rule": BY_WEIGHT, "points": points}:
        got = "other points than equal parts"
    else:
        return points
    raise InputError(
        f"round {state.manifest.name}: expected the pool in equal parts for all whom the log "
        f"counts, got {got}",
        hint=f"{state.manifest.command('verify')} shows what differs",
    )


def _drawn(state: State, folder: Path, settled: str) -> tuple[PrivateResult, bytes]:
    """Returns what was drawn, which the ledger has named, and the bytes of its report."""
    from zoo.core import digest

    lost = NotAvailableError(
        f"round {state.manifest.name}: expected the result that was drawn in {folder}, got "
        "another file or none",
        hint="another one is never drawn for a round: its contributors have spent their privacy",
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
    return {parse_key(one["key"]): str(one["reason"]) for one in report["refused"]}
