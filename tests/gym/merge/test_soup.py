import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.merge.conftest import SHAPES
from zoo.backends.base import LoadSpec
from zoo.gym.cli import main
from zoo.gym.cli.delta import examples
from zoo.gym.cli.merge import _searched as searched
from zoo.gym.cli.output import Output
from zoo.gym.data import Example
from zoo.gym.delta.reading.weights import open_weights, read_float32
from zoo.gym.engine import engine_for
from zoo.gym.errors import GymError
from zoo.gym.measure import held_out
from zoo.gym.merge import soup
from zoo.gym.merge.inputs import find_inputs
from zoo.gym.merge.soup import Mean, greedy_soup, in_all
from zoo.gym.train.measuring import Measuring


def row(*ids: int) -> Example:
    return Example(np.array(ids, np.int64), np.arange(len(ids)) > 0, "rows:1", truncated=False)


def test_rows_that_a_source_learned_are_not_measured() -> None:
    common = in_all([[row(1, 2), row(3, 4)], [row(3, 4), row(5, 6)]])
    assert [each.ids.tolist() for each in common] == [[3, 4]]


@pytest.mark.parametrize("rows", [[], [[]], [[row(1, 2)], [row(3, 4)]]])
def test_without_rows_for_all_there_is_no_search(rows: list[list[Example]]) -> None:
    with raises("merge.no_rows"):
        in_all(rows)


def models(top: Path, *centres: float) -> list[Path]:
    """Returns models whose weights are one number each."""
    return [
        disk.write_model(top / f"m{c}", {n: np.full(s, c, np.float32) for n, s in SHAPES.items()})
        for c in centres
    ]


def search(paths: Sequence[Path], out: Path) -> tuple[list[str], list[Mean]]:
    inputs, _ = find_inputs(list(map(str, paths)), None, needs_base=False)
    chosen, means = greedy_soup(inputs, [row(1, 2)], out, lambda _: None)
    return [Path(item.name).name for item in chosen], means


@pytest.fixture
def near_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of a model is the distance of its weights from 4."""

    def loss(folder: Path, rows: object) -> float:
        values = read_float32(open_weights(folder), "model.norm.weight")
        return abs(float(values[0]) - 4)

    monkeypatch.setattr(soup, "_loss", loss)


@pytest.mark.slow
def test_sources_stay_if_the_loss_falls(near_four: None, tmp_path: Path) -> None:
    # alone 3: 1, 6: 2, 9: 5; with 6 the mean is 4.5: 0.5; with 9 it is 6: 2
    chosen, means = search(models(tmp_path, 9, 6, 3), tmp_path / "out")
    assert chosen == ["m3", "m6"]
    assert [(len(each.names), each.loss, each.kept) for each in means] == [
        *((1, 1.0, True), (1, 2.0, False), (1, 5.0, False)),
        *((2, 0.5, True), (3, 2.0, False)),
    ]


@pytest.mark.slow
def test_if_no_mean_is_better_nothing_is_written(near_four: None, tmp_path: Path) -> None:
    with raises("merge.none_better", r"no mean is better than .*m4 alone"):
        search(models(tmp_path, 4, 6), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m4", "m6"]


@pytest.mark.slow
def test_a_source_without_a_finite_loss_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = models(tmp_path, 4, 6)
    losses = {"0": 1.0, "1": float("nan")}
    monkeypatch.setattr(soup, "_loss", lambda folder, _: losses[folder.name])
    with raises("merge.no_finite_loss", r"m6: expected a finite held-out loss, got nan"):
        search(paths, tmp_path / "out")


@pytest.mark.slow
def test_losses_are_those_of_the_models(wholes: list[Path], tmp_path: Path) -> None:
    rows = [row(1, 2, 3, 4), row(7, 8, 9)]
    inputs, _ = find_inputs(list(map(str, wholes)), None, needs_base=False)
    seen: list[Mean] = []
    with suppress(GymError):  # none may be better
        greedy_soup(inputs, rows, tmp_path / "out", seen.append)
    alone = {Path(each.names[0]): each.loss for each in seen if len(each.names) == 1}
    for path in wholes:
        policy = engine_for(path).load(path, LoadSpec(dtype="f32"))
        assert alone[path] == pytest.approx(held_out(policy, rows).loss, rel=1e-6)
    assert len(seen) == 3
    assert seen[-1].loss not in alone.values()


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("--search", "--method", "ties"), "expected no --method ties"),
        (("--search", "--weights", "1,2"), "expected no --weights"),
        (("--data", "x.jsonl"), "--data: has no effect without --search"),
        (("--weights", "1;2"), "--weights: expected numbers separated by commas"),
    ],
)
def test_options_without_effect_are_refused(
    words: tuple[str, ...], refused: str, wholes: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["merge", *map(str, wholes), *words]) == 2
    assert refused in capsys.readouterr().err


def test_a_source_whose_rows_are_not_known_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = Measuring([row(1, 2)], held_out=True)
    monkeypatch.setattr(examples, "held_out_examples", lambda *_: rows)
    monkeypatch.setattr(examples, "sampled", lambda measuring, *_: measuring)
    monkeypatch.setattr(soup, "greedy_soup", lambda *_: ([], []))
    tuned = [SimpleNamespace(source=SimpleNamespace(run=run), base=None) for run in ("r1", None)]
    inputs: Any = [SimpleNamespace(tuned=each) for each in tuned]
    searched(inputs[:1], (), Path("out"), Output())
    assert "not known" not in capsys.readouterr().err
    searched(inputs, (), Path("out"), Output())
    assert "it is not known whether a source was trained on some" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_writes_the_mean(
    wholes: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO(""))
    assert main(["merge", *map(str, wholes), "--out", "soup", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer["method"] == "linear"
    assert (tmp_path / "soup" / "config.json").is_file()
    assert "It was not measured" in (tmp_path / "soup" / "README.md").read_text()
    card = (tmp_path / "soup" / "README.md").read_text()
    assert str(wholes[0].parent) not in card
