"""A first step that moves no weight stops each method, with a sentence and without a result."""

from pathlib import Path
from typing import Any

import pytest
from torch.optim import AdamW

from tests.codes import raises
from tests.gym.cli.test_recipes import data, rows, small
from tests.night import one_in
from zoo.gym.config import load_config
from zoo.gym.jobs import run_folders
from zoo.gym.published.api import run_training
from zoo.models.recipe_files import recipes

pytestmark = pytest.mark.slow
__all__ = ["rows"]  # a fixture

RECIPES = {load_config([recipe], ["dataset=d"], {}).config.stage: recipe for recipe in recipes()}


@pytest.mark.parametrize("stage", one_in(4, RECIPES))
def test_an_optimizer_that_changes_nothing_is_reported(
    stage: str, rows: dict[str, Path], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: Any, **__: Any) -> None:
        return None

    monkeypatch.setattr(AdamW, "step", nothing)
    recipe = RECIPES[stage]
    (place / "rewards.py").write_text("def long(query, response):\n    return len(response)\n")
    items = [*small(recipe, place), f"dataset={data(recipe, rows)}"]
    if "prompt" in str(data(recipe, rows)) and stage != "lessons":  # lessons have no reward
        items.append("reward=rewards.py:long")  # zen-pico's answers differ in their lengths
    config = load_config([recipe], items, {}).config
    with raises("train.weights_unchanged"):
        run_training(config)
    [run] = run_folders()
    assert not run.result.exists()
