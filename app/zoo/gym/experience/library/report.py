"""The report of a finished run: digests of its journal and tasks, and a signature beside it.

Together they let a replay notice each changed byte, also of what decides nothing, such as bills.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.library.signature import signature_file
from zoo.gym.files import storage_errors
from zoo.gym.signing import own_key, read_signed, sign, write_signed

JOURNAL_FILE = "journal.jsonl"
REPORT_FILE = "report.json"
REPORTED = (JOURNAL_FILE, "tasks.jsonl")
"""The files of a run folder whose digests are in the report."""

_CONTEXT = "experience report"


def file_sha256(path: Path) -> str:
    """Returns the SHA-256 of a file.

    Raises:
        StorageError: it cannot be read.
    """
    with storage_errors(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()


def sign_report(path: Path) -> None:
    """Signs a report with the user's key.

    Raises:
        InputError: the user's key cannot be used.
        StorageError: the signature cannot be written.
    """
    body = {"sha256": file_sha256(path)}
    write_signed(signature_file(path), sign(own_key(), _CONTEXT, body))


def first_change(
    folder: Path, digest: str, figures: Mapping[str, object], *, is_reported: bool = True
) -> str | None:
    """Returns which file of a finished run was changed, None if none was.

    Args:
        folder: the run's.
        digest: that of the library which the replay made.
        figures: what a report says of the replay.
        is_reported: whether the version that wrote the journal kept digests of files in a report.

    Raises:
        NotAvailableError: the report is missing.
    """
    path = folder / "result" / REPORT_FILE
    try:
        report: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise NotAvailableError(f"{path}: expected the report of the run, got nothing") from None
    except (ValueError, RecursionError):
        return f"{REPORT_FILE}: damaged"
    if not isinstance(report, dict):
        return f"{REPORT_FILE}: damaged"
    found = cast("dict[str, Any]", report)
    for key, value in {"digest": digest, **figures}.items():
        if found.get(key) != value:
            return f"{REPORT_FILE}: {key}: {value} instead of {found.get(key)}"
    files: Any = found.get("files")
    if files is None and not is_reported and not signature_file(path).is_file():
        return None
    for name in REPORTED:
        if not isinstance(files, dict) or files.get(name) != file_sha256(folder / name):
            return f"{name}: changed since the run has ended"
    return None if _is_signed(path) else f"{REPORT_FILE}: changed since it was signed"


def _is_signed(path: Path) -> bool:
    try:
        signed = read_signed(signature_file(path), _CONTEXT)
    except (InputError, NotAvailableError):
        return False
    return signed.body == {"sha256": file_sha256(path)}
