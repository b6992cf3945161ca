"""Variants have names that are no paths, one file each, and nobody else can read them."""

import os
import shutil
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

import pytest

from tests.codes import raises
from tests.gym.delta.models_on_disk import qwen3_shapes, random_arrays, write_model
from zoo.gym import InputError, create_delta
from zoo.gym.variants import store
from zoo.models import Resolved, pico_folder, resolve

BAD = ("", ".ann", "../ann", "a/b", "a\\b", "Ann", "a b", "a" * 65, "ann\n", "é")


@pytest.fixture
def pico() -> Resolved:
    return resolve("zen-pico", offline=True)


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_be_a_path_is_refused(
    name: str, deltas: tuple[Path, Path], pico: Resolved
) -> None:
    ann = store.put(deltas[0], pico, "ann")
    with raises("variants.bad_name"):
        store.put(deltas[0], pico, name)
    with raises("variants.bad_name"):
        store.rename(ann, name)
    for text in (name, f"zen-pico:{name}", f"../{ann.base}:ann", "..:ann", ".:ann"):
        with raises("variants.no_such_variant"):
            store.find(text)
    assert [path.name for path in ann.file.parent.iterdir() if path.suffix] == ["ann.safetensors"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_only_the_owner_reads_a_variant(deltas: tuple[Path, Path], pico: Resolved) -> None:
    old = os.umask(0o022)
    try:
        file = store.put(deltas[0], pico, "ann").file
    finally:
        os.umask(old)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, store.root())]
    assert modes == [0o600, 0o700, 0o700]


def test_a_name_that_is_taken_is_replaced_only_on_request(
    deltas: tuple[Path, Path], pico: Resolved
) -> None:
    first, second = deltas
    ann, bob = store.put(first, pico, "ann"), store.put(second, pico, "bob")
    with raises("variants.taken"):
        store.put(second, pico, "ann")
    with raises("variants.taken"):
        store.rename(bob, "ann")
    assert ann.file.read_bytes() == first.read_bytes()
    store.put(second, pico, "ann", replace=True)
    assert ann.file.read_bytes() == second.read_bytes()


def test_of_many_that_take_a_name_at_once_one_succeeds(
    deltas: tuple[Path, Path], pico: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    # to each the name seems free before it copies the file
    require_free, seen = store.require_free, local()

    def blind_at_first(stored: store.Stored, *, replace: bool) -> None:
        seen.looks += 1
        if seen.looks > 1:
            require_free(stored, replace=replace)

    monkeypatch.setattr(store, "require_free", blind_at_first)

    def put(_: int) -> bool:
        seen.looks = 0
        try:
            store.put(deltas[0], pico, "ann")
        except InputError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(put, range(8))) == 1
    assert sorted(path.name for path in store.find("ann").file.parent.iterdir()) == [
        ".lock",
        "ann.safetensors",
    ]


def test_a_name_of_two_bases_needs_the_base(tmp_path: Path, deltas: tuple[Path, Path]) -> None:
    copy = shutil.copytree(pico_folder(), tmp_path / "copy")
    store.put(deltas[0], resolve("zen-pico", offline=True), "ann")
    other = store.put(deltas[0], resolve(copy, offline=True), "ann")
    with raises("variants.ambiguous", r"several bases: expected one of copy-[0-9a-f]{8}:ann, zen"):
        store.find("ann")
    assert store.find(other.id) == other
    store.remove(other)
    assert store.find("ann").base == "zen-pico"


def test_only_low_rank_deltas_of_the_base_are_stored(
    tmp_path: Path, deltas: tuple[Path, Path], pico: Resolved
) -> None:
    shapes = qwen3_shapes()
    base, tuned = (write_model(tmp_path / str(n), random_arrays(shapes, n)) for n in (1, 2))
    dense = create_delta(tuned, base=base, out=tmp_path / "dense.safetensors").file
    with raises("variants.not_low_rank", "expected a low-rank delta, got form dense"):
        store.put(dense, resolve(base, offline=True), "ann")
    with raises("delta.wrong_base", "belongs to another base"):
        store.put(deltas[0], resolve(base, offline=True), "ann")


def test_a_token_ends_with_the_name_of_its_variant(
    deltas: tuple[Path, Path], pico: Resolved
) -> None:
    ann = store.put(deltas[0], pico, "ann")
    tokens = [store.token_file(ann), store.token_file(store.stored_of(pico.folder, "bob"))]
    for file in tokens:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("token")
    store.remove(store.rename(ann, "bob"))
    assert [file.exists() for file in tokens] == [False, False]
