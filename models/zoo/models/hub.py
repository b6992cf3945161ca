"""The Hugging Face cache and hub: finds cached models and downloads others.

The cache is shared with other tools, so that nothing is stored twice. Environment variables are
read when a function is called, not when a library is imported.
"""

import errno
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.core.errors import DoesNotFitError, GymError, InputError, NotAvailableError, StorageError
from zoo.models.checkpoint_files import PICKLE_SUFFIXES, checkpoint_files
from zoo.models.download import Blob, fetch_blob
from zoo.models.names import Name, nearest, unknown_model
from zoo.models.registry import registry, smaller_model

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ModelInfo

Confirm = Callable[[str, int], bool]
"""Called with a hub id and the bytes to download; True consents to exactly that."""

WANTED = ("*.safetensors", "*.json", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt")
"""Patterns of the files to download: no pickles, no code, no images."""

SIZE_SLACK = 1.1
"""A download that exceeds the size in the registry by at most this needs no second consent."""

DISK_RESERVE_BYTES = 1 << 28
"""Disk space that a download leaves free."""


def cache_folder() -> Path:
    """Returns the folder of the Hugging Face cache, according to its environment variables."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := os.environ.get(variable):
            return Path(os.path.expandvars(folder)).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or str(Path(base) / "huggingface")
    return Path(os.path.expandvars(home)).expanduser() / "hub"


def is_offline() -> bool:
    """Returns whether the environment disables the hub (`HF_HUB_OFFLINE`)."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in {"1", "ON", "YES", "TRUE"}


def cached_ids() -> list[str]:
    """Returns the ids of the models with a folder in the cache, sorted."""
    folders = cache_folder().glob("models--*--*/snapshots")
    return sorted(
        folder.parent.name.removeprefix("models--").replace("--", "/") for folder in folders
    )


def find_cached(name: Name) -> Path | None:
    """Returns the snapshot folder of a model that is complete in the cache; uses no network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    if not _storage(name).is_dir():
        return None
    try:
        folder = Path(
            snapshot_download(
                name.id,
                revision=name.revision,
                cache_dir=cache_folder(),
                allow_patterns=list(WANTED),
                local_files_only=True,
            )
        )
    except LocalEntryNotFoundError:
        return None
    return folder if _is_whole(folder) else None


def fetch(name: Name, confirm: Confirm | None, token: str | None) -> Path:
    """Downloads a model to the cache after consent, and returns its snapshot folder.

    Without a `confirm` function the hub is not contacted at all. For a model in the registry the
    question comes before the first request; for others the size is requested from the hub first.
    An interrupted download continues where it stopped; every file is checked against its hash.

    Raises:
        NotAvailableError: no consent, no such model or revision, gated, or no connection.
        InputError: the repository has no safetensors weights.
        DoesNotFitError: the disk is too small.
        StorageError: the cache cannot be written.
    """
    expected_bytes = _listed_bytes(name)
    if confirm is None or (expected_bytes and not confirm(name.id, expected_bytes)):
        raise _refused(name, expected_bytes)
    from huggingface_hub import HfApi, snapshot_download

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
    with _translated_errors(name):
        info = api.model_info(name.id, revision=name.revision, files_metadata=True)
    missing_bytes = _missing_bytes(name, info)
    agreed = missing_bytes <= SIZE_SLACK * expected_bytes
    if not agreed and not confirm(name.id, missing_bytes):
        raise _refused(name, missing_bytes)
    check_disk(
        cache_folder(),
        missing_bytes,
        "set HF_HOME to a folder on a larger disk, or free some space",
    )
    with _translated_errors(name):
        _fetch_weights(api, name, info)
        folder = snapshot_download(
            name.id,
            revision=name.revision,
            cache_dir=cache_folder(),
            allow_patterns=list(WANTED),
            endpoint=api.endpoint,
            token=token,
        )
    return Path(folder)


def _listed_bytes(name: Name) -> int:
    """Returns the download size from the registry, 0 for a model that is not listed."""
    listed = (entry.download_bytes for entry in registry() if entry.hub_id == name.id)
    return next(listed, 0)


def _refused(name: Name, size_bytes: int) -> NotAvailableError:
    size = f": {size_bytes:,} bytes to download" if size_bytes else ""
    msg = f"model '{name.id}' is not on this machine{size}"
    hint, near = "allow the download with --yes", nearest(name.id, cached_ids())
    if not size and near:
        hint += f", or did you mean '{near}'?"
    hint += f"; {smaller_model()}"
    return NotAvailableError(msg, hint=hint, code="models.not_downloaded")


def _fetch_weights(api: "HfApi", name: Name, info: "ModelInfo") -> None:
    """Downloads the files that are stored by hash, before the library links them in a snapshot."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    headers = build_hf_headers(token=api.token)
    storage = _storage(name)
    stored = {file.rfilename: file.lfs for file in info.siblings or [] if file.lfs}
    for filename in filter(_is_wanted, stored):
        url = hf_hub_url(name.id, filename, revision=info.sha, endpoint=api.endpoint)
        lfs = stored[filename]
        if not (storage / "snapshots" / str(info.sha) / filename).exists():
            fetch_blob(Blob(filename, url, lfs.size, lfs.sha256), storage, headers)


def _storage(name: Name) -> Path:
    return cache_folder() / ("models--" + name.id.replace("/", "--"))


def _is_whole(folder: Path) -> bool:
    if not (folder / "config.json").is_file():
        return False
    try:
        checkpoint_files(folder)
    except InputError:
        return False
    return True


def _is_wanted(filename: str) -> bool:
    return any(fnmatch(filename, pattern) for pattern in WANTED)


def _missing_bytes(name: Name, info: "ModelInfo") -> int:
    """Returns the total size of the wanted files that are not in the cache."""
    from huggingface_hub import try_to_load_from_cache

    sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
    needed = list(filter(_is_wanted, sizes))
    if not any(file.endswith(".safetensors") for file in needed):
        raise _no_safetensors(name, sizes)
    cached = (
        file
        for file in needed
        if isinstance(
            try_to_load_from_cache(name.id, file, cache_dir=cache_folder(), revision=info.sha), str
        )
    )
    return sum(sizes[file] for file in needed) - sum(sizes[file] for file in cached)


def _no_safetensors(name: Name, files: dict[str, int]) -> InputError:
    pickles = sorted(file for file in files if Path(file).suffix in PICKLE_SUFFIXES)
    listed = ", ".join(f"'{file}'" for file in pickles) or "no weights"
    msg = f"model '{name.id}' has no safetensors weights: expected '*.safetensors', got {listed}"
    return InputError(msg, code="models.no_safetensors")


def check_disk(folder: Path, missing_bytes: int, hint: str) -> None:
    """Refuses to write more than fits on a disk.

    Args:
        folder: where to write; it need not exist.
        missing_bytes: how much.
        hint: what the user can do.

    Raises:
        DoesNotFitError: less is free, with a reserve.
    """
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    free_bytes = shutil.disk_usage(folder).free
    needed_bytes = missing_bytes + DISK_RESERVE_BYTES
    if free_bytes < needed_bytes:
        msg = f"disk too small at '{folder}': expected {needed_bytes:,} bytes, got {free_bytes:,}"
        raise DoesNotFitError(msg, hint=hint, code="models.disk_too_small")


@contextmanager
def _translated_errors(name: Name) -> Generator[None]:
    """Turns errors of the hub library into ours, without tokens in them."""
    from httpx2 import HTTPError
    from huggingface_hub import errors

    page = f"https://huggingface.co/{name.id}"
    try:
        yield
    except errors.GatedRepoError as error:
        msg = f"model '{name.id}' is gated: its terms must be accepted first on {page}"
        raise NotAvailableError(
            msg, hint="accept them there, then log in with: hf auth login", code="models.gated"
        ) from error
    except errors.RevisionNotFoundError as error:
        msg = f"model '{name.id}' has no revision '{name.revision}'"
        raise NotAvailableError(
            msg, hint=f"the revisions are listed on {page}", code="models.no_such_revision"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise unknown_model(name.id, cached_ids()) from error
    except (
        errors.HfHubHTTPError,
        errors.LocalEntryNotFoundError,
        HTTPError,
        ConnectionError,
    ) as error:
        msg = f"cannot reach the hub for '{name.id}': {_first_line(error)}"
        raise NotAvailableError(
            msg,
            hint="try again: the download continues where it stopped",
            code="models.unreachable",
        ) from error
    except OSError as error:
        raise _storage_error(error) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _storage_error(error: OSError) -> GymError:
    if error.errno == errno.ENOSPC:
        return DoesNotFitError(
            f"disk full while downloading to '{cache_folder()}'", code="models.disk_too_small"
        )
    return StorageError(
        f"cache folder '{cache_folder()}' cannot be written: {_first_line(error)}",
        code="models.not_writable",
    )
