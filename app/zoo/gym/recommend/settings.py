"""The recipe of a method and a model, and the settings that the recommended command reads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zoo.gym.config import load_config
from zoo.gym.config.items import value_text
from zoo.gym.recommend.rules import EXPERIENCE, Rule
from zoo.models import registry
from zoo.models.recipe_files import find_recipe

if TYPE_CHECKING:
    from zoo.gym.config.train import TrainConfig

MODEL = "zen-nano"
"""The model unless the user names one; each method has a recipe for it."""


class Recipe(NamedTuple):
    """A recipe by name, and whether it names the wanted model itself."""

    name: str
    has_model: bool


def recipe_of(rule: Rule, model: str) -> Recipe:
    """Returns the recipe of a method for a model; without one, that for `MODEL`."""
    name = f"{model}-{rule.recipe}.yaml"
    if any(model == entry.alias for entry in registry()) and find_recipe(name) is not None:
        return Recipe(name, has_model=True)
    return Recipe(f"{MODEL}-{rule.recipe}.yaml", has_model=False)


def config_of(
    rule: Rule, model: str, paths: Sequence[Path], settings: Mapping[str, object]
) -> "TrainConfig":
    """Returns the settings of a run as `command` starts it.

    Raises:
        InputError: settings contradict each other.
    """
    recipe = find_recipe(recipe_of(rule, model).name)
    assert recipe is not None
    flags = {"model_name_or_path": model, "dataset": [str(path) for path in paths]}
    return load_config([recipe], [], flags | dict(settings)).config


def command(
    rule: Rule, model: str, paths: Sequence[Path], settings: Mapping[str, object]
) -> tuple[str, ...]:
    """Returns the words of the command that trains."""
    files = tuple(map(str, paths))
    if rule.method == EXPERIENCE:
        words = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
        return ("zoo-gym", "experience", "train", *files, "--model", model, *words)
    recipe = recipe_of(rule, model)
    named = () if recipe.has_model else ("--model", model)
    items = (f"{key}={value_text(value)}" for key, value in settings.items())
    return ("zoo-gym", "train", recipe.name, *files, *named, *items)
