"""A model that is named by an alias, an id or a revision is shown and recorded with its commit."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.gym.cli.conftest import Call
from zoo.gym.jobs import run_folders
from zoo.models import pico_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHOWN = "Qwen/Qwen3-0.6B@0123456789ab"


@pytest.fixture(autouse=True)
def cached(tmp_path: Path) -> Path:
    """The hub cache with zen-pico in place of zen-nano, and rows."""
    folder = tmp_path / "hub" / "models--Qwen--Qwen3-0.6B"
    shutil.copytree(pico_folder(), folder / "snapshots" / COMMIT)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    (tmp_path / "rows.jsonl").write_text('{"prompt": "hi", "completion": "ho"}\n' * 9)
    return folder / "snapshots" / COMMIT


@pytest.mark.parametrize("name", ["zen-nano", "Qwen/Qwen3-0.6B", f"Qwen/Qwen3-0.6B@{COMMIT}", ""])
def test_every_way_to_name_it_shows_id_and_commit(call: Call, name: str, cached: Path) -> None:
    words = ("chat", "--model", name or str(cached), "--max_new_tokens", "1")
    assert f"loading {name or cached}: {SHOWN}\n" in call(*words, stdin="hi").stderr


@pytest.mark.slow
def test_a_run_shows_and_records_the_commit(call: Call) -> None:
    result = call("train", "rows.jsonl", "--model", "zen-nano", "max_steps=1")
    assert f"run r0001: {SHOWN} in " in result.stderr
    (run,) = run_folders()
    settings = yaml.safe_load(run.config_file.read_text())
    assert settings["model_name_or_path"] == f"Qwen/Qwen3-0.6B@{COMMIT}"


def test_a_data_set_of_the_hub_is_named_as_what_it_is(call: Call) -> None:
    for words in (("train", "org/rows", "--model", "zen-pico"), ("data", "inspect", "org/rows")):
        result = call(*words)
        assert result.code == 4
        assert "hf download --repo-type dataset org/rows --local-dir rows" in result.stderr
