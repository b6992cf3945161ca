"""The recipes that ship. Whether their keys are settings is for the tests of the configuration."""

from pathlib import Path

import pytest
import yaml

import zoo.models
from zoo.models.names import parse_name

RECIPES = sorted((Path(zoo.models.__file__).parent / "recipes").glob("*.yaml"))


def test_recipes_ship() -> None:
    assert [recipe.stem for recipe in RECIPES] == ["zen-eco-lora", "zen-nano-lora", "zen-pico-demo"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_says_what_it_is_for_and_how_to_call_it(recipe: Path) -> None:
    text = recipe.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert f"zoo-gym train {recipe.name}" in text


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_trains_the_model_that_it_is_named_after(recipe: Path) -> None:
    model = yaml.safe_load(recipe.read_text(encoding="utf-8"))["model_name_or_path"]
    assert recipe.stem.startswith(model)
    assert parse_name(model)
