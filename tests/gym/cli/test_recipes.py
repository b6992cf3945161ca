"""The recipes: found by name, read without a complaint, and each trains."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from tests.gym.conftest import Refused
from tests.gym.train.methods.teachers import write_teacher
from tests.night import one_in
from zoo.gym.cli import main
from zoo.gym.config import load_config
from zoo.gym.config.stages import METHODS, load_method
from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.jobs import run_folders
from zoo.gym.published.api import run_training
from zoo.models.folder import is_reward_model
from zoo.models.recipe_files import find_recipe, recipes

RECIPES = recipes()
SMALL = ["model_name_or_path=zen-pico", "max_steps=2", "cutoff_len=64", "dtype=auto"]


@pytest.fixture
def rows(place: Path) -> dict[str, Path]:
    """Files of examples by the kind of row that methods read."""
    pairs = [{"prompt": f"Say {n}.", "chosen": f"It is {n}.", "rejected": "No."} for n in range(20)]
    turns = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in pairs]
    asked = [{"prompt": f"{n} + 1 =", "answer": n + 1} for n in range(20)]
    rated = [{**row, "label": n % 2 == 0} for n, row in enumerate(turns)]
    content: dict[str, Sequence[Mapping[str, object]]]
    content = {"pair": pairs, "completion": turns, "prompt": asked, "rated": rated}
    files = {kind: place / f"{kind}.jsonl" for kind in content}
    for kind, content_of in content.items():
        files[kind].write_text("".join(json.dumps(row) + "\n" for row in content_of))
    return files


def data(recipe: Path, rows: dict[str, Path]) -> Path:
    stage = yaml.safe_load(recipe.read_text())["stage"]
    return next(file for kind, file in rows.items() if kind in load_method(stage).reads)


def small(recipe: Path, place: Path) -> list[str]:
    """Settings with which a recipe trains in seconds, without a download."""
    keys = yaml.safe_load(recipe.read_text())
    if "lessons" in keys:
        write_library(place / "lessons.json", Library((Item("Count twice."),)))
        return [*SMALL[:2], "cutoff_len=300", f"lessons={place / 'lessons.json'}"]
    if "teacher_model" in keys:
        return [*SMALL, f"teacher_model={write_teacher(place / 'teacher')}"]
    return SMALL


def is_written(result: Path) -> bool:
    """Returns whether a folder has an adapter, or is a reward model, which is a whole model."""
    return (result / "adapter_model.safetensors").is_file() or is_reward_model(result)


def test_every_method_has_a_recipe() -> None:
    stages = {yaml.safe_load(recipe.read_text())["stage"] for recipe in RECIPES}
    assert stages == set(METHODS) - {"distill_delta"}  # `delta create` has its settings


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_each_key_of_a_recipe_is_a_setting(recipe: Path) -> None:
    loaded = load_config([recipe], ["dataset=my.jsonl"], {})
    assert loaded.ignored == ()
    keys = yaml.safe_load(recipe.read_text())
    assert {key for key, origin in loaded.origins.items() if str(recipe) in origin} == set(keys)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zen-pico-demo.yaml", "configs/zen_nano_lora.yaml"])
def test_a_recipe_is_used_by_name(
    name: str, place: Path, rows: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", name, str(rows["completion"]), "model_name_or_path=zen-pico"]
    assert main([*words, "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert f"{find_recipe(name)}:" in printed


@pytest.mark.slow
def test_a_file_of_that_name_wins(
    place: Path, rows: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("zen-pico-demo.yaml").write_text("model: zen-pico\nseed: 123\n")
    assert main(["train", "zen-pico-demo.yaml", str(rows["completion"]), "--print-config"]) == 0
    assert "seed: 123" in capsys.readouterr().out


@pytest.mark.slow
def test_a_misspelt_recipe_suggests_the_right_one(refused: Refused) -> None:
    message = refused("train", "zen-nano-lara.yaml", code=4)
    assert message.endswith("or a recipe. Did you mean 'zen-nano-lora.yaml'?")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", one_in(4, RECIPES), ids=lambda recipe: recipe.stem)
def test_a_recipe_trains_from_the_command_line(
    recipe: Path, rows: dict[str, Path], near_worker: None, place: Path
) -> None:
    assert main(["train", recipe.name, str(data(recipe, rows)), *small(recipe, place)]) == 0
    [run] = run_folders()
    assert is_written(run.result)


@pytest.mark.nightly
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_trains_from_python(recipe: Path, rows: dict[str, Path], place: Path) -> None:
    items = [*small(recipe, place), f"dataset={data(recipe, rows)}"]
    config = load_config([recipe], items, {}).config
    assert is_written(run_training(config).model)
