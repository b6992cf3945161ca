"""The lessons that were contributed to a round: those that are measured, and copies of them.

In the order of the commitments: of lessons that say the same the first one counts, whoever else
contributed it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from zoo.gym.experience.library.item import Item
from zoo.gym.experience.sharing.limits import alike_words, words_of
from zoo.gym.rounds.compute.reasons import fetch_all
from zoo.gym.rounds.lessons.contribution import read_lessons
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.signing import PublicKey


@dataclass(frozen=True)
class Candidate:
    """A lesson of a contribution.

    Attributes:
        item: the lesson.
        contributor: whose it is.
        authors: all who contributed it, or one that says the same.
        same: the lesson of an earlier commitment that says the same; None if this is the first.
    """

    item: Item
    contributor: PublicKey
    authors: frozenset[PublicKey]
    same: "Candidate | None" = None

    @property
    def copied(self) -> str:
        """What a copy is one of, in words; empty for the first."""
        if self.same is None:
            return ""
        said, whose = f"[{self.same.item.id[:6]}]", self.same.contributor.fingerprint
        return f"it says the same as {said} of {whose}, earlier in the log"


@dataclass(frozen=True)
class Candidates:
    """What was contributed to a round.

    Attributes:
        lessons: of all contributions that count, in the order of the commitments.
        contributors: whose contributions count, in the same order.
        refused: why those of others do not.
    """

    lessons: Sequence[Candidate]
    contributors: Sequence[PublicKey]
    refused: Mapping[PublicKey, str]

    @property
    def first(self) -> list[Candidate]:
        """Those that are no copies: what is measured."""
        return [one for one in self.lessons if one.same is None]


def candidates_of(state: State, storage: Storage, folder: Path) -> Candidates:
    """Fetches what was revealed; whole files in the folder are not fetched again.

    Args:
        state: of a round of lessons whose reveals are closed.
        storage: where the chunks are.
        folder: of this round on this machine.

    Raises:
        StorageError: the storage cannot be read, or a file not be written.
    """
    found: list[Candidate] = []
    counted: list[PublicKey] = []
    words: list[Sequence[str]] = []
    read = partial(read_lessons, manifest=state.manifest)
    allowed, refused = fetch_all(state, storage, folder, read)
    libraries = dict(allowed)
    for key in (key for key in state.commits if key in libraries):
        own = [_candidate(item, key, found, words) for item in libraries[key].items]
        if all(one.same for one in own):
            refused[key] = f"a copy of earlier contributions: {own[0].copied}"
        else:
            counted.append(key)
        found += own
        words += [words_of(one.item.text) for one in own]
    return Candidates(_with_authors(found), counted, refused)


def _candidate(
    item: Item, key: PublicKey, earlier: Sequence[Candidate], words: Sequence[Sequence[str]]
) -> Candidate:
    own = words_of(item.text)
    for one, theirs in zip(earlier, words, strict=True):
        if one.same is None and (one.item.id == item.id or alike_words(theirs, own)):
            return Candidate(item, key, frozenset(), one)
    return Candidate(item, key, frozenset())


def _with_authors(found: Sequence[Candidate]) -> list[Candidate]:
    authors = {(one.item.id, one.contributor): {one.contributor} for one in found}
    for one in found:
        if one.same is not None:
            authors[one.same.item.id, one.same.contributor].add(one.contributor)
    return [replace(one, authors=frozenset(authors[one.item.id, one.contributor])) for one in found]
