"""Reference scores: what plain scoring gives, stored once, read again, large ones from the disk."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.gym.train.conftest import counting_rows
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Policy, Stat
from zoo.gym.data import Unit, rows_of
from zoo.gym.data.batches import collate
from zoo.gym.errors import GymWarning
from zoo.gym.objectives.constants import REF_LOGPROBS
from zoo.gym.train import reference
from zoo.gym.train.reference import with_reference


@pytest.fixture
def policy(tiny: Path) -> Policy:
    return load_backend("cpu").load(tiny, LoadSpec(train=LoraSpec(4, 8.0), seed=1))


def scores(units: tuple[Unit, ...]) -> list[np.ndarray]:
    return [np.asarray(row.extras[REF_LOGPROBS]) for row in rows_of(units)]


@pytest.mark.slow
def test_each_row_has_the_scores_of_the_policy_as_it_was(policy: Policy, tmp_path: Path) -> None:
    units = counting_rows(5)
    found = with_reference(policy, units, tmp_path / "ref.safetensors")
    needs = frozenset({Stat.LOGPROBS})
    for unit, row in zip(units, scores(found), strict=True):
        expected = policy.score(collate([unit]), needs)[Stat.LOGPROBS][0]
        np.testing.assert_allclose(row, expected, atol=1e-5)


@pytest.mark.slow
def test_a_second_process_reads_what_the_first_scored(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ref.safetensors"
    first = scores(with_reference(policy, counting_rows(5), file))
    monkeypatch.setattr(reference, "score_rows", pytest.fail)
    for before, after in zip(
        first, scores(with_reference(policy, counting_rows(5), file)), strict=True
    ):
        np.testing.assert_array_equal(before, after)


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-9] ^= 0x7F
    file.write_bytes(content)


def store(tensors: dict[str, np.ndarray]) -> Callable[[Path], None]:
    """Returns a damage that keeps what the file says about itself, and replaces its tensors."""

    def damage(file: Path) -> None:
        with safe_open(file, framework="np") as stored:
            about = stored.metadata()
        save_file(tensors, file, metadata=about)

    return damage


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda file: file.write_bytes(b""), "it cannot be read"),
    "no safetensors": (lambda file: file.write_bytes(b"not safetensors"), "it cannot be read"),
    "a flipped byte": (flip_a_byte, "got damaged ones"),
    "zeros": (store({REF_LOGPROBS: np.zeros(60, np.float32)}), "got damaged ones"),
    "short": (store({REF_LOGPROBS: np.zeros(4, np.float32)}), r"expected 60 scores, got .*4"),
    "another name": (store({"other": np.zeros(60, np.float32)}), "got other tensors"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("damage", "why"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_scored_again_with_a_warning(
    policy: Policy, tmp_path: Path, damage: Callable[[Path], object], why: str
) -> None:
    file = tmp_path / "ref.safetensors"
    first = scores(with_reference(policy, counting_rows(5), file))
    damage(file)
    with pytest.warns(GymWarning, match=f"ref.safetensors: scored again: .*{why}"):
        again = scores(with_reference(policy, counting_rows(5), file))
    for before, after in zip(first, again, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.slow
def test_scores_of_other_rows_or_of_another_model_are_not_used(
    policy: Policy, tiny: Path, tmp_path: Path
) -> None:
    file = tmp_path / "ref.safetensors"
    with_reference(policy, counting_rows(4, start=1), file)
    with pytest.warns(GymWarning, match="expected the scores of this run's rows"):
        with_reference(policy, counting_rows(5), file)
    other = load_backend("cpu").load(tiny, LoadSpec(train=LoraSpec(4, 8.0), seed=2))
    with pytest.warns(GymWarning, match="expected the scores of this run's model"):
        with_reference(other, counting_rows(5), file)


@pytest.mark.slow
def test_large_scores_stay_on_the_disk(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = counting_rows(5)
    in_memory = with_reference(policy, units, tmp_path / "ref.safetensors")
    monkeypatch.setattr(reference, "IN_MEMORY_BYTES", 0)
    on_disk = with_reference(policy, units, tmp_path / "ref.safetensors")
    assert not isinstance(rows_of(on_disk)[0].extras, dict)
    one, other = (collate(found).extras for found in (in_memory, on_disk))
    np.testing.assert_array_equal(one[REF_LOGPROBS], other[REF_LOGPROBS])


@pytest.mark.slow
@pytest.mark.parametrize("in_memory_bytes", [0, 10_000])
def test_rows_keep_the_extras_that_they_have(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory_bytes: int
) -> None:
    monkeypatch.setattr(reference, "IN_MEMORY_BYTES", in_memory_bytes)
    (unit,) = counting_rows(1)
    row = replace(unit.rows[0], extras={"weight": np.ones(len(unit.rows[0].ids), np.float32)})
    found = with_reference(policy, [Unit((row,))], tmp_path / "ref.safetensors")
    extras = rows_of(found)[0].extras
    assert (list(extras), len(extras)) == (["weight", REF_LOGPROBS], 2)
    batch = collate(found)
    assert batch.extras["weight"].sum() == len(row.ids)
    assert batch.extras[REF_LOGPROBS].sum() < 0
    with pytest.raises(ValueError, match="expected rows without ref_logprobs"):
        with_reference(policy, found, tmp_path / "again.safetensors")
