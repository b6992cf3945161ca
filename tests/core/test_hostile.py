"""The hostile corpus: every class is refused in a sentence, within bounded memory and time."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors

from tests.core.hostile import ROOT, Hostile, corpora, sound, write_all, write_seeds
from tests.core.hostile_safetensors import SAFETENSORS, TEN
from zoo.core import read_delta, read_gguf_header, read_header
from zoo.core.errors import InputError

CLASSES = [(form, name) for form, classes in corpora().items() for name in classes]

SOUND = [(f, n) for f, files in sound().items() for n in files if not n.startswith("header of")]


def read(form: str, path: Path, *, finite: bool = False) -> None:
    if form == "safetensors":
        read_header(path, finite=finite)
    if form == "gguf":
        read_gguf_header(path)
    if form == "delta":
        read_delta(path)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "name"), CLASSES)
def test_a_hostile_file_is_refused_in_a_sentence(form: str, name: str, tmp_path: Path) -> None:
    hostile, path = corpora()[form][name], tmp_path / "file"
    path.write_bytes(hostile.make())
    with pytest.raises(InputError) as caught:
        read(form, path, finite=hostile.finite)
    message = caught.value.message
    assert message.startswith(f"{path}: ")
    assert hostile.phrase in message
    assert message.isprintable()
    assert len(message) < len(str(path)) + 500
    assert not message.endswith(".")


def test_there_are_more_than_sixty_classes() -> None:
    assert len(CLASSES) > 60


@pytest.mark.parametrize(("form", "name"), SOUND)
def test_a_valid_file_next_to_them_is_read(form: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(sound()[form][name])
    read(form, path, finite=True)


def library_takes(hostile: Hostile) -> bool:
    try:
        safetensors.deserialize(hostile.make())  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError:
        return False
    return True


def test_the_library_takes_the_small_ones_that_are_marked_so() -> None:
    small = {n: h for n, h in SAFETENSORS.items() if "million" not in n}
    taken = {name for name, hostile in small.items() if library_takes(hostile)}
    assert taken == {name for name, hostile in small.items() if hostile.accepted}


@pytest.mark.nightly
def test_the_library_takes_all_of_the_ten() -> None:
    assert len(TEN) == 10
    assert [name for name, hostile in TEN.items() if not library_takes(hostile)] == []


LIMITED = """
import pathlib, resource, sys
from zoo.core import read_delta, read_gguf_header, read_header
from zoo.core.errors import InputError
readers = {"safetensors": read_header, "gguf": read_gguf_header, "delta": read_delta}
refused = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/*")):
    if path.name == "NaN-payload":
        continue
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + 2 * path.stat().st_size + (32 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
    try:
        readers[path.parent.name](path)
    except InputError:
        refused += 1
print(refused)
"""
"""Reads every file with twice its size and 32 MiB of new memory at hand."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and sets limits of Linux")
@pytest.mark.slow
def test_refusing_takes_at_most_twice_the_file_in_memory_and_little_time(tmp_path: Path) -> None:
    write_all(tmp_path)

    def limit() -> None:
        # Seconds of the processor for 220 MB of headers and the start of Python.
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))

    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(len(CLASSES) - 1), done.stderr


def test_the_committed_seeds_are_those_of_the_script(tmp_path: Path) -> None:
    total = write_seeds(tmp_path)
    assert total < 200_000
    committed = ROOT / "core-rs" / "fuzz" / "corpus"
    for folder in (tmp_path, committed):
        assert sum(path.is_file() for path in folder.rglob("*")) > 60
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert (committed / path.relative_to(tmp_path)).read_bytes() == path.read_bytes()
