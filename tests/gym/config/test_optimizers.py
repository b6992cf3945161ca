"""The keys of optimizers: their names, and what becomes of them in the engine's specification."""

from pathlib import Path

import pytest

from zoo.gym import InputError, TrainConfig
from zoo.gym.config import load_config
from zoo.gym.config.keys.optimizer import OPTIMIZERS
from zoo.gym.train.loading import load_spec

NEEDED = ["model_name_or_path=m", "dataset=d"]


def loaded(*items: str) -> TrainConfig:
    return load_config([], [*NEEDED, *items], {}).config


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_optimizer_that_is_named_is_the_one_of_the_engine(name: str) -> None:
    assert load_spec(loaded(f"optim={name}")).optimizer.name == name


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("adamw_torch", "adamw"), ("adamw_torch_fused", "adamw"), ("lion_32bit", "lion")],
)
def test_the_names_of_other_trainers_mean_the_same_optimizer(theirs: str, ours: str) -> None:
    assert loaded(f"optim={theirs}") == loaded(f"optim={ours}")
    assert TrainConfig(model_name_or_path="m", dataset="d", optim=theirs).optim == ours


@pytest.mark.parametrize("name", ["adam", "adagrad", "lion_8bit", "adamw_apex_fused"])
def test_an_optimizer_that_is_not_here_is_refused_by_name(name: str) -> None:
    expected = f"optim={name}: expected 'adamw', .*, got \"{name}\""
    with pytest.raises(InputError, match=expected):
        loaded(f"optim={name}")


SWITCHES = [("use_muon", "muon"), ("use_adam_mini", "adam_mini")]


@pytest.mark.parametrize(("switch", "name"), SWITCHES)
def test_a_published_switch_chooses_the_optimizer(switch: str, name: str) -> None:
    assert loaded(f"{switch}=true") == loaded(f"optim={name}")
    assert load_config([], NEEDED, {switch: True}).config == loaded(f"optim={name}")


def test_the_plain_optimizer_beside_a_switch_is_reported() -> None:
    found = load_config([], [*NEEDED, "optim=adamw_torch", "use_muon=true"], {})
    assert found.config.optim == "muon"
    [ignored] = found.ignored
    assert (ignored.key, ignored.reason) == ("optim", "use_muon chooses the optimizer")


def test_two_optimizers_are_refused() -> None:
    for items in (["optim=lion", "use_muon=true"], ["use_adam_mini=true", "use_muon=true"]):
        with pytest.raises(InputError, match=f"use_muon=true: already given as '{items[0]}'"):
            loaded(*items)


def test_a_switch_that_is_off_changes_nothing_beside_another() -> None:
    found = load_config([], [*NEEDED, "use_muon=true", "use_adam_mini=false"], {})
    assert (found.config.optim, [one.key for one in found.ignored]) == ("muon", ["use_adam_mini"])


def test_a_stronger_source_switches_an_optimizer_off(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("use_muon: true\n")
    assert load_config([file], [*NEEDED, "use_muon=false"], {}).config.optim == "adamw"
    assert load_config([file], [*NEEDED, "use_adam_mini=false"], {}).config.optim == "muon"
    assert load_config([file], [*NEEDED, "optim=lion"], {}).config.optim == "lion"


def test_a_switch_is_true_or_false() -> None:
    with pytest.raises(InputError, match='use_muon=maybe: expected true or false, got "maybe"'):
        loaded("use_muon=maybe")
