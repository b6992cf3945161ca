"""A contribution of lessons: a library reduced to what is published, and what a reader refuses.

Texts, parents and licences alone: no sources, counts, evidence, authors or pins. What is refused
here is refused by everybody with the same words, so reasons name nothing that a version of Python
says of a file.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.experience.library.file import MOST_BYTES, read_library, write_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.sharing.limits import alike
from zoo.gym.experience.sharing.quarantine import suspicion
from zoo.gym.files import read_errors, read_small
from zoo.gym.rounds.lessons.terms import terms_of
from zoo.gym.rounds.protocol.fields import is_known_everywhere
from zoo.gym.rounds.protocol.manifest import Manifest

_NO_LIBRARY = "expected a library as zoo-gym writes it, got another file"


def reduced(library: Library, model: str) -> Library:
    """Returns what is published of a library.

    Args:
        library: as its owner has it.
        model: the model of the round.
    """
    items = (Item(one.text, one.parents, licence=one.licence) for one in library.items)
    return Library(tuple(items), model)


def write_lessons(library: Library, manifest: Manifest, out: Path) -> Library:
    """Writes what a library contributes to a round, and returns it as readers have it.

    Args:
        library: as its owner has it.
        manifest: of the round.
        out: the file, replaced if it is there.

    Raises:
        InputError: a lesson is in quarantine or beyond a limit; it is named.
        StorageError: the file cannot be written.
    """
    found = reduced(library, manifest.base.model)
    _refuse(_fault(found, manifest))
    write_library(out, found)
    try:
        return read_lessons(out, manifest)
    except InputError:
        out.unlink()  # beyond the bytes of a file
        raise


def read_lessons(path: Path, manifest: Manifest) -> Library:
    """Returns a contribution that the manifest allows.

    Raises:
        InputError: it is not allowed; the lesson is named.
        StorageError: the file cannot be read.
    """
    with read_errors(path):
        content = read_small(path, most_bytes=MOST_BYTES)
    if len(content) > manifest.caps.file_bytes:
        most = manifest.caps.file_bytes
        _refuse(f"expected at most {most} bytes, got {len(content)}")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if not is_known_everywhere(text):
        _refuse("expected characters of Unicode 3.2, which every reader knows, got others")
    try:
        library, _ = read_library(path)
    except InputError:
        raise InputError(f"contribution: {_NO_LIBRARY}") from None
    if library != reduced(library, manifest.base.model):
        _refuse(f"expected texts, parents and licences alone, for {manifest.base.model}")
    _refuse(_fault(library, manifest))
    return library


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise InputError(f"contribution: {fault}")


def _fault(library: Library, manifest: Manifest) -> str | None:
    count, most = len(library.items), terms_of(manifest).most
    if not 1 <= count <= most:
        return f"expected 1 to {most} lessons of a contributor, got {count}"
    for item in library.items:
        if not is_known_everywhere(f"{item.text}{item.licence}"):
            return f"lesson {_named(item)}: expected characters of Unicode 3.2, got others"
        if (found := suspicion(item.text)) is not None:
            return f"lesson {_named(item)}: expected one without {found}"
    return _alike(library.items)


def _alike(items: Sequence[Item]) -> str | None:
    for one, other in combinations(items, 2):
        if alike(one.text, other.text):
            return f"expected different lessons, got {_named(one)} and {_named(other)}"
    return None


def _named(item: Item) -> str:
    return f"[{item.id[:6]}] {item.text}"
