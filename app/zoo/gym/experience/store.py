"""The user's libraries: a folder for each name, a file for each version, and which one is used.

A version is never changed or reused; a rollback uses an earlier one again. Each is signed with the
user's key.
"""

import difflib
import os
import re
import shutil
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from zoo.gym.errors import GymError, GymWarning, InputError, NotAvailableError
from zoo.gym.experience.library.file import (
    as_foreign,
    digest_start,
    read_library,
    sign_library,
    signature_file,
    signer_of,
    write_library,
)
from zoo.gym.experience.library.item import LeftOut
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.sharing.quarantine import held_back
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
            of anybody else: its evidence is left out.
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
    held: tuple[LeftOut, ...] = ()

    @property
    def notices(self) -> list[str]:
        """What a user should know about lessons that are held back, in sentences."""
        return [f"in quarantine, it has {lesson.why}: {lesson.item.text}" for lesson in self.held]

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
    """Returns the names of all libraries whose folder can be listed.

    Warns:
        GymWarning: another one cannot.
    """
    readable: list[str] = []
    for path in _entries(_root()):
        try:
            readable += [path.name] if _versions(path) else []
        except PermissionError as error:
            message = f"{path}: left out: {error.strerror}"
            warnings.warn(message, GymWarning, stacklevel=2)
    return sorted(readable)


def versions(name: str) -> list[int]:
    """Returns the versions of a library, oldest first.

    Raises:
        NotAvailableError: there is no library of that name.
    """
    numbers = _versions(_root() / name) if NAME.fullmatch(name) else []
    if not numbers:
        near = difflib.get_close_matches(name, names(), n=1)
        suggestion = f". Did you mean '{near[0]}'?" if near else ""
        raise NotAvailableError(
            f"no library '{name}': expected the name of one{suggestion}",
            hint="list them: zoo-gym experience list",
            code="experience.no_library",
        )
    return numbers


def current(name: str) -> int:
    """Returns the version of a library that is used: the chosen one, else the newest.

    Raises:
        NotAvailableError: there is no library of that name.
        InputError: the choice cannot be read, or is no version.
    """
    numbers = versions(name)
    path = _root() / name / _CURRENT
    try:
        text = read_small(path).decode(errors="replace").strip()
    except FileNotFoundError:
        return numbers[-1]
    except OSError as error:
        raise InputError(
            f"{path}: it cannot be read ({error.strerror})", code="experience.unreadable_file"
        ) from error
    numbers = versions(name)  # again: one may have been saved and chosen since
    if _number(text) not in numbers:
        raise InputError(
            f"{path}: expected a version of {', '.join(map(str, numbers))}, got {text[:20]!r}",
            hint=f"choose one: zoo-gym experience rollback {name} {numbers[-1]}",
            code="experience.wrong_choice",
        )
    return _number(text)


def load(name: str, version: int | None = None) -> Stored:
    """Returns a version of a library, by default the one that is used.

    Raises:
        NotAvailableError: there is no such library or version.
        InputError: its file or its signature was changed, or it has none: anybody who can write
            in the folder could have made it.
    """
    number = current(name) if version is None else version
    _refuse_missing(name, number, versions(name))
    path = _file(name, number)
    library, digest = read_library(path)
    key = signer_of(path, digest)
    if key is None:
        raise InputError(
            f"{signature_file(path)}: expected your signature of the library, got none",
            hint=f"as lessons of somebody else: zoo-gym experience import {path} --name NAME",
            code="experience.not_signed",
        )
    signer = signer_name(key)
    if not signer:
        raise InputError(
            f"{signature_file(path)}: expected the signature of a key that you trust, got another",
            hint="with a key of yours that you had before: zoo-gym keys trust NAME KEY",
            code="experience.untrusted_signature",
        )
    return Stored(name, number, path, library, digest, signer)


def every() -> list[Library]:
    """Returns all versions of all libraries that can be read, also unsigned ones."""
    libraries: list[Library] = []
    for path in _files():
        with suppress(OSError, GymError):
            libraries.append(read_library(path)[0])
    return libraries


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
    if not signer:
        library = replace(as_foreign(library), parent=digest)
    return Stored(path.stem, 0, path, library, digest, signer, author)


def as_taken(stored: Stored) -> Library:
    """Returns the lessons of a file; its signer is the author of those without one."""
    items = stored.library.items
    authored = tuple(replace(item, author=item.author or stored.author) for item in items)
    return replace(stored.library, items=authored)


def _is_stored(digest: str) -> bool:
    start = digest_start(digest)
    for path in _files():
        with suppress(OSError, GymError), open_regular(path) as file:
            if file.read(len(start)) == start and read_library(path)[1] == digest:
                key = signer_of(path, digest)
                if key is not None and signer_name(key) == YOU:
                    return True
    return False


def load_given(library: str) -> Stored:
    """Returns a library by its name, `NAME@VERSION`, or the path of a file, to be used.

    Lessons of a file of somebody else, trusted or not, are held back if they look like orders.

    Raises:
        NotAvailableError: there is none.
        InputError: the version is no number, or the file was changed.
    """
    stored = load_candidates(library)
    if stored.version or stored.signer == YOU:
        return stored
    held = tuple(held_back(stored.library.items))
    if not held:
        return stored
    rest = stored.library.changed([lesson.item.id for lesson in held], ())
    return replace(stored, library=replace(rest, parent=stored.digest), held=held)


def load_candidates(library: str) -> Stored:
    """Returns a library as `load_given` does, with all lessons.

    Raises:
        NotAvailableError: there is none.
        InputError: the version is no number, or the file was changed.
    """
    if library.endswith(".json") or "/" in library or "\\" in library:
        return load_file(Path(library).expanduser())
    return load(*name_and_version(library))


def name_and_version(library: str) -> tuple[str, int | None]:
    """Returns the parts of `NAME@VERSION`; the version is None for a name alone.

    Raises:
        InputError: the version is no number.
    """
    name, at, text = library.partition("@")
    if at and not _is_number(text):
        raise InputError(
            f"{library}: expected NAME@VERSION with a number", code="experience.version"
        )
    return name, int(text) if at else None


def save(name: str, library: Library) -> Stored:
    """Stores a library as a new version, which is used from now on; the same one is not repeated.

    Raises:
        InputError: the name is none, or your key cannot be used.
        StorageError: it cannot be written.
    """
    check_name(name)
    own_key()
    folder = ensure_folder(_root() / name)
    numbers = _versions(folder)
    used: list[int] = []
    with suppress(GymError):  # a choice that cannot be read is replaced below
        used = [current(name)] if numbers else []
    for number in dict.fromkeys((*used, *numbers[-1:])):
        if not signature_file(_file(name, number)).exists():
            continue  # a run that was killed before it signed wrote it
        stored = load(name, number)
        if stored.library == library:
            use(name, number)
            return stored
    temporary = folder / f".{uuid.uuid4().hex}.new"
    try:
        digest = write_library(temporary, library)
        number = _take_number(temporary, name)
    finally:
        temporary.unlink(missing_ok=True)
    path = _file(name, number)
    sign_library(path, digest)
    use(name, number)
    return Stored(name, number, path, library, digest)


def _take_number(temporary: Path, name: str) -> int:
    """Gives a file the next free number, which another run may want at the same time."""
    folder = _root() / name
    while True:
        number = max(*_versions(folder), _highest(folder), 0) + 1
        path = _file(name, number)
        with storage_errors(path), suppress(FileExistsError):
            os.link(temporary, path)  # unlike a renaming it replaces nothing
            return number


def use(name: str, version: int) -> None:
    """Chooses the version of a library that is used.

    Raises:
        NotAvailableError: there is no such version.
        StorageError: the choice cannot be stored.
    """
    _refuse_missing(name, version, versions(name))
    write_beside(_root() / name / _CURRENT, f"{version}\n", sync=True)


def remove(name: str, version: int | None = None) -> list[int]:
    """Deletes a version of a library, or all of them, and returns their numbers.

    Once the version that is used is deleted, the newest is used.

    Raises:
        NotAvailableError: there is no such library or version.
        StorageError: a file cannot be deleted.
    """
    numbers, folder = versions(name), _root() / name
    if version is not None:
        _refuse_missing(name, version, numbers)
    removed = numbers if version is None else [version]
    is_used = _text(folder / _CURRENT) == str(version)
    with storage_errors(folder):
        for number in removed:
            path = _file(name, number)
            path.unlink(missing_ok=True)  # first: a version without its signature is refused
            signature_file(path).unlink(missing_ok=True)
        if removed == numbers:
            shutil.rmtree(folder)
        else:
            if is_used:
                (folder / _CURRENT).unlink()
            write_beside(folder / _HIGHEST, f"{max(numbers[-1], _highest(folder))}\n", sync=True)
    return removed


def check_name(name: str) -> None:
    """Checks the name of a library.

    Raises:
        InputError: it is none.
    """
    if not NAME.fullmatch(name):
        raise InputError(
            f"name '{name}': expected small letters, digits, '.', '-' and '_', at most 40",
            code="experience.library_name",
        )


def plain_name(text: str) -> str:
    """Returns a text as a name of a library."""
    plain = re.sub(r"[^a-z0-9_.-]+", "-", text.lower()).strip("-._")
    return plain[:40] or "library"


def _refuse_missing(name: str, version: int, numbers: Sequence[int]) -> None:
    if version not in numbers:
        listed = ", ".join(map(str, numbers))
        raise NotAvailableError(
            f"{name}: expected a version of {listed}, got {version}",
            code="experience.no_such_version",
        )


def _highest(folder: Path) -> int:
    """Returns the highest version that was deleted, 0 without one."""
    return _number(_text(folder / _HIGHEST))


def _text(path: Path) -> str:
    try:
        return read_small(path).decode(errors="replace").strip()
    except OSError:
        return ""


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 9


def _number(text: str) -> int:
    return int(text) if _is_number(text) else 0


def _root() -> Path:
    return folders().data / "experience"


def _file(name: str, version: int) -> Path:
    return _root() / name / f"{version:04d}.json"


def _files() -> Iterator[Path]:
    for name in names():
        yield from (_file(name, version) for version in versions(name))


def _entries(folder: Path) -> list[Path]:
    """Returns what is in a folder, nothing if it is none."""
    # not `glob`, for which a folder that may not be read is an empty one
    return list(folder.iterdir()) if folder.is_dir() else []


def _versions(folder: Path) -> list[int]:
    matches = (_VERSION.fullmatch(path.name) for path in _entries(folder))
    return sorted(int(match[1]) for match in matches if match)
