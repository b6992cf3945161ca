"""kill -9 of the server, a contributor and the maker, in a loop: no answer is lost."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.gym.rounds.conftest import fine_tune
from tests.gym.rounds.protocol.people import ALICE, BOB, LOG, terms
from tests.gym.rounds.server.processes import PROGRAM, ServerProcess, environment, serving
from zoo.core import digest
from zoo.gym.rounds.compute.publish import publish, work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.log.reader import LogReader
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.contributing import prepare, send_commitment, send_reveal
from zoo.gym.rounds.session.contributing import reveal as prepared_reveal
from zoo.gym.rounds.session.opening import inbox_name, open_round
from zoo.gym.rounds.session.writing import close_phase, create_round, take
from zoo.gym.rounds.storage.base import FolderStorage, Storage
from zoo.gym.rounds.storage.http import HttpStorage
from zoo.gym.signing import keys as ed25519

SOME = [pytest.param(6, marks=pytest.mark.slow), pytest.param(200, marks=pytest.mark.nightly)]


class Client:
    """A busy client in a process of its own, which is started again when it was killed."""

    def __init__(self, top: Path, role: str, address: str, token: str) -> None:
        self.answers, self._log = top / f"{role}.answers", top / f"{role}.log"
        self._home = top / f"{role}-home"
        self._words = [role, address, token, str(self.answers)]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [sys.executable, "-m", "tests.gym.rounds.server.busy", *self._words]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(words, stderr=log, env=environment(self._home))

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text()
        self.process.kill()
        self.process.wait()

    def lines(self) -> list[str]:
        """Returns the answers; the last one may have been cut in its line."""
        text = self.answers.read_text() if self.answers.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()


@contextmanager
def working(*clients: Client) -> Generator[None]:
    for client in clients:
        client.start()
    try:
        yield
    finally:
        for client in clients:
            if client.process is not None:
                client.process.kill()
                client.process.wait()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", SOME)
def test_what_was_acknowledged_is_there_after_any_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    draw = random.Random(kills)
    with serving(tmp_path) as server:
        address = f"{server.url}/rounds/busy"
        storage = HttpStorage(address, server.token("maker"))
        round_ = create_round(storage, terms(most=100_000), LOG)
        contributor = Client(tmp_path, "contributor", address, server.token("contributor"))
        maker = Client(tmp_path, "maker", address, server.token("maker"))
        with working(contributor, maker):
            for number in range(kills):
                before = len(contributor.lines()), len(maker.lines())
                wait(lambda: len(contributor.lines()) > before[0] + 1)  # noqa: B023
                wait(lambda: len(maker.lines()) > before[1])  # noqa: B023
                time.sleep(draw.uniform(0, 0.3))
                victim = (server, contributor, maker)[number % 3]
                victim.kill()
                victim.start()
        check_answers(storage, round_, contributor.lines(), maker.lines())


def wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def check_answers(storage: HttpStorage, round_: str, names: list[str], heads: list[str]) -> None:
    take(storage, LOG)
    opened = open_round(storage, expected=round_)
    logged = {inbox_name(entry) for entry in opened.entries}
    for name in names:
        if name.startswith("inbox/"):
            assert name in logged
        else:
            assert digest(storage.read(name) or b"") == name.rpartition("/")[2]
    for line in heads:
        size, root = line.split()
        assert LogReader(storage.read, int(size)).root().hex() == root
        assert opened.head.size >= int(size)
    assert min(len(names), len(heads)) > 1


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", SOME)
def test_a_maker_and_a_server_that_are_killed_publish_the_one_result(
    tmp_path: Path, base: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    draw = random.Random(kills)
    with serving(tmp_path) as server:
        key = tmp_path / "home" / "data" / "keys" / "own.pem"  # the maker is the log's writer
        key.parent.mkdir(parents=True, exist_ok=True)
        key.touch(mode=0o600)
        key.write_bytes(ed25519.to_pem(LOG.private))
        rest, took_s = kills, 0.0
        for number in count():
            name, more = f"round-{number}", manifest.model_copy(update={"pool": 100 + number})
            storage = HttpStorage(f"{server.url}/rounds/{name}", server.token("maker"))
            ready(storage, more, base, tmp_path)
            if number == 0:
                took_s = undisturbed_s(storage, server)
            while rest and not aggregated(storage, server, draw, took_s):
                rest -= 1
            found = publish(storage, LOG).report
            opened = open_round(storage)
            assert (opened.state.result, found.refused) == (found.result.digest, {})
            checks = verify(opened, work_folder(opened.state.id))
            assert [check for check in checks if check.ok is False] == []
            if not rest:
                break
    assert FolderStorage(server.folder / "round-0").names("log")


def ready(storage: Storage, manifest: Manifest, base: Path, folder: Path) -> None:
    """Starts a round and has two people commit and reveal."""
    create_round(storage, manifest, LOG)
    for seed, who in enumerate((ALICE, BOB), 1):
        source = folder / str(seed)
        if not source.exists():
            fine_tune(source, seed)
        send_commitment(*prepare(open_round(storage), source, base, who), storage)
    close_phase(storage, LOG)
    for who in (ALICE, BOB):
        send_reveal(*prepared_reveal(open_round(storage), who), storage)
    close_phase(storage, LOG)


def aggregate(storage: HttpStorage, server: ServerProcess) -> subprocess.Popen[bytes]:
    """Starts a process that computes the result."""
    words = [*PROGRAM, "round", "aggregate", "--round", storage.address]
    return subprocess.Popen(
        words, env=environment(server.home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def undisturbed_s(storage: HttpStorage, server: ServerProcess) -> float:
    """Returns how long it takes to compute a result, with all imports, in seconds."""
    start = time.monotonic()
    assert aggregate(storage, server).wait() == 0
    return time.monotonic() - start


def aggregated(
    storage: HttpStorage, server: ServerProcess, draw: random.Random, took_s: float
) -> bool:
    """Has a process compute the result, kills it or the server, and returns if it was done."""
    process = aggregate(storage, server)
    with suppress(subprocess.TimeoutExpired):
        process.wait(draw.uniform(0.3, 1.0) * took_s)  # later, few would be killed
        return process.returncode == 0
    if draw.random() < 0.5:
        server.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0, 10))  # without a server
        server.start()
    process.kill()
    process.wait()
    return False
