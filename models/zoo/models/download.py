"""Downloads one large file from the hub to the cache, continuing an interrupted attempt.

The hub's library restarts a file after Ctrl-C. For weights that is slow, and their SHA-256 is known
in advance: they are downloaded here, to the place where the library looks first. Everything else
(small files, links, refs) is left to the library.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.core.errors import NotAvailableError

if TYPE_CHECKING:
    from typing import BinaryIO

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Blob:
    """A file on the hub with a known hash.

    Attributes:
        filename: its path in the repository.
        url: its address.
        size_bytes: its size.
        sha256: the hash of its content, and its name in the cache.
    """

    filename: str
    url: str
    size_bytes: int
    sha256: str


def fetch_blob(blob: Blob, storage: Path, headers: dict[str, str]) -> None:
    """Downloads `blob` to `storage/blobs`, unless it is there.

    Args:
        blob: the file.
        storage: the model's folder in the cache, `models--org--name`.
        headers: request headers; an access token in them is not sent to other hosts.

    Raises:
        NotAvailableError: the received content has the wrong hash.
    """
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    target = storage / "blobs" / blob.sha256
    lock = storage.parent / ".locks" / storage.name / f"{blob.sha256}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if target.exists():
            return
        # the library's own clean-up recognises this suffix
        partial = target.with_name(f"{blob.sha256}.zoo-gym.incomplete")
        with partial.open("a+b") as stream:
            _append_rest(blob, stream, headers)
            stream.seek(0)
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != blob.sha256:
            partial.unlink()
            msg = f"'{blob.filename}' is damaged: expected sha256 {blob.sha256}, got {digest}"
            raise NotAvailableError(
                msg, hint="try again: the damaged copy was removed", code="models.damaged_download"
            )
        partial.rename(target)


def _append_rest(blob: Blob, stream: "BinaryIO", headers: dict[str, str]) -> None:
    """Appends the missing rest of `blob` to `stream`."""
    from huggingface_hub import get_session, hf_raise_for_status
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    start = stream.seek(0, os.SEEK_END)
    if start >= blob.size_bytes:
        return
    request_headers = headers | {"Range": f"bytes={start}-", "Accept-Encoding": "identity"}
    bar = tqdm(  # type: ignore[no-untyped-call]
        total=blob.size_bytes, initial=start, unit="B", unit_scale=True, desc=blob.filename
    )
    with (
        bar,
        get_session().stream(
            "GET", blob.url, headers=request_headers, follow_redirects=True
        ) as response,
    ):
        hf_raise_for_status(response)
        if response.status_code != 206:  # the server sends the whole file again
            stream.truncate(0)
            bar.reset(total=blob.size_bytes)
        for chunk in response.iter_bytes(CHUNK_BYTES):
            stream.write(chunk)
            bar.update(len(chunk))
