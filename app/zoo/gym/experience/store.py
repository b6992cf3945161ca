"""The user's libraries: a folder for each name, a file for each version, and which one is used.

A version is never changed or reused; a rollback uses an earlier one again. Each is signed with the
user's key.
"""

import difflib
import os
import re
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.experience.library.file import (
    as_foreign,
    digest_start,
    read_library,
    sign_library,
    signature_file,
    signer_of,
    write_library,
)
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.sharing.quarantine import HeldBack, held_back
from zoo.gym.files import open_regular, read_small, storage_errors, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.signing import YOU, own_key, signer_name

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")

_VERSION = re.compile(r"(\d{4})\.json")
_CURRENT = "current"
_HIGHEST = "highest"
"""The highest version there was, once one is deleted: its number is not used again."""


@dataclass(frozen=True)
class Stored:
    """A version in the store.

    Attributes:
        name: the library's name.
        version: its number, from 1.
        path: its file.
        library: the lessons.
        digest: the file's digest.
        signer: who vouches for its evidence: `you`, or the name of a trusted key; empty for a file
            of anybody else, whose evidence is left out.
        author: the trusted key of somebody else that signed a file; empty without one.
        held: lessons of such a file that are held back, and why.
    """

    name: str
    version: int
    path: Path
    library: Library
    digest: str
    signer: str = YOU
    author: str = ""
    held: tuple[HeldBack, ...] = ()

    @property
    def notices(self) -> list[str]:
        """What a user should know of lessons that are held back, in sentences."""
        return [f"in quarantine, it has {one.why}: {one.item.text}" for one in self.held]

    @property
    def facts(self) -> dict[str, object]:
        """The figures of the library, for programs."""
        return {
            "name": self.name,
            "version": self.version,
            "file": str(self.path),
            "digest": self.digest,
            "lessons": len(self.library.items),
            "tokens": self.library.tokens,
            "model": self.library.model,
            "teacher": self.library.teacher,
            "domain": self.library.domain,
            "evidence": dict(self.library.evidence),
            "signer": self.signer,
        }


def names() -> list[str]:
    """Returns the names of all libraries."""
    folder = _root()
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if _versions(path))


def versions(name: str) -> list[int]:
    """Returns the versions of a library, oldest first.

    Raises:
        NotAvailableError: there is no library of that name.
    """
    found = _versions(_root() / name) if NAME.fullmatch(name) else []
    if not found:
        near = next(iter(difflib.get_close_matches(name, names(), n=1)), None)
        mean = f". Did you mean '{near}'?" if near else ""
        raise NotAvailableError(
            f"no library '{name}': expected the name of one{mean}",
            hint="list them: zoo-gym experience list",
        )
    return found


def current(name: str) -> int:
    """Returns the version of a library that is used: the chosen one, else the newest.

    Raises:
        NotAvailableError: there is no library of that name.
        InputError: what was chosen cannot be read, or is no version.
    """
    known = versions(name)
    path = _root() / name / _CURRENT
    try:
        text = read_small(path).decode(errors="replace").strip()
    except FileNotFoundError:
        return known[-1]
    except OSError as error:
        raise InputError(f"{path}: it cannot be read ({error.strerror})") from error
    chosen = int(text) if text.isdecimal() and text.isascii() and len(text) < 9 else 0
    if chosen not in known:
        listed = ", ".join(map(str, known))
        raise InputError(
            f"{path}: expected a version of {listed}, got {text[:20]!r}",
            hint=f"choose one: zoo-gym experience rollback {name} {known[-1]}",
        )
    return chosen


def load(name: str, version: int | None = None) -> Stored:
    """Returns a version of a library, by default the one that is used.

    Raises:
        NotAvailableError: there is no such library or version.
        InputError: its file or its signature was changed, or it has none: anybody who can write
            in the folder could have made it.
    """
    known = versions(name)
    number = current(name) if version is None else version
    if number not in known:
        listed = ", ".join(map(str, known))
        raise NotAvailableError(f"{name}: expected a version of {listed}, got {number}")
    path = _root() / name / f"{number:04d}.json"
    library, digest = read_library(path)
    signer = _signer(path, digest)
    if signer is None:
        raise InputError(
            f"{signature_file(path)}: expected your signature of the library, got none",
            hint=f"as lessons of somebody else: zoo-gym experience import {path} --name NAME",
        )
    if signer == "":
        raise InputError(
            f"{signature_file(path)}: expected the signature of a key that you trust, got another",
            hint="with a key of yours that you had before: zoo-gym keys trust NAME KEY",
        )
    return Stored(name, number, path, library, digest, signer)


def every() -> list[Library]:
    """Returns all versions of all libraries that can be read, also unsigned ones."""
    found: list[Library] = []
    for name in names():
        for number in versions(name):
            with suppress(OSError, GymError):
                found.append(read_library(_root() / name / f"{number:04d}.json")[0])
    return found


def load_file(path: Path) -> Stored:
    """Returns the library in a file, without evidence unless you or a trusted key vouch for it.

    Yours is a file that has the digest of a stored version, or your signature beside it.

    Raises:
        NotAvailableError: there is no file.
        InputError: it or its signature was changed.
    """
    library, digest = read_library(path)
    key = signer_of(path, digest)
    signed_by = "" if key is None else signer_name(key)
    signer = signed_by or (YOU if _is_stored(digest) else "")
    author = str(key) if signed_by not in ("", YOU) else ""
    kept = library if signer else replace(as_foreign(library), parent=digest)
    return Stored(path.stem, 0, path, kept, digest, signer, author)


def as_taken(found: Stored) -> Library:
    """Returns the lessons of a file with who signed it as the author of those without one."""
    items = [replace(one, author=one.author or found.author) for one in found.library.items]
    return replace(found.library, items=tuple(items))


def _signer(path: Path, digest: str) -> str | None:
    """Returns the name of who signed a library: None without a signature, empty for a stranger."""
    key = signer_of(path, digest)
    return None if key is None else signer_name(key)


def _is_stored(digest: str) -> bool:
    """Returns whether a stored version that you signed has a digest."""
    start = digest_start(digest)
    for name in names():
        for number in versions(name):
            path = _root() / name / f"{number:04d}.json"
            with suppress(OSError, GymError), open_regular(path) as file:
                same = file.read(len(start)) == start and read_library(path)[1] == digest
                if same and _signer(path, digest) == YOU:
                    return True
    return False


def load_given(given: str) -> Stored:
    """Returns a library by its name, `NAME@VERSION`, or the path of a file, to be used.

    Lessons of a file of somebody else, trusted or not, are held back if they look like orders.

    Raises:
        NotAvailableError: there is none.
        InputError: the version is no number, or the file was changed.
    """
    found = load_candidates(given)
    is_of_others = not found.version and found.signer != YOU
    held = held_back(found.library.items) if is_of_others else []
    if not held:
        return found
    rest = found.library.changed([one.item.id for one in held], ())
    return replace(found, library=replace(rest, parent=found.digest), held=tuple(held))


def load_candidates(given: str) -> Stored:
    """Returns a library as `load_given` does, with all lessons.

    Raises:
        NotAvailableError: there is none.
        InputError: the version is no number, or the file was changed.
    """
    if given.endswith(".json") or "/" in given or "\\" in given:
        return load_file(Path(given).expanduser())
    name, at, number = given.partition("@")
    if at and not (number.isascii() and number.isdecimal() and len(number) < 9):
        raise InputError(f"{given}: expected NAME@VERSION with a number")
    return load(name, int(number) if at else None)


def save(name: str, library: Library) -> Stored:
    """Stores a library as a new version, which is used from now on; the same one is not repeated.

    Raises:
        InputError: the name is none, or your key cannot be used.
        StorageError: it cannot be written.
    """
    check_name(name)
    own_key()
    folder = ensure_folder(_root() / name)
    known = _versions(folder)
    used: list[int] = []
    with suppress(GymError):  # a choice that cannot be read is replaced below
        used = [current(name)] if known else []
    for number in dict.fromkeys((*used, *known[-1:])):
        # one that was killed before it was signed is left alone
        if not signature_file(folder / f"{number:04d}.json").exists():
            continue
        same = load(name, number)
        if same.library == library:
            use(name, number)
            return same
    own = folder / f".{uuid.uuid4().hex}.new"
    try:
        digest = write_library(own, library)
        number = _take_number(own, folder)
    finally:
        own.unlink(missing_ok=True)
    path = folder / f"{number:04d}.json"
    sign_library(path, digest)
    use(name, number)
    return Stored(name, number, path, library, digest)


def _take_number(own: Path, folder: Path) -> int:
    """Gives a file the next free number, which another run may want at the same time."""
    while True:
        number = max(*_versions(folder), _highest(folder), 0) + 1
        path = folder / f"{number:04d}.json"
        with storage_errors(path), suppress(FileExistsError):
            os.link(own, path)  # unlike a renaming it replaces nothing
            return number


def use(name: str, version: int) -> None:
    """Chooses the version of a library that is used.

    Raises:
        NotAvailableError: there is no such version.
        StorageError: the choice cannot be stored.
    """
    if version not in versions(name):
        listed = ", ".join(map(str, versions(name)))
        raise NotAvailableError(f"{name}: expected a version of {listed}, got {version}")
    write_beside(_root() / name / _CURRENT, f"{version}\n", sync=True)


def remove(name: str, version: int | None = None) -> list[int]:
    """Deletes a version of a library, or all of them, and returns their numbers.

    Once the version that is used is deleted, the newest is used.

    Raises:
        NotAvailableError: there is no such library or version.
        StorageError: a file cannot be deleted.
    """
    known, folder = versions(name), _root() / name
    if version is not None and version not in known:
        listed = ", ".join(map(str, known))
        raise NotAvailableError(f"{name}: expected a version of {listed}, got {version}")
    gone = known if version is None else [version]
    was_used = version is not None and _is_chosen(folder, version)
    with storage_errors(folder):
        for number in gone:
            path = folder / f"{number:04d}.json"
            path.unlink(missing_ok=True)  # first: a version without its signature is refused
            signature_file(path).unlink(missing_ok=True)
        if gone == known:
            shutil.rmtree(folder)
        else:
            if was_used:
                (folder / _CURRENT).unlink()
            write_beside(folder / _HIGHEST, f"{max(known[-1], _highest(folder))}\n", sync=True)
    return gone


def _is_chosen(folder: Path, version: int) -> bool:
    try:
        return read_small(folder / _CURRENT).strip() == str(version).encode()
    except OSError:
        return False


def check_name(name: str) -> None:
    """Refuses what is no name of a library.

    Raises:
        InputError: see above.
    """
    if not NAME.fullmatch(name):
        raise InputError(
            f"name '{name}': expected small letters, digits, '.', '-' and '_', at most 40"
        )


def name_of(path: Path) -> str:
    """Returns the name of the library that is learned from a file."""
    return plain_name(path.stem)


def plain_name(text: str) -> str:
    """Returns a text as a name of a library."""
    plain = re.sub(r"[^a-z0-9_.-]+", "-", text.lower()).strip("-._")
    return plain[:40] or "library"


def _highest(folder: Path) -> int:
    """Returns the highest version that was deleted, 0 without one."""
    try:
        text = read_small(folder / _HIGHEST).decode().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 9 else 0


def _root() -> Path:
    return folders().data / "experience"


def _versions(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    found = (_VERSION.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in found if match)
