"""The recipes that ship. Whether their keys are settings is for the tests of the configuration."""

from pathlib import Path

import pytest
import yaml

from zoo.models.names import parse_name
from zoo.models.recipe_files import PUBLISHED, find_recipe, recipes

RECIPES = recipes()


def test_recipes_ship() -> None:
    assert {"zen-eco-lora", "zen-nano-lora", "zen-pico-demo"} <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_each_key_of_a_recipe_is_explained(recipe: Path) -> None:
    keys = [line for line in recipe.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    plain = ("max_steps:",)  # the name says it
    assert [key for key in keys if " # " not in key and not key.startswith(plain)] == []


def test_a_recipe_is_found_by_its_name_and_by_a_published_path() -> None:
    found = find_recipe("zen-nano-lora.yaml")
    assert found is not None
    assert (
        found
        == find_recipe("configs/zen_nano_lora.yaml")
        == find_recipe("./configs/zen_nano_lora.yaml")
    )
    assert all(find_recipe(path) for path in PUBLISHED)
    assert find_recipe("configs/zen-nano-lora.yaml") is None


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
