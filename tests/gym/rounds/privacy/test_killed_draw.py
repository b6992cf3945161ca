"""`kill -9` of the aggregation of a private round: noise is booked before it is drawn, each time.

A round has one result or none, the ledger loses nothing that it said it has, and what was settled
is what is published. The key that opens the contributions is deleted with the result, also where
the program was killed between the two.
"""

import random
import shutil
import sqlite3
import sys
import time
from collections import Counter
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.gym.rounds.compute.conftest import Sources, run_round, sources
from tests.gym.rounds.privacy.drawing import notes_in, server, work
from tests.gym.rounds.protocol.people import LOG
from zoo.core import digest
from zoo.gym.errors import StorageError
from zoo.gym.rounds.compute import private
from zoo.gym.rounds.compute.private import publish_private
from zoo.gym.rounds.compute.publish import work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import describe
from zoo.gym.signing import keys as ed25519

__all__ = ["sources"]

KILLS = [pytest.param(12, marks=pytest.mark.slow), pytest.param(150, marks=pytest.mark.nightly)]
AFTER = 0.3
"""Half of the kills come after a booking, within this share of the time of an undisturbed run."""


class Life:
    """A private round from its reveals to its result, on a machine of its own.

    Attributes:
        draws: the draws that the ledger had when it was read last, with the report of each.
        settled: the file that was settled, once it is.
    """

    def __init__(self, folder: Path, ready: Path) -> None:
        shutil.copytree(ready, folder)
        self.home, self.storage = folder / "home", FolderStorage(folder / "round")
        self.round = open_round(self.storage, remember=False).state.id
        self.notes = folder / "notes"
        self.draws: dict[int, str | None] = {}
        self.spent: set[tuple[int, str]] = set()
        self.settled: str | None = None

    @property
    def folder(self) -> Path:
        return self.home / "data" / "rounds" / "work" / self.round

    def start(self, context: ForkServerContext) -> BaseProcess:
        given = (str(self.home), str(self.storage.folder), str(self.notes))
        process = context.Process(target=work, args=given)
        process.start()
        return process

    def finish(self, context: ForkServerContext) -> float:
        """Lets a process run to its end, and returns how long it took, in seconds."""
        start = time.monotonic()
        process = self.start(context)
        process.join()
        assert process.exitcode == 0, Path(f"{self.notes}.log").read_text()
        return time.monotonic() - start

    def check(self) -> str:
        """Holds what is on the disk to what was there before, and says how far the round is."""
        before, spent = self.draws, self.spent
        self._read_ledger()
        assert before.keys() <= self.draws.keys()
        assert spent <= self.spent
        assert all(self.draws[n] == report for n, report in before.items() if report)
        lines = notes_in(self.notes)
        assert lines.count("drawing") <= len(self.draws)  # booked, then drawn
        said = {int(line.split()[1]) for line in lines if line.startswith("booked")}
        assert said <= self.draws.keys()
        contributors = {key for number, key in self.spent if number == 1}
        assert all((n, key) in self.spent for n in self.draws for key in contributors)
        settled = [report for report in self.draws.values() if report]
        assert len(settled) <= 1
        if settled:
            self._check_settled(settled[0])
        return self._phase(bool(settled))

    def _read_ledger(self) -> None:
        with sqlite3.connect(self.home / "data" / "rounds" / "privacy.sqlite3") as db:
            self.draws = dict(db.execute("SELECT number, report FROM draws").fetchall())
            self.spent = set(db.execute("SELECT number, contributor FROM spent").fetchall())
        db.close()

    def _check_settled(self, report: str) -> None:
        """What was settled is the last draw, and its files never change again."""
        assert self.draws[max(self.draws)] == report
        assert digest((self.folder / "report.json").read_bytes()) == report
        found = describe(self.folder / "result.safetensors")[0].digest
        assert self.settled in {None, found}
        self.settled = found

    def _phase(self, settled: bool) -> str:
        opened = open_round(self.storage, remember=False)
        results = [objects.decode(one) for one in opened.entries[-1:]]
        if opened.state.result is None:
            return "settled" if settled else "booked" if self.draws else "before"
        assert opened.state.result == self.settled
        assert [one.context for one in results] == [objects.RESULT]
        return "published"

    def check_published(self) -> None:
        """One result, as it was settled; a later run changes nothing."""
        assert self.check() == "published"
        assert (self.folder.parents[1] / "sealing").exists()
        assert list((self.folder.parents[1] / "sealing").iterdir()) == []  # the key is deleted
        opened = open_round(self.storage, remember=False)
        checks = verify(opened, self.folder.with_name("again"), threads=1)
        assert [one for one in checks if one.ok is False] == []


@pytest.fixture
def ready(
    storage: FolderStorage,
    base: Path,
    sources: Sources,
    private_manifest: Manifest,
    tmp_path: Path,
) -> Path:
    """A folder with a private round that waits for its result, and the maker's home."""
    run_round(storage, base, sources, private_manifest)
    key = tmp_path / "home" / "data" / "keys" / "own.pem"
    key.parent.mkdir(parents=True, exist_ok=True)
    key.touch(mode=0o600)
    key.write_bytes(ed25519.to_pem(LOG.private))
    folder = tmp_path / "ready"
    shutil.copytree(tmp_path / "home", folder / "home")
    shutil.copytree(storage.folder, folder / "round")
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", KILLS)
def test_killed_aggregation_books_draws_and_publishes_once(
    kills: int, ready: Path, tmp_path: Path
) -> None:
    context, draw = server(), random.Random(kills)
    first = Life(tmp_path / "first", ready)
    first.finish(context)  # the process that is forked has started
    first.check_published()
    assert len(first.draws) == 1
    took_s = min(Life(tmp_path / f"timed{n}", ready).finish(context) for n in range(3))
    found: Counter[str] = Counter()
    number = rest = 0
    while rest < kills:
        number += 1
        life = Life(tmp_path / f"life{number}", ready)
        for _ in range(min(kills - rest, draw.randint(1, 4))):
            if (at := killed(life, context, draw, took_s)) is None:
                break
            found[at] += 1
            rest += 1
        life.finish(context)
        life.check_published()
        life.finish(context)  # once more: nothing is drawn, nothing is published again
        life.check_published()
        shutil.rmtree(life.home.parent)
    print(f"{kills} kills in {number} rounds of {took_s:.2f} s: {dict(found)}")
    assert found["booked"] + found["settled"] > 0  # between the booking and the log


def killed(
    life: Life, context: ForkServerContext, draw: random.Random, took_s: float
) -> str | None:
    """Kills a run at a random moment, and returns how far the round then is; None if it ended."""
    booked = len(notes_in(life.notes))
    process = life.start(context)
    if life.settled is None and draw.random() < 0.5:
        while process.is_alive() and len(notes_in(life.notes)) == booked:
            time.sleep(0.0005)
        process.join(draw.random() ** 2 * AFTER * took_s)  # most of them soon
    else:
        process.join(draw.uniform(0, 1.1) * took_s)
    if process.exitcode is not None:
        assert process.exitcode == 0, Path(f"{life.notes}.log").read_text()
        return None
    process.kill()
    process.join()
    return life.check()


@pytest.mark.slow
def test_key_left_by_a_killed_program_is_deleted_next_time(
    storage: FolderStorage,
    base: Path,
    sources: Sources,
    private_manifest: Manifest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def killed_before(text: str) -> None:
        raise StorageError("killed")

    run_round(storage, base, sources, private_manifest)
    with monkeypatch.context() as patch:
        patch.setattr(private, "forget_round_key", killed_before)
        with pytest.raises(StorageError):
            publish_private(storage, LOG, force=True)
    keys = tmp_path / "home" / "data" / "rounds" / "sealing"
    assert len(list(keys.iterdir())) == 1
    publish_private(storage, LOG, force=True)
    assert list(keys.iterdir()) == []
    assert (work_folder(open_round(storage).state.id) / "published.safetensors").exists()
