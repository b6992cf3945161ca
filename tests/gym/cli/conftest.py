"""A private home for the commands, and a model small enough to write in a blink."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from zoo.gym.cli import main


@dataclass
class Outcome:
    """What a command did: its exit code and both streams."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, object]:
        """The last line of stdout."""
        found: dict[str, object] = json.loads(self.stdout.splitlines()[-1])
        return found


Call = Callable[..., Outcome]


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Runs a command in an empty folder, with no network and nothing in any cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*words: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", StringIO(stdin))
        code = main(words)
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder that counts as a model: a config and one matrix."""
    return write_model(tmp_path / "base", seed=1)


def write_model(folder: Path, seed: int) -> Path:
    """Writes one float32 matrix of 4 x 16 and a config."""
    import numpy as np
    from safetensors.numpy import save_file

    folder.mkdir()
    weight = np.random.default_rng(seed).normal(size=(4, 16)).astype(np.float32)
    save_file({"model.layers.0.mlp.up_proj.weight": weight}, folder / "model.safetensors")
    config = {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file of one example."""
    path = tmp_path / "my.jsonl"
    path.write_text('{"prompt": "a", "completion": "b"}\n')
    return path
