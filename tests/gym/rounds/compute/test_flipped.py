"""Whatever byte of a published round is changed, who opens or verifies it reads which file it is.

Every file of the storage is changed, cut by a byte, lengthened by one and removed, and the round
verified by somebody who has fetched nothing before. Two kinds of files have no effect any more, and
a test says so: entries in the inbox that are in the log, and tiles of the log that a later one
replaced. A note of a witness that was removed is shown as missing, but fails nothing; one that was
changed is named by a warning.
"""

import os
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.compute.conftest import Sources, run_round
from tests.gym.rounds.contribution.conftest import LAYERS, SHAPES
from tests.gym.rounds.privacy.conftest import privacy as promise
from tests.gym.rounds.privacy.conftest import private_terms
from tests.gym.rounds.protocol.people import ALICE, BOB, DAVE, LOG
from zoo.gym.errors import GymError, GymWarning
from zoo.gym.rounds.compute.private import publish_private
from zoo.gym.rounds.compute.publish import publish
from zoo.gym.rounds.compute.verify import Check, verify
from zoo.gym.rounds.log.reader import levels, tile_name, widths
from zoo.gym.rounds.privacy.sealing import keep_round_key, new_key
from zoo.gym.rounds.protocol.manifest import Manifest, RoundKey
from zoo.gym.rounds.session.contributing import prepare
from zoo.gym.rounds.session.opening import open_round, witness
from zoo.gym.rounds.session.writing import create_round, leave, take
from zoo.gym.rounds.storage.base import FolderStorage

Form = Literal["signs", "lowrank", "float", "private"]
FORMS: tuple[Form, ...] = ("signs", "lowrank", "float", "private")
PLAIN, SLOW, MORE, NIGHTLY = 2, 8, 60, 2000
"""Bytes that are flipped in each file, at most; a smaller file has each flipped."""

CASES = [
    ("signs", PLAIN),
    pytest.param("lowrank", SLOW, marks=pytest.mark.slow),
    *(pytest.param(form, MORE, marks=pytest.mark.nightly) for form in FORMS),
    pytest.param("signs", NIGHTLY, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)]),
]


@pytest.fixture
def published(
    storage: FolderStorage,
    base: Path,
    manifest: Manifest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Form], FolderStorage]:
    """Returns a published round of a form, with a witness and two contributors."""
    monkeypatch.setattr(os, "fsync", lambda _: None)

    def made(form: Form) -> FolderStorage:
        key = RoundKey(role="witness", key=str(DAVE.public), expires=manifest.keys[0].expires)
        keys = (*manifest.keys, key)
        terms = manifest.model_copy(update={"keys": keys, "form": form})
        if form == "private":
            terms = private_terms(base, promise(keep_round_key(new_key())))
            terms = terms.model_copy(update={"keys": keys})
        run_round(storage, base, sources(form, tmp_path), terms)
        if form == "private":
            publish_private(storage, LOG, force=True)
        else:
            publish(storage, LOG)
        witness(open_round(storage), DAVE)
        return storage

    return made


def sources(form: Form, folder: Path) -> Sources:
    """Returns a fine-tune of each contributor: an adapter where the round takes nothing else."""
    found: Sources = {}
    for seed, who in enumerate((ALICE, BOB), 1):
        path = folder / f"tuned{seed}"
        if form == "lowrank":
            shapes = {name: SHAPES[name] for name in LAYERS}
            found[who] = disk.write_adapter(path, disk.lora_arrays(shapes, 2, seed), 2)
        else:
            change = disk.random_arrays({name: SHAPES[name] for name in LAYERS}, seed, 0.01)
            found[who] = disk.write_model(path, disk.plus(disk.random_arrays(SHAPES, 0), change))
    return found


def changes(content: bytes, most: int, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yields a content with a flipped byte, for `most` bytes and both ends, and of other lengths.

    Every bit of a byte may be flipped: which, is drawn.
    """
    size = len(content)
    places = {0, size - 1, *draw.sample(range(size), min(most, size))}
    for at in sorted(places):
        byte = content[at] ^ draw.randrange(1, 256)
        yield f"byte {at}", content[:at] + bytes([byte]) + content[at + 1 :]
    yield "cut", content[:-1]
    yield "lengthened", content + bytes([draw.randrange(256)])


def verified(storage: FolderStorage, home: Path) -> str:
    """Returns what a stranger reads who verifies a round: warnings, an error, failed checks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GymWarning)
        said = _said(storage, home)
    return "\n".join([*(str(one.message) for one in caught), said] if caught else [said])


def _said(storage: FolderStorage, home: Path) -> str:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    try:
        checks = list(verify(open_round(storage, remember=False), home, threads=1))
    except GymError as error:
        return error.message
    return "\n".join(f"{one.name}: {one.detail}" for one in checks if one.ok is False)


def expected(name: str) -> str:
    """Returns what names a file that was changed."""
    kind, _, rest = name.partition("/")
    if kind == "chunks":
        return f"chunk {rest[3:15]}"
    if name == "log/checkpoint":
        return "log head: expected"
    if name.startswith("log/tile/") and "entries" not in name:
        return "expected"  # the root, or the hashes of the entries: of the log
    return name


def without_effect(storage: FolderStorage) -> set[str]:
    """Returns the files that nobody reads any more."""
    size = open_round(storage, remember=False).head.size
    read = {f"log/{tile_name(n, *tile)}" for n in range(levels(size)) for tile in widths(size, n)}
    read |= {f"log/{tile_name('entries', *tile)}" for tile in widths(size, 0)}
    return {name for name in storage.names("log/tile") if name not in read} | {
        *storage.names("inbox")
    }


def all_names(storage: FolderStorage) -> list[str]:
    return sorted(
        path.relative_to(storage.folder).as_posix()
        for path in storage.folder.rglob("*")
        if path.is_file()
    )


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("form", "most"), CASES)
@pytest.mark.slow
def test_a_changed_byte_anywhere_is_named_by_its_file(
    form: Form, most: int, published: Callable[[Form], FolderStorage], tmp_path: Path
) -> None:
    storage, draw, home = published(form), random.Random(most), tmp_path / "stranger"
    idle = without_effect(storage)
    assert verified(storage, home) == ""
    silent: list[str] = []
    for name in all_names(storage):
        whole = storage.read(name) or b""
        for what, content in changes(whole, most, draw):
            (storage.folder / name).write_bytes(content)
            said = verified(storage, home)
            if (expected(name) in said) == (name in idle):
                silent.append(f"{name}, {what}: {said or 'passed'}")
        (storage.folder / name).write_bytes(whole)
    assert silent == []
    assert verified(storage, home) == ""


@pytest.mark.slow
def test_a_missing_file_is_named(
    published: Callable[[Form], FolderStorage], tmp_path: Path
) -> None:
    storage, home = published("signs"), tmp_path / "stranger"
    idle, silent = without_effect(storage), set[str]()
    for name in all_names(storage):
        path = storage.folder / name
        path.rename(path.with_name(".away"))
        said = verified(storage, home)
        path.with_name(".away").rename(path)
        found = "expected a signed head" if name == "log/checkpoint" else expected(name)
        if found not in said:
            silent.add(name)
    notes = {name for name in all_names(storage) if name.startswith("witness/")}
    assert silent == idle | notes


@pytest.mark.slow
def test_a_note_of_a_witness_that_is_missing_is_counted(
    published: Callable[[Form], FolderStorage], tmp_path: Path
) -> None:
    storage = published("signs")

    def witnesses() -> Check:
        checks = verify(open_round(storage, remember=False), tmp_path, threads=1)
        return next(one for one in checks if one.name == "witnesses")

    assert witnesses().detail.startswith("1 of 1 signed")
    shutil.rmtree(storage.folder / "witness")
    assert witnesses().detail.startswith("0 of 1 signed")


@pytest.mark.slow
def test_changed_inbox_entry_is_refused_and_not_logged(
    storage: FolderStorage, base: Path, manifest: Manifest, tmp_path: Path
) -> None:
    create_round(storage, manifest, LOG)
    source = sources("signs", tmp_path)[ALICE]
    _, entry = prepare(open_round(storage), source, base, ALICE)
    name, draw = leave(storage, entry), random.Random(1)
    whole = storage.read(name) or b""
    for _, content in changes(whole, 20, draw):
        (storage.folder / name).write_bytes(content)
        taken = take(storage, LOG)
        assert ([one for one, _ in taken.refused], list(taken.added)) == ([name], [])
    (storage.folder / name).write_bytes(whole)
    assert [one.key for one in take(storage, LOG).added] == [ALICE.public]
