"""The coding that keeps most within a number of bytes."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.delta.lora import write_lora, write_random_adapter
from zoo.gym import create_delta, load_delta
from zoo.gym.cli import main
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.data.units import Example
from zoo.gym.delta.budget import (
    RESERVED,
    Candidate,
    _of_highest_rank,
    candidates,
    choose_within,
    lower_ranks,
)
from zoo.gym.delta.codecs.lowrank import cut_factors
from zoo.gym.delta.quality import QualityInput
from zoo.models import pico_folder


@pytest.fixture
def rows() -> QualityInput:
    ids = np.arange(20, 60)
    return QualityInput([Example(ids, ids > 24, "row", truncated=False)], held_out=True)


def test_the_product_of_cut_factors_is_the_nearest_of_its_rank() -> None:
    random = np.random.default_rng(0)
    A, B = (random.standard_normal((6, size)).astype(np.float32) for size in (40, 30))
    U, sizes, V = np.linalg.svd(B.T.astype("f8") @ A)
    for rank in (1, 3, 5):
        cut_A, cut_B = cut_factors(A, B, rank)
        assert (cut_A.shape, cut_B.shape) == ((rank, 40), (rank, 30))
        nearest = (U[:, :rank] * sizes[:rank]) @ V[:rank]
        np.testing.assert_allclose(cut_B.T @ cut_A, nearest, atol=1e-5)
    for whole in (None, 6, 9):
        assert cut_factors(A, B, whole)[0] is A


@pytest.mark.parametrize(
    ("rank", "lower"), [(1, []), (2, [1]), (5, [3, 2, 1]), (8, [6, 4, 3, 2, 1])]
)
def test_ranks_fall_by_a_quarter_and_by_halves(rank: int, lower: list[int]) -> None:
    assert lower_ranks(rank) == lower


def test_of_each_codec_the_highest_rank_that_fits_is_measured() -> None:
    fitting = [
        Candidate(DeltaConfig(bits=1), 42),
        Candidate(DeltaConfig(bits=2, rank=6), 41),
        Candidate(DeltaConfig(bits=4, rank=4), 40),
        Candidate(DeltaConfig(bits=1, rank=12), 36),
        Candidate(DeltaConfig(bits=2, rank=4), 35),
    ]
    assert _of_highest_rank(fitting) == fitting[:3]
    dense = [Candidate(DeltaConfig(), 9), Candidate(DeltaConfig(scale="matrix"), 8)]
    assert _of_highest_rank(dense) == dense


@pytest.mark.slow
def test_the_best_of_what_fits_is_chosen_by_its_divergence(
    rows: QualityInput, tmp_path: Path
) -> None:
    adapter, base = write_lora(tmp_path / "adapter", step=0.5), pico_folder()
    sizes = []
    for config in candidates(adapter, base):
        file = create_delta(adapter, base=base, out=tmp_path / "d", config=config, force=True)
        sizes.append(file.file_bytes)
    chosen, compared = choose_within(adapter, base, max(sizes) + 2000, rows)
    assert chosen == min(compared, key=lambda each: each.kl or 0.0).config
    ranks = [(each.config.codec, each.config.bits) for each in compared]
    assert len(set(ranks)) == len(ranks) == 5
    least, _ = choose_within(adapter, base, min(sizes) + RESERVED, rows)
    assert least == DeltaConfig(bits=1)
    report = create_delta(
        adapter, base=base, out=tmp_path / "least", config=least, quality=rows, force=True
    )
    assert report.file_bytes <= min(sizes) + RESERVED
    with raises("delta.over_budget") as error:
        choose_within(adapter, base, min(sizes), rows)
    assert error.value.code == "delta.over_budget"
    assert f"expected at least {min(sizes) + RESERVED:,}" in error.value.message


def test_a_rank_is_cut_in_the_file_and_refused_for_full_weights(tmp_path: Path) -> None:
    adapter = write_random_adapter(tmp_path / "adapter")
    file = create_delta(
        adapter, base=pico_folder(), out=tmp_path / "d", config=DeltaConfig(rank=1)
    ).file
    for rank in (4, 99):
        with raises("delta.bad_rank", "rank: expected below 4, that of the adapter, got"):
            create_delta(
                adapter, base=pico_folder(), out=tmp_path / "e", config=DeltaConfig(rank=rank)
            )
    assert {term.rank for tensor in load_delta(file).header.tensors for term in tensor.terms} == {1}  # type: ignore[union-attr]
    with raises("delta.bad_option", "rank: expected none"):
        create_delta(
            pico_folder(), base=pico_folder(), out=tmp_path / "e", config=DeltaConfig(rank=1)
        )


@pytest.mark.slow
def test_the_command_prints_what_it_compared_and_writes_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.safetensors"
    rows.write_text('{"prompt": "Spell abc backward.", "completion": "cba"}\n')
    adapter = write_random_adapter(tmp_path / "adapter")
    create = ["delta", "create", str(adapter), "--base", "zen-pico", "--out", str(out), "--json"]
    measured = [*create, "--max-bytes", "99kB", "--data", str(rows)]
    assert main([*measured, "--distill", "auto"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out.splitlines()[-1])
    assert report["bytes"] == out.stat().st_size <= 99000
    assert "chosen: --codec bf16" in printed.err
    assert report["distilled"] is None
    assert "it is not trained" in printed.err
    other = out.rename(tmp_path / "other.safetensors")
    assert main([*create, "--data", str(rows), "--control", str(other)]) == 0
    printed = capsys.readouterr()
    controls = json.loads(printed.out.splitlines()[-1])["quality"]["controls"]
    assert [each["kind"] for each in controls] == ["another-delta", "exact-x0.7", "random-signs"]
    assert "comparison: another-delta " in printed.err
    out.unlink()
    assert main([*create, "--max-bytes", "99000"]) == 2
    assert "expected held-out rows" in capsys.readouterr().err
    assert main([*measured, "--bits", "4"]) == 2
    assert "expected no --bits" in capsys.readouterr().err
