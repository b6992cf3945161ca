"""Merges by mergekit, whose import takes seconds, against sums in numpy."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.merge.conftest import SHAPES
from zoo.gym.delta.reading.weights import open_weights, read_float32
from zoo.gym.merge import run
from zoo.gym.merge.inputs import find_inputs
from zoo.gym.merge.methods import settings_of
from zoo.gym.merge.run import Merged, merge_models, require_mergekit
from zoo.gym.tuned.opened import open_tuned
from zoo.gym.tuned.source import Source, resolve_tuned

pytestmark = pytest.mark.slow
Arrays = Mapping[str, NDArray[Any]]
Merge = Callable[..., Arrays]


def read(folder: Path) -> dict[str, NDArray[Any]]:
    weights = open_weights(folder)
    return {name: read_float32(weights, name) for name in weights.tensors}


def merged(
    out: Path, method: str, *sources: Path, base: Path | None = None, **given: Any
) -> Merged:
    dtype = given.pop("dtype", "f32")
    settings = settings_of(method, len(sources), **given)
    inputs, model = find_inputs(
        list(map(str, sources)),
        None if base is None else str(base),
        needs_base=settings.method.of_changes,
    )
    return merge_models(inputs, model, settings, out, dtype)


@pytest.fixture
def merge(tmp_path: Path) -> Merge:
    """Merges into a folder and returns the weights."""

    numbers = count()

    def merging(method: str, *sources: Path, **given: Any) -> Arrays:
        return read(merged(tmp_path / f"out{next(numbers)}", method, *sources, **given).folder)

    return merging


def whole(source: Path, base: Path) -> dict[str, NDArray[Any]]:
    """Returns a fine-tune on its base in float32."""
    return dict(open_tuned(resolve_tuned(str(source)), base).merged_tensors())


def close(first: Arrays, second: Arrays) -> None:
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_allclose(values, second[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_the_linear_merge_of_two_is_their_mean_bit_for_bit(
    merge: Merge, wholes: list[Path]
) -> None:
    a, b = map(read, wholes)
    result = merge("linear", *wholes)
    assert result.keys() == a.keys() == SHAPES.keys()
    assert max(np.abs(result[n] - (a[n] + b[n]) / np.float32(2)).max() for n in a) == 0.0


def test_weights_of_the_linear_merge_are_shares(merge: Merge, wholes: list[Path]) -> None:
    a, b = map(read, wholes)
    close(merge("linear", *wholes, weights=[1, 3]), {n: (a[n] + 3 * b[n]) / 4 for n in a})


def test_adapters_are_merged_on_their_base(merge: Merge, adapters: list[Path], base: Path) -> None:
    a, b = (whole(adapter, base) for adapter in adapters)
    assert any((a[n] != b[n]).any() for n in a)
    result = merge("linear", *adapters)
    assert max(np.abs(result[n] - (a[n] + b[n]) / np.float32(2)).max() for n in a) == 0.0


def test_task_arithmetic_of_two_deltas_is_the_base_plus_their_sum(
    merge: Merge, deltas: list[Path], base: Path
) -> None:
    start, a, b = read(base), *(whole(delta, base) for delta in deltas)
    close(merge("task_arithmetic", *deltas), {n: (a[n] + b[n]) - start[n] for n in a})


def test_a_weight_below_zero_subtracts_a_change(
    merge: Merge, adapters: list[Path], base: Path
) -> None:
    start, a, b = read(base), *(whole(adapter, base) for adapter in adapters)
    close(
        merge("task_arithmetic", *adapters, weights=[1, -0.5]),
        {n: a[n] - 0.5 * (b[n] - start[n]) for n in a},
    )


def test_forms_are_merged_with_each_other(
    merge: Merge, adapters: list[Path], deltas: list[Path], wholes: list[Path], base: Path
) -> None:
    sources = (adapters[0], deltas[0], wholes[1])
    start, parts = read(base), [whole(source, base) for source in sources]
    total = {n: start[n] + sum(part[n] - start[n] for part in parts) for n in start}
    close(merge("task_arithmetic", *sources), total)


def test_slerp_is_the_arc_between_two(merge: Merge, wholes: list[Path]) -> None:
    def arc(v0: NDArray[np.float32], v1: NDArray[np.float32], t: float) -> NDArray[Any]:
        a, b = v0.astype("f8").ravel(), v1.astype("f8").ravel()
        cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        if abs(cosine) > 0.9995:
            return ((1 - t) * a + t * b).reshape(v0.shape)
        theta = np.arccos(cosine)
        mixed = np.sin((1 - t) * theta) * a + np.sin(t * theta) * b
        bent: NDArray[Any] = (mixed / np.sin(theta)).reshape(v0.shape)
        return bent

    a, b = map(read, wholes)
    result = merge("slerp", *wholes, weights=[1, 3])
    close(result, {n: arc(a[n], b[n], 0.75).astype("f4") for n in a})
    assert any(np.abs(result[n] - (0.25 * a[n] + 0.75 * b[n])).max() > 1e-4 for n in a)


def trimmed(change: NDArray[np.float32], density: float) -> NDArray[np.float32]:
    """Returns the largest weights of a change, scaled to the same sum of magnitudes or not."""
    keep = max(1, int(density * change.size))
    least = np.sort(np.abs(change).ravel())[-keep]
    return np.where(np.abs(change) >= least, change, np.float32(0))


def agreeing(changes: list[NDArray[np.float32]]) -> NDArray[np.bool_]:
    """Returns where each change has the sign of the sum."""
    stacked = np.stack(changes)
    majority = np.where(stacked.sum(axis=0) >= 0, 1, -1)
    mask: NDArray[np.bool_] = np.sign(stacked) == majority
    return mask


def test_ties_is_the_mean_of_the_largest_changes_that_agree(
    merge: Merge, wholes: list[Path], base: Path
) -> None:
    start, parts = read(base), [read(path) for path in wholes]
    expected = {}
    for n, values in start.items():
        changes = [trimmed(part[n] - values, 0.3) for part in parts]
        mask = agreeing(changes)
        count = np.maximum(mask.sum(axis=0), 1)
        expected[n] = values + (np.stack(changes) * mask).sum(axis=0) / count
    close(merge("ties", *wholes, base=base, density=0.3), expected)


def rescaled(change: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    kept = np.where(mask, change, np.float32(0))
    total = np.abs(kept).sum()
    return kept if total < 1e-7 else (kept * (np.abs(change).sum() / total)).astype("f4")


@pytest.fixture
def apart(top: Path) -> tuple[list[Path], Path]:
    """Two fine-tunes that change different tensors, so that each mask can be seen."""
    start = disk.random_arrays(SHAPES, 0)
    names = sorted(SHAPES)
    paths = [top / "even", top / "odd"]
    for number, path in enumerate(paths):
        change = disk.random_arrays(SHAPES, 5 + number, 0.1)
        tuned = {n: start[n] + change[n] * (i % 2 == number) for i, n in enumerate(names)}
        if not path.exists():
            disk.write_model(path, tuned)
    base = top / "start"
    return paths, base if base.exists() else disk.write_model(base, start)


@pytest.mark.parametrize("method", ["dare_linear", "dare_ties"])
def test_dare_keeps_a_random_share_and_rescales_it(
    method: str, merge: Merge, apart: tuple[list[Path], Path]
) -> None:
    paths, base = apart
    start, parts = read(base), [read(path) for path in paths]
    result = merge(method, *paths, base=base, density=0.25, seed=3)
    kept = total = 0
    for n, values in start.items():
        change = sum((part[n] - values for part in parts), np.zeros_like(values))
        mask = result[n] != values
        np.testing.assert_allclose(result[n] - values, rescaled(change, mask), atol=1e-5, rtol=1e-4)
        kept, total = kept + int(mask.sum()), total + mask.size
    assert abs(kept / total - 0.25) < 0.02


def test_dare_repeats_its_choice_by_the_seed(merge: Merge, wholes: list[Path], base: Path) -> None:
    first = merge("dare_ties", *wholes, base=base, seed=3)
    again = merge("dare_ties", *wholes, base=base, seed=3)
    other = merge("dare_ties", *wholes, base=base, seed=4)
    assert all((first[n] == again[n]).all() for n in first)
    assert any((first[n] != other[n]).any() for n in first)


def test_the_written_type_is_the_chosen_one(wholes: list[Path], tmp_path: Path) -> None:
    folder = merged(tmp_path / "out", "linear", *wholes, dtype="bf16").folder
    weights = open_weights(folder)
    assert {weights.dtype(name) for name in weights.tensors} == {"BF16"}
    assert '"dtype": "bfloat16"' in (folder / "config.json").read_text()


def test_distances_are_those_of_the_weights(wholes: list[Path], tmp_path: Path) -> None:
    a, b = map(read, wholes)
    off = sum(float((((a[n] - b[n]) / 2).astype("f8") ** 2).sum()) for n in a)
    size = sum(float((a[n].astype("f8") ** 2).sum()) for n in a)
    distances = merged(tmp_path / "out", "linear", *wholes).distances
    assert distances[str(wholes[0])] == pytest.approx((off / size) ** 0.5, rel=1e-5)


def test_a_merge_that_is_the_base_is_refused(
    adapters: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mergekit.merge_methods.generalized_task_arithmetic import (
        GeneralizedTaskArithmeticMerge as Merging,
    )

    def only_base(_: object, group: Any, **__: object) -> object:
        return group.base.tensor

    monkeypatch.setattr(Merging, "merge_group", only_base)
    with raises("merge.equals_source", "the merge equals the base"):
        merged(tmp_path / "out", "task_arithmetic", *adapters)
    assert not (tmp_path / "out").exists()


def test_changes_that_bf16_rounds_away_are_refused(base: Path, tmp_path: Path) -> None:
    tiny = [
        disk.write_adapter(
            tmp_path / f"tiny{seed}",
            {n: 1e-4 * f for n, f in disk.lora_arrays(SHAPES, 3, seed).items()},
            3,
            base_model_name_or_path=str(base),
        )
        for seed in (2, 3)
    ]
    with raises("merge.equals_source", "the merge equals the base in bf16") as caught:
        merged(tmp_path / "out", "linear", *tiny, dtype="bf16")
    assert "--dtype f32" in str(caught.value.hint)
    assert merged(tmp_path / "out", "linear", *tiny).distances["the base"] > 0


def test_a_linear_merge_that_is_the_base_in_bf16_is_refused(
    adapters: list[Path], base: Path, tmp_path: Path
) -> None:
    factors = disk.lora_arrays(SHAPES, 3, 2)
    back = {n: -f if "lora_B" in n else f for n, f in factors.items()}  # cancels the first
    other = disk.write_adapter(tmp_path / "back", back, 3, base_model_name_or_path=str(base))
    with raises("merge.equals_source", "the merge equals the base in bf16"):
        merged(tmp_path / "out", "linear", adapters[0], other, dtype="bf16")


def test_whole_models_are_compared_with_the_base_of_their_record(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Source, "base", str(base))
    start, change = read(base), disk.random_arrays(SHAPES, 7, 0.1)
    back = {name: -values for name, values in change.items()}
    both = [
        disk.write_model(tmp_path / name, disk.plus(start, each))
        for name, each in (("there", change), ("back", back))
    ]
    with raises("merge.equals_source", "the merge equals the base in bf16"):
        merged(tmp_path / "out", "linear", *both, dtype="bf16")


def test_a_quantised_model_is_refused(wholes: list[Path], tmp_path: Path) -> None:
    arrays = disk.random_arrays(SHAPES, 8)
    few = disk.write_model(tmp_path / "few", arrays, quantization_config={"bits": 4})
    with raises("delta.quantized"):
        merged(tmp_path / "out", "linear", wholes[0], few)


def missing(_: str) -> None:
    """Finds no package."""


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "find_spec", missing)
    with raises("merge.missing_package") as caught:
        require_mergekit()
    assert "merge" in str(caught.value.hint)


def test_a_killed_merge_leaves_nothing_under_its_name(
    wholes: list[Path], adapters: list[Path], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "zoo.gym", "merge", *map(str, adapters), "--out", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"})
    while not list(tmp_path.glob(".*.tmp")) and process.poll() is None:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out").exists()
    merged(tmp_path / "out", "linear", *adapters)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "home") == ["out"]
