"""Seven speakers combine their fine-tunes of smollm2 in a round; prints the figures.

Measured are bits per byte of other speakers. A stranger computes each round again, to the byte.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.gym.cli.conftest import Call, call
from tests.gym.delta.models_on_disk import write_adapter
from tests.real.conftest import Speakers, measured
from zoo.gym import load_delta
from zoo.gym.delta.loadable import delta_model

__all__ = ["call"]  # a fixture

pytestmark = [pytest.mark.real, pytest.mark.nightly, pytest.mark.timeout(3600)]

RANK = 16
"""Of an adapter, by default."""


@pytest.fixture
def person(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a command as one of several people, and returns its JSON."""

    def run(who: str, *words: str) -> Any:
        monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "homes" / who))
        outcome = call(*words, "--json")
        assert outcome.code == 0, outcome.stderr
        return outcome.json

    return run


def combined(person: Callable[..., Any], base: Path, sources: list[Path], rule: str) -> Any:
    """Holds a round, which a stranger computes again, and returns its result."""
    given = ("--form", "lowrank", "--method", rule, "--min-contributors", str(len(sources)))
    person("maker", "round", "create", "speakers", "--base", str(base), "--out", "round", *given)
    for user, source in enumerate(sources):
        words = ("contribute", str(source), "--round", "round", "--base", str(base), "--send")
        person(str(user), "round", *words)
    person("maker", "round", "take", "--close")
    for user in range(len(sources)):
        person(str(user), "round", "reveal", "--send")
    person("maker", "round", "take", "--close")
    result = person("maker", "round", "aggregate")
    checked = person("stranger", "round", "verify", "round")
    assert (checked["passed"], checked["recomputed"]) == (True, True), checked
    keys = [person(str(user), "keys", "show")["key"] for user in range(len(sources))]
    return result | {"weights": [result["weights"][key] for key in keys]}


def lie(folder: Path, others: list[Path]) -> Path:
    """Writes minus three times the mean of adapters: their factors side by side."""
    files = [load_file(other / "adapter_model.safetensors") for other in others]
    factors = {
        name: np.concatenate([file[name] for file in files], axis=int("lora_B" in name))
        * np.float32(-3 / len(files) if "lora_B" in name else 1)
        for name in files[0]
    }
    return write_adapter(folder, factors, RANK * len(files))


@pytest.mark.parametrize(
    ("rule", "liars", "is_better"),
    [("byzantine_robust", 0, True), ("byzantine_robust", 2, True), ("mean", 2, False)],
    ids=["honest", "two lie", "two lie to the mean"],
)
def test_a_result_is_better_on_unseen_text_than_the_mean_single_contribution(
    rule: str, liars: int, is_better: bool, speakers: Speakers, person: Callable[..., Any]
) -> None:
    honest, alone = speakers.adapters[liars:], speakers.alone[liars:]
    # four of the five each, not the same ones: of equal lies one would be refused as a copy
    lies = [lie(Path(f"lie-{i}"), honest[i : i + 4]) for i in range(liars)]
    result = combined(person, speakers.base, [*lies, *honest], rule)
    with delta_model(load_delta(Path(result["result"])), speakers.base) as model:
        after = measured(speakers.base, speakers.unseen, model.folder, model.adapter)
    mean_alone = sum(alone) / len(alone)
    figures = {"rule": rule, "liars": liars, "base": speakers.before, "alone": alone}
    print(json.dumps({**figures, "mean_alone": mean_alone, "after": after, **result}))
    assert not result["refused"]
    assert (after < mean_alone) == is_better
    if is_better:
        assert result["weights"][:liars] == [0.0] * liars
