"""A private home for the commands, and a model small enough to write in a blink."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from zoo.gym.cli import main
from zoo.gym.jobs import Run, create_run


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


STEP = {"step": 1, "steps": 1, "loss": 0.5, "tokens_per_s": 1200.0, "eta_s": 0.0}
CHOICE = {"key": "learning_rate", "value": 0.002, "reason": "lora on 0.8 M parameters"}
DONE = {"state": "done", "exit_code": 0, "model": "/m", "metrics": {"best_loss": 0.4}}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the next launch write these end fields instead of starting a process."""

    def ends(**fields: object) -> None:
        def launch(run: Run) -> int:
            run.events.emit("plan", steps=1, choices=[CHOICE])
            run.events.emit("eval", step=0, loss=0.9)
            run.events.emit("step", **STEP)
            run.events.emit("eval", step=1, loss=0.4)
            run.events.emit("warn", message="line 3 is left out")
            if fields:
                run.events.emit("end", **fields)
            return 1

        monkeypatch.setattr("zoo.gym.cli.train.launch", launch)

    return ends


@pytest.fixture
def done(call: Call) -> Run:
    """A run that is done, in the home of `call`."""
    run = create_run("model_name_or_path: zen-pico\ndataset:\n- a.jsonl\n", {})
    run.events.emit("step", step=3, steps=3, loss=0.25)
    run.events.emit("end", state="done", exit_code=0, model="/m", metrics={"best_loss": 0.25})
    return run
