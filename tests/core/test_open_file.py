"""Files that are opened once, and arrays that nobody should hand over."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from zoo.core import (
    OpenFile,
    add_product,
    apply_groups,
    apply_signs,
    dense_product,
    file_digest,
    pack_groups,
    pack_signs,
    read_header,
    sign_mean,
    sign_product,
    trimmed_mean,
    unpack_codes2,
    unpack_groups,
    unpack_signs,
)
from zoo.core.errors import InputError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_file({"a": np.arange(6, dtype=np.float32)}, tmp_path / "a.safetensors")
    return tmp_path / "a.safetensors"


def test_an_open_file_is_read_like_its_path(path: Path) -> None:
    file = OpenFile(path)
    assert read_header(file, finite=True) == read_header(path)
    whole = {"zero_at": 0, "zero_len": 0}
    assert file_digest(file, **whole) == file_digest(path, **whole)
    part = read_header(file).tensors["a"]
    assert file.read(part.start, part.stop).view("<f4").tolist() == [0, 1, 2, 3, 4, 5]
    assert file.length() == path.stat().st_size


def test_an_open_file_stays_the_one_it_was(path: Path) -> None:
    file, expected = OpenFile(path), read_header(path)
    path.with_name("other").write_text("no tensors")
    path.with_name("other").replace(path)
    assert read_header(file) == expected


def test_an_open_file_that_becomes_shorter_is_an_error(path: Path) -> None:
    file = OpenFile(path)
    part = read_header(file).tensors["a"]
    os.truncate(path, part.stop - 4)
    with pytest.raises(InputError, match="truncated while it was read"):
        file.read(part.start, part.stop)


def test_a_folder_is_no_file_to_open(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a regular file"):
        OpenFile(tmp_path)


NAN = np.full(1, np.nan, np.float32)
HALF = np.zeros((0, 0), np.float16)
NOTHING = np.zeros((0, 0), np.uint8)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


EMPTY: dict[str, Callable[[], object]] = {
    "a matrix scale": lambda: apply_signs(
        floats(3, 0), np.zeros((3, 0), np.uint8), NAN, scale="matrix"
    ),
    "a column scale": lambda: apply_signs(floats(0, 3), np.zeros((0, 1), np.uint8), NAN),
    "no columns": lambda: pack_signs(floats(3, 0), floats(3, 0)),
    "no rows": lambda: pack_signs(floats(0, 3), floats(0, 3)),
    "unpack": lambda: unpack_signs(np.zeros((3, 0), np.uint8), 0),
    "groups": lambda: pack_groups("int8", floats(3, 0)),
    "apply groups": lambda: apply_groups("int8", floats(3, 0), NOTHING, HALF),
    "unpack groups": lambda: unpack_groups("int4", NOTHING, HALF, cols=0),
    "codes": lambda: unpack_codes2(NOTHING, HALF, NOTHING, cols=0, group=128),
    "product": lambda: add_product(floats(0, 0), floats(0, 3), floats(3, 0)),
    "signs": lambda: sign_product(floats(2, 0), np.zeros((3, 0), np.uint8), NAN),
    "dense": lambda: dense_product(floats(0, 0), np.zeros((0, 0), np.uint16)),
    "mean": lambda: sign_mean([np.zeros(0, np.uint8)], 0, NAN),
    "values": lambda: trimmed_mean([floats(0)], 0),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_matrix_is_a_result_or_a_sentence(name: str) -> None:
    try:
        EMPTY[name]()
    except (InputError, ValueError) as error:
        assert ": expected " in str(error)  # noqa: PT017


@pytest.mark.slow
def test_input_that_changes_while_it_is_read_is_a_sentence() -> None:
    rows, ended = [np.zeros(1 << 16, np.float32) for _ in range(5)], threading.Event()

    def write() -> None:
        while not ended.is_set():
            rows[4][-1] = np.nan
            rows[4][-1] = 0

    writer = threading.Thread(target=write)
    writer.start()
    said: set[str] = set()
    try:
        for _ in range(200):
            try:
                trimmed_mean(rows, 1)
            except InputError as error:
                said.add(error.message.split(":")[0])
    finally:
        ended.set()
        writer.join()
    assert said <= {"contributor 4 is not finite", "rows changed while they were read"}
