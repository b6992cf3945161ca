"""The file that was verified is the one that is used; one that shrinks is an error."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from zoo.gym.delta import create_delta, difference, load_delta
from zoo.gym.delta.reading.adapter import read_adapter, read_factors
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import InputError


@pytest.fixture
def copy(dense: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(dense, tmp_path / "copy.safetensors"))


def test_a_file_that_takes_a_checked_delta_s_place_is_not_used(
    copy: Path, dense: Path, tmp_path: Path
) -> None:
    delta, expected = load_delta(copy), load_delta(dense)
    (tmp_path / "other").write_bytes(bytes(copy.stat().st_size))
    (tmp_path / "other").replace(copy)
    for tensor in expected.header.tensors:
        assert np.array_equal(difference(delta, tensor), difference(expected, tensor))


def test_a_delta_that_is_cut_short_after_its_check_is_an_error(copy: Path) -> None:
    delta = load_delta(copy)
    os.truncate(copy, 4096)
    with pytest.raises(InputError, match="truncated while it was read"):
        difference(delta, delta.header.tensors[-1])


def test_an_adapter_that_is_cut_short_while_a_delta_is_made_is_an_error(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(adapter, tmp_path / "adapter"))
    found = read_adapter(folder, open_weights(base))
    os.truncate(folder / "adapter_model.safetensors", 4096)
    with pytest.raises(InputError, match="truncated while it was read"):
        read_factors(found, max(found.factors))


def test_a_file_that_takes_an_adapter_s_place_is_not_used(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(adapter, tmp_path / "adapter"))
    found, expected = (read_adapter(source, open_weights(base)) for source in (folder, adapter))
    file = folder / "adapter_model.safetensors"
    (tmp_path / "other").write_bytes(bytes(file.stat().st_size))
    (tmp_path / "other").replace(file)
    name = min(found.factors)
    for mine, theirs in zip(read_factors(found, name), read_factors(expected, name), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_delta_is_made_of_the_adapter_as_before(
    adapter: Path, base: Path, lowrank: Path, tmp_path: Path
) -> None:
    report = create_delta(adapter, base=base, base_id="b", out=tmp_path / "d.safetensors")
    assert load_delta(report.file).payload_bytes == load_delta(lowrank).payload_bytes
