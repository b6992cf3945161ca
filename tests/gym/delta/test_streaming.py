"""Large models pass through piece by piece, are told on the way, and a kill leaves nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from zoo.gym.delta import Passed, apply_delta, create_delta, load_delta, rebuild
from zoo.gym.delta.reading.identity import identity
from zoo.gym.delta.reading.weights import open_weights

_CREATE = """
import os, signal, sys
from pathlib import Path
from zoo.gym.files import atomic, atomic as disk
from zoo.gym.delta.file import writer
from zoo.gym.delta import apply_delta, create_delta

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

point, first, base, out = sys.argv[1], *map(Path, sys.argv[2:])
if point == "coding":
    count = iter(range(3))
    watch = lambda passed: next(count, None) or die() if passed.done_bytes > 9000 else None
else:
    watch = lambda passed: None
    syncs = [(atomic, "sync_file"), (disk, "sync_file")]
    for place in syncs if point == "renaming" else [(writer, "_seal")]:
        setattr(*place, die)
if first.is_dir():
    create_delta(first, base=base, base_id="tiny", out=out, watch=watch)
else:
    apply_delta(first, base=base, out=out, watch=watch)
"""


def kill(point: str, source: Path, base: Path, out: Path) -> None:
    """Runs create (of a folder) or apply (of a file) until the point where it is killed."""
    command = [sys.executable, "-c", _CREATE, point, str(source), str(base), str(out)]
    assert subprocess.run(command, check=False).returncode == -9


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("point", ["coding", "sealing", "renaming"])
def test_a_create_that_is_killed_leaves_nothing_after_the_next(
    point: str, tuned: Path, base: Path, tmp_path: Path
) -> None:
    out = tmp_path / "d.safetensors"
    kill(point, tuned, base, out)
    assert not out.exists()
    create_delta(tuned, base=base, base_id="tiny", out=out)
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("point", ["coding", "renaming"])
def test_an_apply_that_is_killed_leaves_nothing_after_the_next(
    point: str, dense: Path, base: Path, tmp_path: Path
) -> None:
    kill(point, dense, base, tmp_path / "model")
    assert [entry.suffix for entry in tmp_path.iterdir()] == [".tmp"]
    apply_delta(dense, base=base, out=tmp_path / "model")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_pieces_of_any_size_make_the_same_model(
    dtype: rebuild.OutType, dense: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_delta(dense, base=base, out=tmp_path / "whole", dtype=dtype)
    monkeypatch.setattr(rebuild, "PIECE_WEIGHTS", 1)
    monkeypatch.setattr(rebuild, "ROWS_AT_ONCE", 1)
    apply_delta(dense, base=base, out=tmp_path / "rows", dtype=dtype)
    whole, rows = (tmp_path / name / "model.safetensors" for name in ("whole", "rows"))
    assert whole.read_bytes() == rows.read_bytes()


def test_both_passes_tell_how_far_they_are(tuned: Path, base: Path, tmp_path: Path) -> None:
    for told in (
        watched_create(tuned, base, tmp_path / "d.safetensors"),
        watched_apply(tmp_path / "d.safetensors", base, tmp_path / "model"),
    ):
        done = [passed.done_bytes for passed in told]
        assert done == sorted(done)
        assert done[-1] == told[-1].total_bytes
        assert told[-1].eta_s == 0


def watched_create(tuned: Path, base: Path, out: Path) -> list[Passed]:
    told: list[Passed] = []
    create_delta(tuned, base=base, base_id="tiny", out=out, watch=told.append)
    return told


def watched_apply(delta: Path, base: Path, out: Path) -> list[Passed]:
    told: list[Passed] = []
    apply_delta(delta, base=base, out=out, watch=told.append)
    return told


def test_the_rest_is_told_at_the_rate_so_far() -> None:
    assert Passed("a", done_bytes=25, total_bytes=100, seconds=2.0).eta_s == 6.0  # 75 at 12.5 a s


def test_the_identity_taken_on_the_way_is_that_of_the_files(dense: Path, base: Path) -> None:
    delta = load_delta(dense)
    names = [tensor.name for tensor in delta.header.tensors]
    copy = open_weights(base)
    fresh = type(copy)(copy.source, tuple(file.resolve() for file in copy.files), copy.tensors)
    assert identity(fresh, names) == delta.header.base.identity


def test_a_base_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    arrays = disk.random_arrays(disk.qwen3_shapes(), 0)
    base = disk.write_model(tmp_path / "base", arrays)
    change = disk.random_arrays(disk.qwen3_shapes(), 1, 0.01)
    tuned = disk.write_model(tmp_path / "tuned", disk.plus(arrays, change))

    def touch(_: Passed) -> None:
        (base / "model.safetensors").touch()

    with raises("delta.changed_while_read"):
        create_delta(tuned, base=base, base_id="b", out=tmp_path / "d.safetensors", watch=touch)
