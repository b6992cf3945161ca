"""A round of lessons in a folder, by people with fixed keys, whose files can be anything."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gym.rounds.protocol.people import LOG, digest_of, person
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.rounds.lessons.contribution import write_lessons
from zoo.gym.rounds.lessons.result import Combined, combine
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.lessons import Lessons
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.opening import Opened, open_round
from zoo.gym.rounds.session.terms import Common, lessons_manifest
from zoo.gym.rounds.session.writing import close_phase, create_round, leave, take
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import describe, store
from zoo.gym.signing import OwnKey, Signed, sign

GUS, GIL, GUY = (person(name) for name in ("gus", "gil", "guy"))
NOW = datetime(2026, 12, 1, tzinfo=UTC)
UNITS, SIGN, IDLE = "Check the units of each number.", "Check the sign at the end.", "Think twice."


def manifest_of(quorum: int = 1, seats: int = 10, pool: int = 1000, **lessons: Any) -> Manifest:
    """Returns the terms of a round in which two of three keys must have measured a lesson."""
    gates = lessons.pop("gates", (GUS, GIL, GUY))
    common = Common("sums", quorum=quorum, most=seats, pool=pool)
    terms = Lessons.model_validate({"least": 2, **lessons})
    return lessons_manifest(common, "m", terms, [one.public for one in gates], LOG.public, NOW)


class World:
    """A round whose storage is a folder.

    Attributes:
        storage: where it is.
        manifest: its terms.
        folder: where files of this machine are.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.storage, self.manifest = FolderStorage(folder / "round"), manifest
        self.folder = folder / "here"
        self.folder.mkdir()
        self.id = create_round(self.storage, manifest, LOG)
        self._files: list[tuple[OwnKey, Path]] = []

    def contribute(self, who: OwnKey, *texts: str) -> None:
        """Commits to lessons; the order of these calls is that of the commitments."""
        path = self.folder / f"of-{who.public.fingerprint}"
        write_lessons(Library(tuple(map(Item, texts))), self.manifest, path)
        self.smuggle(who, path.read_bytes())

    def smuggle(self, who: OwnKey, content: bytes) -> None:
        """Commits to a file that nobody checked."""
        path = self.folder / f"sent-{len(self._files)}"
        path.write_bytes(content)
        nonce, digest = digest_of(str(who.public)), describe(path)[0].digest
        found = objects.commitment(digest, nonce, who.public)
        self._leave(who, objects.COMMIT, commitment=found)
        take(self.storage, LOG)
        self._files.append((who, path))

    def reveal(self) -> None:
        """Closes both phases, all reveal."""
        close_phase(self.storage, LOG)
        for who, path in self._files:
            store(path, self.storage)
            nonce = digest_of(str(who.public))
            about = {**vars(describe(path)[0]), "nonce": nonce, "examples": 0}
            self._leave(who, objects.REVEAL, **about)
        close_phase(self.storage, LOG)

    def record(self, who: OwnKey, text: str, effect: float, **changes: object) -> Signed:
        """Returns the record of a measurement: with an interval of .15 on both sides."""
        low, high = max(-1.0, effect - 0.15), min(1.0, effect + 0.15)
        fields = {"item": Item(text).id, "text": text, "model": "m", "tasks": 24}
        values = {**fields, "effect": effect, "low": low, "high": high, **changes}
        body = objects.body_of(self.id, kind="lesson", values=values)
        return sign(who, objects.RECORD, body)

    def measure(self, effects: dict[str, float], who: Sequence[OwnKey] = (GUS, GIL)) -> None:
        """Leaves records of some lessons by some keys, and takes them into the log."""
        for key in who:
            for text, effect in effects.items():
                leave(self.storage, self.record(key, text, effect))
        take(self.storage, LOG)

    @property
    def opened(self) -> Opened:
        return open_round(self.storage, remember=False)

    def combined(self) -> Combined:
        """Computes the result as everybody does."""
        return combine(self.opened.state, self.storage, self.folder)

    def why(self) -> dict[str, str]:
        """Returns why each lesson is not kept, by its text; of copies that of the last."""
        return {of.item.text: one.why for of, one in self.combined().judged}

    def _leave(self, who: OwnKey, context: str, **fields: object) -> None:
        leave(self.storage, sign(who, context, objects.body_of(self.id, **fields)))
