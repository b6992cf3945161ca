"""Contributions of lessons: libraries reduced to what is published, and which lessons count.

Texts, parents and licences alone: no sources, counts, evidence, authors or pins. What is refused
here is refused by everybody with the same words, so reasons name nothing that a version of Python
says of a file. Of lessons that say the same the first commitment counts, whoever else contributed
it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.experience.library.file import MOST_BYTES, read_library, write_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.sharing.limits import alike, alike_words, words_of
from zoo.gym.experience.sharing.quarantine import suspicion
from zoo.gym.files import read_errors, read_small
from zoo.gym.rounds.compute.collect import fetch_all
from zoo.gym.rounds.protocol.lessons import terms_of
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.objects import is_known_everywhere
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.signing import PublicKey

_NO_LIBRARY = "expected a library as zoo-gym writes it, got another file"


def reduced(library: Library, model: str) -> Library:
    """Returns what is published of a library."""
    items = (Item(lesson.text, lesson.parents, licence=lesson.licence) for lesson in library.items)
    return Library(tuple(items), model)


def write_lessons(library: Library, manifest: Manifest, out: Path) -> Library:
    """Writes what a library contributes to a round, and returns it as readers have it.

    Raises:
        InputError: a lesson is in quarantine or beyond a limit; it is named.
        StorageError: the file cannot be written.
    """
    published = reduced(library, manifest.base.model)
    _refuse(_fault(published, manifest))
    write_library(out, published)
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
        raise InputError(f"contribution: {_NO_LIBRARY}", code="rounds.no_library") from None
    if library != reduced(library, manifest.base.model):
        _refuse(f"expected texts, parents and licences alone, for {manifest.base.model}")
    _refuse(_fault(library, manifest))
    return library


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise InputError(f"contribution: {fault}", code="rounds.lessons_refused")


def _fault(library: Library, manifest: Manifest) -> str | None:
    count, most = len(library.items), terms_of(manifest).most
    if not 1 <= count <= most:
        return f"expected 1 to {most} lessons of a contributor, got {count}"
    for lesson in library.items:
        if not is_known_everywhere(f"{lesson.text}{lesson.licence}"):
            return f"lesson {_named(lesson)}: expected characters of Unicode 3.2, got others"
        if (reason := suspicion(lesson.text)) is not None:
            return f"lesson {_named(lesson)}: expected one without {reason}"
    for lesson, other in combinations(library.items, 2):
        if alike(lesson.text, other.text):
            return f"expected different lessons, got {_named(lesson)} and {_named(other)}"
    return None


def _named(lesson: Item) -> str:
    return f"[{lesson.id[:6]}] {lesson.text}"


@dataclass(frozen=True)
class Candidate:
    """A lesson of a contribution.

    Attributes:
        authors: all who contributed it, or one that says the same.
        same: the lesson of an earlier commitment that says the same; None if this is the first.
    """

    item: Item
    contributor: PublicKey
    authors: frozenset[PublicKey]
    same: "Candidate | None" = None

    @property
    def copied(self) -> str:
        """A sentence about the lesson that this one repeats; empty for the first."""
        if self.same is None:
            return ""
        name, author = f"[{self.same.item.id[:6]}]", self.same.contributor.fingerprint
        return f"it says the same as {name} of {author}, earlier in the log"


@dataclass(frozen=True)
class Candidates:
    """What was contributed to a round.

    Attributes:
        lessons: of all contributions that count, in the order of the commitments.
        contributors: the keys that count, in the same order.
        refused: why those of others do not.
    """

    lessons: Sequence[Candidate]
    contributors: Sequence[PublicKey]
    refused: Mapping[PublicKey, str]

    @property
    def first(self) -> list[Candidate]:
        """Those that are no copies: what is measured."""
        return [lesson for lesson in self.lessons if lesson.same is None]


def candidates_of(state: State, storage: Storage, folder: Path) -> Candidates:
    """Fetches what was revealed; whole files in the folder are not fetched again.

    Args:
        state: of a round of lessons, after its reveals are closed.

    Raises:
        StorageError: the storage cannot be read, or a file not be written.
    """
    candidates: list[Candidate] = []
    counted: list[PublicKey] = []
    words: list[Sequence[str]] = []
    read = partial(read_lessons, manifest=state.manifest)
    allowed, refused = fetch_all(state, storage, folder, read)
    libraries = dict(allowed)
    for key in (key for key in state.commits if key in libraries):
        contributed = [
            _candidate(lesson, key, candidates, words) for lesson in libraries[key].items
        ]
        if all(candidate.same for candidate in contributed):
            refused[key] = f"a copy of earlier contributions: {contributed[0].copied}"
        else:
            counted.append(key)
        candidates += contributed
        words += [words_of(candidate.item.text) for candidate in contributed]
    return Candidates(_with_authors(candidates), counted, refused)


def _candidate(
    lesson: Item, key: PublicKey, earlier: Sequence[Candidate], words: Sequence[Sequence[str]]
) -> Candidate:
    lesson_words = words_of(lesson.text)
    for candidate, theirs in zip(earlier, words, strict=True):
        if candidate.same is None and (
            candidate.item.id == lesson.id or alike_words(theirs, lesson_words)
        ):
            return Candidate(lesson, key, frozenset(), candidate)
    return Candidate(lesson, key, frozenset())


def _with_authors(candidates: Sequence[Candidate]) -> list[Candidate]:
    authors: dict[tuple[str, PublicKey], set[PublicKey]] = defaultdict(set)
    for candidate in candidates:
        for of in filter(None, (candidate, candidate.same)):
            authors[of.item.id, of.contributor].add(candidate.contributor)
    return [
        replace(candidate, authors=frozenset(authors[candidate.item.id, candidate.contributor]))
        for candidate in candidates
    ]
