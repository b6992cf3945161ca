"""A kind of round in a file of its own: people contribute words, and the longest wins."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.publish import result_entry
from zoo.gym.rounds.compute.result import FORMAT
from zoo.gym.rounds.compute.verify import Check, published_report
from zoo.gym.rounds.kind import Choices, Fields, Kind, Prints, Request
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.records import Measured
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.session.contributing import Prepared, prepare_source
from zoo.gym.rounds.session.opening import Opened
from zoo.gym.rounds.session.writing import writer_of
from zoo.gym.rounds.storage.chunks import StoredFile, describe, fetch_new, store, store_bytes
from zoo.gym.signing import OwnKey, PublicKey, Signed, canonical


class Words(Kind[str, Path]):
    """Rounds of words; what is contributed is sealed by writing it backwards."""

    combines = content = sends = "words"
    example = "WORD"
    file, coded = "drow.txt", "word.txt"
    without_effect: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "contribute": {"base": "a round of words"}
    }

    def check(self, manifest: Manifest) -> None:
        if manifest.refit:
            raise ValueError("refit: expected null in a round of words, got a value")

    def code(self, manifest: Manifest, source: str, out: Path) -> None:
        out.write_text(source)

    def seal(self, manifest: Manifest, round_: str, key: PublicKey, folder: Path) -> None:
        (folder / self.file).write_text((folder / self.coded).read_text()[::-1])

    def check_file(self, path: Path, manifest: Manifest) -> None:
        if not path.read_text().isalpha():
            raise InputError("contribution: expected a word")

    def contribute(
        self, opened: Opened, given: Request, key: OwnKey, out: Prints
    ) -> tuple[Prepared, Signed, Fields]:
        own, entry = prepare_source(opened, given.name, given.name, key)
        out.answer(f"{own.file.name}: {own.bytes} letters")
        return own, entry, {"letters": own.bytes}

    def longest(self, opened: Opened, folder: Path) -> tuple[PublicKey, Path]:
        found: dict[PublicKey, Path] = {}
        for key, reveal in opened.state.reveals.items():
            found[key] = folder / reveal.digest
            file = StoredFile(reveal.digest, reveal.bytes, reveal.chunks)
            fetch_new(file, opened.storage, found[key])
        return max(found.items(), key=lambda item: (len(item[1].read_text()), item[0]))

    def publish(self, opened: Opened, key: OwnKey, choices: Choices) -> Path:
        folder = opened.storage.folder.parent  # type: ignore[attr-defined]
        with writer_of(opened.storage, key) as append:
            winner, path = self.longest(opened, folder)
            stored = vars(describe(path)[0])
            lists: Any = {"contributions": [], "refused": []}
            fields = {"format": FORMAT, "round": opened.state.id, "winner": str(winner)}
            report = canonical({**fields, **lists, "result": stored})
            store(path, opened.storage)
            store_bytes(report, opened.storage)
            append.add([result_entry(opened.state, key, stored["digest"], report)])
        return path

    def show(self, found: Path, opened: Opened, out: Prints) -> tuple[Fields, str | None]:
        out.answer(f"the longest word is {found.read_text()[::-1]}")
        return {"word": found.read_text()[::-1]}, None

    def checks(self, opened: Opened, folder: Path, threads: int | None) -> Iterator[Check]:
        _, path = self.longest(opened, folder)
        yield Check("result", "the longest", ok=describe(path)[0].digest == opened.state.result)

    def rewards(self, opened: Opened, folder: Path) -> tuple[str, Mapping[str, int]]:
        return "all to one", {published_report(opened)["winner"]: opened.manifest.pool}

    def apply(self, opened: Opened, given: Request, out: Prints) -> Fields:
        return {}

    def is_measured(self, state: State) -> bool:
        return True

    def measure_options(self, manifest: Manifest, measured: Measured) -> str:
        return ""

    def rule(self, manifest: Manifest) -> str:
        return "the longest word"
