"""A base in a folder of one's own is found by its identity, wherever the commands run."""

import json
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.codes import raises
from tests.gym.cli.conftest import write_model
from zoo.gym import TrainConfig, run_training
from zoo.gym.delta.reading.remembered import find_base, remember_base
from zoo.gym.paths import folders
from zoo.models import pico_folder

Call = Callable[..., Any]


@pytest.fixture
def tuned(base: Path) -> Path:
    """A fine-tune of the base, with other weights than it."""
    folder = write_model(base.with_name("tuned"), seed=2)
    [(name, weight)] = load_file(base / "model.safetensors").items()
    change = np.random.default_rng(3).standard_normal(weight.shape).astype(np.float32)
    save_file({name: weight + change / 10}, folder / "model.safetensors")
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Another folder, in which a folder called like the base has another model."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    write_model(folder / "base", seed=9)
    return folder


@pytest.fixture
def delta(call: Call, base: Path, tuned: Path) -> Path:
    """A delta that was created with --base, in the folder of the base."""
    assert call("delta", "create", "tuned", "--base", "base").code == 0
    return Path("tuned.delta.safetensors").absolute()


def test_a_delta_is_applied_without_base(call: Call, delta: Path, elsewhere: Path) -> None:
    with chdir(elsewhere):
        found = call("delta", "apply", str(delta), "--json")
    assert (found.code, found.json["folder"]) == (0, "tuned-model"), found.stderr


def test_a_delta_is_checked_against_its_base(call: Call, delta: Path, elsewhere: Path) -> None:
    with chdir(elsewhere):
        found = call("delta", "check", str(delta), "--json")
    identity = next(one for one in found.json["checks"] if one["name"] == "identity")
    assert (identity["ok"], "base" in identity["detail"]) == (True, True)


@pytest.mark.slow
def test_a_delta_chats_without_model(
    call: Call, base: Path, delta: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    @contextmanager
    def open_chat(folder: Path, **_: object) -> Generator[None]:
        opened.append(folder)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("zoo.gym.chat.open_chat", open_chat)
    with chdir(elsewhere):
        call("chat", "--delta", str(delta))
    assert opened == [base]


@pytest.mark.slow
def test_a_fine_tune_is_contributed_without_base(
    call: Call, base: Path, tuned: Path, elsewhere: Path
) -> None:
    terms = ("--base", "base", "--out", "round", "--method", "mean", "--tensors", "*")
    assert call("round", "create", "tiny", *terms, "--min-contributors", "2").code == 0
    place = str(Path("round").absolute())
    with chdir(elsewhere):
        found = call("round", "contribute", str(tuned), "--round", place, "--json")
    assert (found.code, found.json["file"] != "") == (0, True), found.stderr


def test_a_folder_counts_as_long_as_it_has_that_base(
    call: Call, base: Path, tuned: Path, delta: Path, elsewhere: Path
) -> None:
    (base / "model.safetensors").write_bytes((tuned / "model.safetensors").read_bytes())
    with chdir(elsewhere):
        found = call("delta", "apply", str(delta))
    assert (found.code, "belongs to another base" in found.stderr) == (2, True)


def test_the_folder_that_was_used_last_is_preferred(call: Call, base: Path) -> None:
    second = write_model(base.with_name("copy"), seed=1)
    for folder in (base, second, base):
        time.sleep(0.02)  # file systems keep times in ticks
        remember_base(folder)
        assert find_base("x", lambda _: None) == folder
    assert len(list((folders().data / "bases").iterdir())) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_training_remembers_its_base(call: Call, tmp_path: Path) -> None:
    folder = shutil.copytree(pico_folder(), tmp_path / "own")
    rows = [{"prompt": str(n), "completion": "it is"} for n in range(4)]
    settings: dict[str, Any] = {"dataset": rows, "max_steps": 1, "retention": False}
    run_training(TrainConfig(model_name_or_path=str(folder), **settings))
    assert find_base("x", lambda _: None) == folder


def test_what_a_name_finds_is_not_remembered(call: Call) -> None:
    remember_base(pico_folder())
    assert not (folders().data / "bases").exists()


@pytest.mark.parametrize("content", ["", "[]", json.dumps({"folder": 1}), '{"folder": "\\ud800"}'])
def test_a_damaged_entry_is_passed_over(call: Call, base: Path, content: str) -> None:
    remember_base(base)
    (folders().data / "bases" / "newest.json").write_text(content)
    assert find_base("x", lambda _: None) == base


def test_of_equal_bases_the_recorded_name_decides_and_a_template_is_not_guessed(
    call: Call, base: Path
) -> None:
    other = shutil.copytree(base, base.with_name("other"))
    (other / "chat_template.jinja").write_text("{{ messages[0].content }}")
    for folder in (base, other):
        remember_base(folder)
    assert find_base(base.name, lambda _: None) == base
    assert find_base("other", lambda _: None) == other
    with raises("delta.ambiguous_base"):
        find_base("a third name", lambda _: None)
