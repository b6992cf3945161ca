"""A hub that takes uploads, and fine-tunes with much that must stay here."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gym.delta import models_on_disk as disk
from tests.gym.push.hub import TOKEN, Hub, serving

SHAPES = disk.qwen3_shapes()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a home of its own."""
    work = tmp_path / "some" / "where"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "some"))
    monkeypatch.setenv("ZOO_GYM_HOME", str(work / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(work / "cache"))
    return work


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A running hub, which the environment points at with a token that it takes."""
    from huggingface_hub import constants

    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    state = Hub()
    with serving(state) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        yield state


@pytest.fixture
def adapter(place: Path) -> Path:
    """An adapter without a card, for a base in a folder of this machine."""
    base = str(place / "secret_base")
    factors = disk.lora_arrays(SHAPES, 2, 3)
    return disk.write_adapter(place / "lora", factors, 2, base_model_name_or_path=base)


@pytest.fixture
def littered(adapter: Path) -> Path:
    """The same with files of a training beside it."""
    for name in ("optimizer.pt", "events.jsonl", "rows.csv", "trainer_state.json", "notes.md"):
        (adapter / name).write_text("SECRET")
    (adapter / "tokenizer_config.json").write_text(
        json.dumps({"name_or_path": str(adapter), "eos_token": "</s>"})
    )
    return adapter
