"""The reference pages are what the program says of itself."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from zoo.backends import load_backend
from zoo.gym.cli.verbs import VERBS
from zoo.gym.config import TrainConfig
from zoo.gym.errors import EXIT_CODES, EXIT_CTRL_C, InputError
from zoo.gym.train.loading import load_spec
from zoo.models import pico_folder

GIVEN = {"model_name_or_path": "zen-pico", "dataset": "rows", "gradient_checkpointing": True}

FOLDER = Path(__file__).parents[3] / "docs" / "reference"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """docs/reference/make_pages.py as a module."""
    spec = importlib.util.spec_from_file_location("make_pages", FOLDER / "make_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("cli.md", "cli_page"),
        ("config.md", "config_page"),
        ("errors.md", "errors_page"),
        ("recommend.md", "recommend_page"),
        ("refusals.md", "refusals_page"),
        ("rewards.md", "rewards_page"),
    ],
)
def test_a_page_is_up_to_date(maker: ModuleType, name: str, page: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert text == maker.made(text, getattr(maker, page)()), "python docs/reference/make_pages.py"


@pytest.mark.slow
def test_the_page_on_ways_to_train_is_up_to_date(maker: ModuleType) -> None:
    pytest.importorskip("mlx_lm")
    pytest.importorskip("bitsandbytes")
    text = (FOLDER / "training.md").read_text(encoding="utf-8")
    assert text == maker.made(text, maker.training_page()), "python docs/reference/make_pages.py"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::zoo.core.errors.GymWarning")
@pytest.mark.parametrize(
    "place",
    ["torch", "torch, 4 bits", "torch, 8 bits", "torch, `stream_layers`", "MLX", "MLX, 4 bits"],
)
def test_what_the_page_says_to_train_can_be_loaded_and_nothing_else(
    maker: ModuleType, place: str
) -> None:
    pytest.importorskip("mlx_lm")
    pytest.importorskip("bitsandbytes")
    device, base = maker.PLACES[place]
    for own in maker.KINDS.values():
        try:
            config = TrainConfig.model_validate(GIVEN | own | base)
            load_backend(device).load(pico_folder(), load_spec(config))
        except InputError:
            assert not maker.trains(device, own | base), own
        else:
            assert maker.trains(device, own | base), own


def test_the_json_of_every_command_is_documented() -> None:
    contract = (FOLDER / "cli.md").read_text(encoding="utf-8").partition("<!-- made -->")[0]
    told = [line.split("|")[1] for line in contract.splitlines() if line.startswith("| `")]
    assert all(any(f"`{verb.words}`" in cell for cell in told) for verb in VERBS)


def test_every_exit_code_is_documented() -> None:
    text = (FOLDER / "cli.md").read_text(encoding="utf-8")
    assert all(f"\n| {code} | " in text for code in {0, *EXIT_CODES.values(), EXIT_CTRL_C})
