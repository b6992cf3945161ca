"""`zoo-gym round show` and `aggregate` name the contributions that the rule left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gym.cli.conftest import write_model
from tests.gym.cli.test_communities import Call, committed, person
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import read_chunk

__all__ = ["person"]  # a fixture

PEOPLE = ("ann", "ben", "cid", "dan", "liar")


def published(person: Call, tmp_path: Path, *more: str) -> Any:
    """Four whose changes are alike, and one who sends the opposite; returns the aggregate."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    [(name, weight)] = load_file(Path("base/model.safetensors")).items()
    common = np.random.default_rng(7).standard_normal(weight.shape).astype(np.float32)
    for seed, who in enumerate(PEOPLE, 1):
        folder = tmp_path / who if (tmp_path / who).is_dir() else write_model(tmp_path / who, seed)
        own = np.random.default_rng(seed).standard_normal(weight.shape).astype(np.float32)
        change = (-5 * common if who == "liar" else common) + own
        save_file({name: weight + change / 10}, folder / "model.safetensors")
    words = ("--base", "base", "--out", "round", "--tensors", "*", "--form", "float")
    made = person("maker", "round", "create", "tiny", *words, "--min-contributors", "5", *more)
    assert made.code == 0, made.stderr
    for who in PEOPLE:
        committed(person, who)
    person("maker", "round", "take", "--close")
    for who in PEOPLE:
        person(who, "round", "reveal", "--send")
    person("maker", "round", "take", "--close")
    return person("maker", "round", "aggregate")


@pytest.mark.slow
def test_who_is_left_out_by_the_rule_is_named(person: Call, tmp_path: Path) -> None:
    found = published(person, tmp_path, "--method", "byzantine_robust")
    shown = person("liar", "round", "show", "round")
    [own] = [line for line in shown.stdout.splitlines() if "(you)" in line]
    fingerprint = own.split(" (you)")[0].strip()
    assert own.endswith("(you) left out by the rule: weight 0")
    assert f"left out by the rule, weight 0: {fingerprint}\n" in found.stdout
    others = person("ann", "round", "show", "round", "--json").json["contributors"]
    assert sum(one["weight"] for one in others) == pytest.approx(1)
    assert sum(one["points"] for one in others) == 1000
    assert [one["state"] for one in others].count("left out by the rule") == 1
    assert "(you) counts: weight 0." in person("ann", "round", "show", "round").stdout


@pytest.mark.slow
def test_a_rule_by_columns_has_points_and_no_weights(person: Call, tmp_path: Path) -> None:
    assert "weight 0" not in published(person, tmp_path, "--method", "median").stdout
    shown = person("ann", "round", "show", "round").stdout
    assert "(you) counts: 200 points\n" in shown
    assert "weight" not in shown


@pytest.mark.slow
def test_a_lost_report_hides_no_contributor(person: Call, tmp_path: Path) -> None:
    published(person, tmp_path, "--method", "mean")
    chunks = [path for path in Path("round/chunks").rglob("*") if path.is_file()]
    for path in chunks:
        if path.read_bytes().startswith(b'{"contributions"'):
            report = json.loads(read_chunk(FolderStorage(Path("round").resolve()), path.name))
            path.unlink()
    assert len(report["contributions"]) == 5
    assert "(you) counts\n" in person("ann", "round", "show", "round").stdout
