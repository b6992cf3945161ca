"""Files that clients upload to train on: a folder for each, with its content and what it is."""

import json
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import new_folder, storage_errors, write_beside
from zoo.gym.paths import ensure_folder, folders

MOST_BYTES = 512 << 20
"""The largest file, as OpenAI has it."""

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".txt")

_ID = re.compile(r"file-[0-9a-f]{24}")


class Files:
    """The uploaded files of this user."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or folders().data / "serve" / "files"

    def add(self, name: str, source: BinaryIO) -> dict[str, Any]:
        """Stores a file; one that cannot be read to its end leaves nothing.

        Args:
            name: the name that the client gives it; its suffix says what is in it.
            source: its content.

        Raises:
            InputError: the suffix is unknown, or the file is empty or too large.
            StorageError: it cannot be written.
        """
        suffix = Path(name).suffix.lower()
        if suffix not in SUFFIXES:
            raise InputError(
                f"file: expected a name that ends with {', '.join(SUFFIXES)}, got {name!r:.100}",
                code="serving.bad_file",
            )
        id_ = f"file-{secrets.token_hex(12)}"
        with new_folder(ensure_folder(self._folder) / id_) as begun:
            with storage_errors(begun), (begun / f"content{suffix}").open("xb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
                size = file.tell()
            if not 0 < size <= MOST_BYTES:
                raise InputError(
                    f"file: expected 1 to {MOST_BYTES:,} bytes, got {size:,}",
                    code="serving.bad_file",
                )
            described = {
                "id": id_,
                "object": "file",
                "bytes": size,
                "created_at": int(time.time()),
                "filename": Path(name).name,
                "purpose": "fine-tune",
                "status": "processed",
            }
            write_beside(begun / "file.json", json.dumps(described))
        return described

    def all(self) -> list[dict[str, Any]]:
        """Returns what all files are, the latest first."""
        described: list[dict[str, Any]] = []
        for path in self._folder.glob("file-*"):
            with suppress(NotAvailableError):  # it is being removed, or its removal was cut off
                described.append(self.get(path.name))
        return sorted(described, key=lambda each: (-each["created_at"], each["id"]))

    def get(self, id_: str) -> dict[str, Any]:
        """Returns what a file is.

        Raises:
            NotAvailableError: there is none of this id.
        """
        try:
            text = (self._of(id_) / "file.json").read_text(encoding="utf-8")
        except OSError:
            raise _missing(id_) from None
        return cast("dict[str, Any]", json.loads(text))

    def content(self, id_: str) -> Path:
        """Returns the path of a file's content.

        Raises:
            NotAvailableError: there is none of this id.
        """
        self.get(id_)
        return next(self._of(id_).glob("content.*"))

    def remove(self, id_: str) -> None:
        """Removes a file.

        Raises:
            NotAvailableError: there is none of this id.
            StorageError: it cannot be removed.
        """
        self.get(id_)
        folder = self._of(id_)
        with storage_errors(folder):
            (folder / "file.json").unlink(missing_ok=True)  # from here on there is no such file
        shutil.rmtree(folder, ignore_errors=True)

    def _of(self, id_: str) -> Path:
        if not _ID.fullmatch(id_):  # never a path
            raise _missing(id_)
        return self._folder / id_


def _missing(id_: str) -> NotAvailableError:
    return NotAvailableError(
        f"file: expected the id of an uploaded one, got {id_!r:.60}", code="serving.no_such_file"
    )
