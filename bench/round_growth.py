"""A round of a thousand signed contributions of 1e7 signs each, from the files to the verification.

Contributions are random signs with a common direction (a weight agrees with it with probability
0.7, as in honest fine-tunes), written as files, committed to, revealed and stored in a folder. One
process, one thread; CPU seconds of each phase, and the peak of memory of the whole.

usage: python -m bench round_growth      ten minutes of one core, 3 GB of disk
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import numpy as np

from bench.measure import MB, Case, reset_peak_bytes, status_bytes
from zoo.gym.delta.codecs.dense import dense_term
from zoo.gym.delta.codecs.tensor import Encoded
from zoo.gym.delta.file.terms import TensorTerms
from zoo.gym.delta.file.writer import Spool, write_delta
from zoo.gym.rounds.compute.publish import publish, work_folder
from zoo.gym.rounds.compute.verify import verify
from zoo.gym.rounds.contribution.check import SIGNS
from zoo.gym.rounds.contribution.write import contribution_header
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import FORMAT, Manifest, parse_manifest
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import close_phase, create_round, leave
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import describe, store
from zoo.gym.signing import OwnKey, PublicKey, sign
from zoo.gym.signing.keys import public_of

CONTRIBUTORS, ROWS, COLUMNS = 1000, 2500, 4000
AGREE = 0.7
"""The probability that a sign is that of the common direction."""

Seconds = dict[str, float]


def person(number: int) -> OwnKey:
    """Returns the key of a contributor."""
    private = sha256(f"round growth {number}".encode()).digest()
    return OwnKey(private, PublicKey(public_of(private)))


def terms(writer: OwnKey, contributors: int) -> Manifest:
    """Returns the terms of a round of signs about one matrix, with the default rule."""
    return parse_manifest(
        {
            "format": FORMAT,
            "name": "growth",
            "kind": "delta",
            "base": {"identity": "0" * 64, "model": "a matrix", "revision": ""},
            "tensors": [{"name": "w", "shape": [ROWS, COLUMNS]}],
            "form": "signs",
            "caps": {"file_bytes": 4_000_000, "rank": 64, "value": 1.0},
            "method": "byzantine_robust",
            "f": None,
            "quorum": contributors,
            "most": contributors,
            "deadlines": {
                "commit": "2030-01-01T00:00:00Z",
                "reveal": "2030-01-02T00:00:00Z",
                "extension_s": 0,
            },
            "evaluation": None,
            "refit": None,
            "pool": 1000,
            "newcomers": None,
            "previous": None,
            "privacy": None,
            "lessons": None,
            "keys": [{"role": "log", "key": str(writer.public), "expires": "2031-01-01T00:00:00Z"}],
        }
    )


def write_file(number: int, manifest: Manifest, out: Path) -> None:
    """Writes the contribution of one contributor."""
    common = np.random.default_rng(0).integers(0, 2, (ROWS, COLUMNS), np.uint8)
    own = np.random.default_rng(number + 1).random((ROWS, COLUMNS), np.float32) >= AGREE
    bits = np.packbits(common ^ own, axis=1, bitorder="little")
    scale = np.full(1, 0.01, np.float32)
    found = TensorTerms(name="w", shape=(ROWS, COLUMNS), terms=(dense_term(SIGNS),))
    with Spool(out.parent) as spool:
        spool.add_tensor(Encoded(found, {"sign": bits, "scale": scale}))
        write_delta(out, contribution_header((found,), manifest), spool)


def run(contributors: int = CONTRIBUTORS) -> Iterator[Case]:
    """Yields the cases."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["ZOO_GYM_HOME"] = str(folder / "home")
        yield from _measured(folder, contributors)


def _measured(folder: Path, contributors: int) -> Iterator[Case]:
    writer, storage = person(-1), FolderStorage(folder / "round")
    manifest, seconds = terms(writer, contributors), dict[str, float]()
    reset_peak_bytes()
    name = create_round(storage, manifest, writer)
    _contribute(folder, storage, manifest, name, seconds)
    with _timed("closing the commitments", seconds):
        close_phase(storage, writer)
    _reveal(folder, storage, contributors, name, seconds)
    with _timed("closing the reveals", seconds):
        close_phase(storage, writer)
    with _timed("aggregate", seconds):
        computed = publish(storage, writer, threads=1)
    assert len(computed.report.contributions) == contributors, computed.report.refused
    with _timed("verify", seconds):
        opened = open_round(storage)
        checks = list(verify(opened, work_folder(name), threads=1))
    assert all(check.ok for check in checks), [check for check in checks if not check.ok]
    for what, spent in seconds.items():
        yield Case(f"{contributors} x 1e7: {what}", spent, "CPU-s", "1 s", spent, "")
    peak = status_bytes("VmHWM") / MB
    yield Case(f"{contributors} x 1e7: memory", peak, "MB", "1 MB", peak, "")


def _contribute(
    folder: Path, storage: FolderStorage, manifest: Manifest, name: str, seconds: Seconds
) -> None:
    (folder / "files").mkdir()
    for number in range(manifest.quorum):
        who, file = person(number), folder / "files" / str(number)
        with _timed("writing the files", seconds):
            write_file(number, manifest, file)
        with _timed("commitments", seconds):
            found = objects.commitment(describe(file)[0].digest, _nonce(number), who.public)
            leave(storage, sign(who, objects.COMMIT, objects.body_of(name, commitment=found)))


def _reveal(
    folder: Path, storage: FolderStorage, contributors: int, name: str, seconds: Seconds
) -> None:
    for number in range(contributors):
        file = folder / "files" / str(number)
        with _timed("reveals", seconds):
            stored = store(file, storage)
            body = objects.body_of(
                name,
                digest=stored.digest,
                bytes=stored.bytes,
                chunks=stored.chunks,
                nonce=_nonce(number),
                examples=0,
            )
            leave(storage, sign(person(number), objects.REVEAL, body))
        file.unlink()


def _nonce(number: int) -> str:
    return sha256(f"nonce {number}".encode()).hexdigest()


@contextmanager
def _timed(what: str, seconds: Seconds) -> Iterator[None]:
    started = time.process_time()
    yield
    seconds[what] = seconds.get(what, 0.0) + time.process_time() - started
