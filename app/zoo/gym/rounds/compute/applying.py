"""Applies the verified result of a round to its base, and goes back to the one before.

Base plus result is a model folder of its own, never changed again, on which the next run can train;
the base itself is only read. It is named by both, and built again if its files were changed: a
round fixes the tensors that it changes, but another embedding or tokenizer of its base gives
another model. The results that were applied are a list, the newest last.
"""

import json
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from zoo.gym.delta.apply import apply_delta, copied_files
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.parents import PARENTS_FILE, parents_of
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import InputError, NotAvailableError, StorageError
from zoo.gym.files import read_errors, read_json_object, storage_errors, write_beside
from zoo.gym.files.lock import locked
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.compute.publish import work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.contribution.write import check_base
from zoo.gym.rounds.kind import kind_of
from zoo.gym.rounds.protocol.state import Phase
from zoo.gym.rounds.session.opening import Opened
from zoo.gym.signing import canonical

WRITTEN_FILE = "written.json"
"""In a model folder: the BLAKE3 of each file as it was written."""


def model_folder_of(base: Path, result: str) -> Path:
    """Returns where base plus result is, or will be.

    Raises:
        InputError: the base has no weights that can be read.
        StorageError: it cannot be read.
    """
    from zoo.core import digest

    weights = open_weights(base)
    read = [base / "config.json", *copied_files(base)]
    other = {str(file.relative_to(base)): _digest(file) for file in read if file.is_file()}
    content = {"weights": identity(weights, sorted(weights.tensors)), "files": other}
    return folders().data / "models" / f"round-{result[:16]}-{digest(canonical(content))[:16]}"


def build(folder: Path, delta: Path, base: Path) -> None:
    """Writes base plus result, unless it is there as it was written.

    Args:
        folder: see `model_folder_of`; replaced if its files were changed.

    Raises:
        InputError: the base is another one.
        StorageError: the folder cannot be written.
    """
    if is_whole(folder):
        return
    ensure_folder(folder.parent)
    with storage_errors(folder):
        if folder.exists():
            shutil.rmtree(folder)
    apply_delta(delta, base=base, base_id=str(base), out=folder)
    written = {str(file.relative_to(folder)): _digest(file) for file in _files(folder)}
    write_beside(folder / WRITTEN_FILE, json.dumps(written, indent=2) + "\n", sync=True)


def is_whole(folder: Path) -> bool:
    """Returns whether a model folder has the files that `build` wrote, unchanged, and no others.

    Hidden files, which no loader reads, do not count.
    """
    written = read_json_object(folder / WRITTEN_FILE)
    if not written:
        return False
    present = {str(file.relative_to(folder)): file for file in _files(folder)}
    if any(not file.name.startswith(".") for name, file in present.items() if name not in written):
        return False  # such as weights that a loader prefers
    expected = {name: folder / name for name in written}
    return all(file.is_file() and _digest(file) == written[name] for name, file in expected.items())


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files of a model, without the notes beside it, which are rewritten."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name not in {PARENTS_FILE, WRITTEN_FILE}:
            yield file


def _digest(file: Path) -> str:
    from zoo.core import file_digest

    with read_errors(file):
        return file_digest(file, zero_at=0, zero_len=0)


_FIELDS = ("round", "base", "file", "digest")

_LOCK_S = 10.0
"""How long to wait for a process that writes the list, which takes a moment."""


@dataclass(frozen=True)
class Applied:
    """A result that was applied.

    Attributes:
        round: the id of its round.
        file: the model folder, base plus result.
        digest: of the result.
        previous: the digest of the result applied to this base before; None if there was none.
    """

    round: str
    base: Path
    file: Path
    digest: str
    previous: str | None = None


def apply_result(opened: Opened, base: Path, *, threads: int | None = None) -> Applied:
    """Verifies the result of a round and writes base plus result, unless it is there, unchanged.

    Raises:
        NotAvailableError: the round has no result yet.
        InputError: a check of the round fails, the base is another one, or the list of what was
            applied is damaged.
        StorageError: the folder cannot be written, or another process holds the list.
    """
    hint = "zoo-gym round apply stores its lessons"
    kind_of(opened.manifest).expect_weights(opened.manifest, "apply to a model", hint)
    state = opened.state
    work = work_folder(state.id)
    check_base(open_weights(base), opened.manifest)
    digest = refuse_unverified(opened, work, threads=threads)
    base = base.resolve()
    applied_results()  # a list that cannot be read is refused before the work
    file = model_folder_of(base, digest)
    build(file, work / "published.safetensors", base)
    content = {"base": str(base), "parents": [*parents_of(base), digest]}
    write_beside(file / PARENTS_FILE, json.dumps(content, indent=2) + "\n")
    with _alone():
        results = applied_results()
        earlier = [result for result in results if (result.base, result.digest) != (base, digest)]
        _keep([*earlier, Applied(state.id, base, file, digest)])
        return applied_results()[-1]


def refuse_unverified(opened: Opened, work: Path, *, threads: int | None = None) -> str:
    """Returns the digest of a verified result.

    Args:
        work: its folder on this machine, where the published result then lies.

    Raises:
        NotAvailableError: the round has no result yet.
        InputError: a check fails.
    """
    state, name = opened.state, opened.manifest.name
    if state.phase is not Phase.PUBLISHED or state.result is None:
        raise NotAvailableError(
            f"round {name}: expected a published result, got {state.phase}", code="rounds.no_result"
        )
    failed = [check for check in verify(opened, work, threads=threads) if check.ok is False]
    if failed:
        raise InputError(
            f"round {name}: expected a result that can be verified, got a failed check: "
            f"{failed[0].name}: {failed[0].detail}",
            hint=f"{opened.manifest.command('verify')} shows all checks",
            code="rounds.check_failed",
        )
    return state.result


def undo_result(base: Path | None = None) -> Applied:
    """Forgets the newest applied result and returns it; its model folder stays.

    Args:
        base: the folder of a base; None takes the newest result of any base.

    Raises:
        NotAvailableError: none is applied.
        InputError: the list is damaged.
        StorageError: the list cannot be written, or another process holds it.
    """
    with _alone():
        results = applied_results()
        newest = newest_result(base)
        if newest is None:
            target = "" if base is None else f" to {base}"
            raise NotAvailableError(
                f"undo: expected a result that was applied{target}, got none",
                code="rounds.nothing_applied",
            )
        _keep([result for result in results if result != newest])
    return newest


def newest_result(base: Path | None = None) -> Applied | None:
    """Returns the result that was applied last, to a base if one is given; None if none was."""
    folder = None if base is None else base.resolve()
    results = [result for result in applied_results() if folder is None or result.base == folder]
    return results[-1] if results else None


def refuse_changed(applied: Applied) -> None:
    """Refuses a model folder that is no longer base plus result.

    Raises:
        InputError: its files, or those of the base, were changed or removed since.
    """
    if applied.file == model_folder_of(applied.base, applied.digest) and is_whole(applied.file):
        return
    raise InputError(
        f"{applied.file}: expected {applied.base} plus result {applied.digest[:12]} as it was "
        "written, got other files or another base",
        hint=f"write it again: zoo-gym round apply {applied.round} --base {applied.base}",
        code="rounds.model_changed",
    )


def applied_results() -> list[Applied]:
    """Returns all results that are applied, the newest last.

    Raises:
        InputError: the list is damaged: nothing is written over it.
    """
    path, results = _path(), list[Applied]()
    rows = (read_json_object(path) or {}).get("applied") if path.exists() else []
    if not isinstance(rows, list) or not all(map(_is_row, cast("list[object]", rows))):
        raise InputError(
            f"{path}: expected the list of applied results, got another file",
            hint=f"models stay where they are: move {path} away, and apply again",
            code="rounds.applied_damaged",
        )
    for row in cast("list[dict[str, str]]", rows):
        base = Path(row["base"])
        previous = next(
            (result.digest for result in reversed(results) if result.base == base), None
        )
        results.append(Applied(row["round"], base, Path(row["file"]), row["digest"], previous))
    return results


def _is_row(value: object) -> bool:
    row = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return all(isinstance(row.get(name), str) for name in _FIELDS)


@contextmanager
def _alone() -> Generator[None]:
    """Holds the list, so that of two processes neither writes over what the other added."""
    ensure_folder(_path().parent)
    lock = _path().with_suffix(".lock")
    with locked(lock, wait_s=_LOCK_S) as held:
        if not held:
            raise StorageError(
                f"{lock}: expected to hold the list alone, another process has it",
                code="rounds.applied_locked",
            )
        yield


def _keep(results: list[Applied]) -> None:
    rows = [{name: str(getattr(result, name)) for name in _FIELDS} for result in results]
    write_beside(_path(), json.dumps({"applied": rows}, indent=2) + "\n", sync=True)


def _path() -> Path:
    return folders().data / "rounds" / "applied.json"
