"""Models and files that rewards name: pinned with a run, checked at a resume, and not published."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.codes import raises
from tests.gym.rewards.models.folders import write_reward_model
from zoo.gym.config import TrainConfig, load_config
from zoo.gym.config.reward_spec import parse_spec, with_places
from zoo.gym.train.run_folder.env import check_as_began
from zoo.gym.train.run_folder.pinned import pinned
from zoo.gym.train.session import check_models
from zoo.models import pico_folder, resolve


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a reward model, an adapter and a file of functions."""
    monkeypatch.chdir(tmp_path)
    write_reward_model(tmp_path / "scorer")
    (tmp_path / "tuned").mkdir()
    (tmp_path / "mine.py").write_text("def short(query, response):\n    return 1.0\n")
    return tmp_path


def settings(reward: object, **more: Any) -> TrainConfig:
    given: dict[str, Any] = {
        "model_name_or_path": "zen-pico",
        "dataset": "d.jsonl",
        "stage": "grpo",
        "reward": reward,
    }
    return TrainConfig(**(given | more))


SEVERAL: list[object] = [
    {"kind": "judge", "model": "zen-pico", "adapter": "tuned", "weight": 0.5},
    "scorer",
    "mine.py:short",
    {"kind": "numeric", "tolerance": 0.1},
]


def test_a_run_stores_absolute_places_and_the_same_rewards(here: Path) -> None:
    config = pinned(settings(SEVERAL), resolve("zen-pico"))
    assert config.model_dump()["reward"] == [
        {"kind": "judge", "model": "zen-pico", "adapter": str(here / "tuned"), "weight": 0.5},
        {"kind": "model", "model": str(here / "scorer")},
        {"kind": "function", "function": f"{here / 'mine.py'}:short"},
        {"kind": "numeric", "tolerance": 0.1},
    ]
    stored = [one.label for one in parse_spec(config.model_dump()["reward"])]
    assert stored == [one.label for one in parse_spec(SEVERAL)]


@pytest.mark.parametrize("reward", ["numeric", "auto", {"numeric": 1, "exact": 0.5}, "module:f"])
def test_a_reward_without_places_is_stored_as_it_was_given(reward: object) -> None:
    assert pinned(settings(reward), resolve("zen-pico")).model_dump()["reward"] == reward


def test_a_name_that_a_place_gave_is_kept() -> None:
    found = with_places("org/scorer", lambda _, place: f"{place}@abc")
    assert found == [{"kind": "model", "model": "org/scorer@abc", "name": "scorer"}]


def test_stored_settings_can_be_read_from_everywhere(
    here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = here / "config.yaml"
    config = pinned(settings("scorer"), resolve("zen-pico"))
    stored.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert load_config([stored], [], {}).config == config


def test_nothing_that_is_published_contains_a_path(here: Path) -> None:
    public = pinned(settings(SEVERAL), resolve("zen-pico")).public_settings()
    assert str(here) not in json.dumps(public)
    assert [entry.get("model") for entry in public["reward"]] == ["zen-pico", "scorer", None, None]
    assert public["reward"][2]["function"] == "mine.py:short"


def test_a_reward_model_that_changed_refuses_the_resume(here: Path) -> None:
    config = pinned(settings("scorer"), resolve("zen-pico"))
    env_file = here / "env.json"
    env_file.write_text(json.dumps({"settings": config.model_dump(mode="json")}))
    check_models(config, pico_folder(), env_file)
    check_as_began(env_file)
    weights = here / "scorer" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    with raises("train.changed_base", "scorer"):
        check_models(config, pico_folder(), env_file)
    with raises("train.changed_base", "scorer"):
        check_as_began(env_file)


def started(reward: object, here: Path) -> tuple[TrainConfig, Path]:
    """Returns the settings and the `env.json` of a run after its first checks."""
    config = pinned(settings(reward), resolve("zen-pico"))
    env_file = here / "env.json"
    env_file.write_text(json.dumps({"settings": config.model_dump(mode="json")}))
    check_models(config, pico_folder(), env_file)
    check_models(config, pico_folder(), env_file)
    check_as_began(env_file)
    return config, env_file


@pytest.mark.parametrize(
    ("reward", "changed", "label"),
    [
        ("mine.py:short", "mine.py", "short"),
        ({"numeric": 1, "function": {"function": "mine.py:short", "name": "a"}}, "mine.py", "a"),
        ([{"kind": "judge", "model": "zen-pico", "adapter": "tuned"}], "tuned/a", "judge"),
    ],
)
def test_a_reward_s_file_that_changed_refuses_the_resume(
    here: Path, reward: object, changed: str, label: str
) -> None:
    weights = here / "tuned" / "adapter_model.safetensors"
    weights.write_bytes(b"weights")
    config, env_file = started(reward, here)
    path = weights if changed == "tuned/a" else here / changed
    path.write_bytes(path.read_bytes() + b"\n")
    refused = f"^reward {label}: .*expected the file that run .* began with, got a changed file\n"
    with raises("train.file_changed", refused):
        check_models(config, pico_folder(), env_file)
    with raises("train.file_changed", refused):
        check_as_began(env_file)
    path.unlink()
    with raises("train.file_gone", f"^reward {label}: .*no such file"):
        check_as_began(env_file)


def test_a_function_of_a_module_is_not_checked(here: Path) -> None:
    _, env_file = started("mine:short", here)
    assert "other_files" not in json.loads(env_file.read_text())


def test_an_absent_reward_model_is_refused_before_there_is_a_run(here: Path) -> None:
    config = settings("scorer")
    shutil.rmtree(here / "scorer")
    with raises("config.bad_reward", "reward"):
        pinned(config, resolve("zen-pico"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reward", "place"),
    [
        ("nofile.py:score", "nofile.py"),
        (["numeric", {"function": "lost/mine.py:f", "kind": "function"}], "lost/mine.py"),
        ({"kind": "judge", "model": "zen-pico", "adapter": "none"}, "none"),
    ],
)
def test_an_absent_file_is_refused_before_there_is_a_run(
    here: Path, reward: object, place: str
) -> None:
    with raises("train.no_such_file", f"reward: no such file: '{place}'"):
        pinned(settings(reward), resolve("zen-pico"))
