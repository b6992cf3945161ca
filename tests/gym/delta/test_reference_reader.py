"""A stranger's reader, written from the specification, finds the same differences."""

from pathlib import Path

import numpy as np
import pytest

from tests.gym.delta import models_on_disk as disk
from tests.gym.delta.reference_reader import read_differences
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta import create_delta, difference, load_delta


@pytest.mark.parametrize("kind", ["dense", "lowrank"])
def test_the_reference_reader_agrees_to_the_last_bit(
    kind: str, request: pytest.FixtureRequest
) -> None:
    delta = load_delta(request.getfixturevalue(kind))
    theirs = read_differences(delta.path)
    assert set(theirs) == {tensor.name for tensor in delta.header.tensors}
    for tensor in delta.header.tensors:
        np.testing.assert_array_equal(difference(delta, tensor), theirs[tensor.name])


@pytest.mark.parametrize("scale", ["row", "matrix"])
def test_it_reads_long_rows_and_more_than_two_dimensions(scale: str, tmp_path: Path) -> None:
    shapes = {"conv.weight": (2, 3, 11), "long.weight": (2, 300), "scalar": ()}
    before = disk.write_model(tmp_path / "base", disk.random_arrays(shapes, 0))
    after = disk.write_model(tmp_path / "tuned", disk.random_arrays(shapes, 1))
    out = tmp_path / "d.safetensors"
    config = DeltaConfig(scale=scale)  # type: ignore[arg-type]
    create_delta(after, base=before, base_id="b", out=out, config=config)
    delta = load_delta(out)
    theirs = read_differences(out)
    for tensor in delta.header.tensors:
        np.testing.assert_array_equal(difference(delta, tensor), theirs[tensor.name])


def test_it_reads_factors_longer_than_a_group(tmp_path: Path) -> None:
    shapes = {"model.layers.0.mlp.up_proj.weight": (130, 261)}
    before = disk.write_model(tmp_path / "base", disk.random_arrays(shapes, 0))
    after = disk.write_adapter(tmp_path / "lora", disk.lora_arrays(shapes, 2, 1), 2)
    out = tmp_path / "d.safetensors"
    create_delta(after, base=before, base_id="b", out=out)
    delta = load_delta(out)
    (theirs,) = read_differences(out).values()
    np.testing.assert_array_equal(difference(delta, delta.header.tensors[0]), theirs)
