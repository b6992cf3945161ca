"""A place to run published code in: a cache whose models are zen-pico, and no network."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.gym.rewards.models.folders import write_reward_model
from tests.seeds.blocks import read_blocks
from zoo.models import pico_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODELS = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B", "Qwen/Qwen3-4B-Instruct-2507")
"""The ids in the published code that are zen-pico here."""


@dataclass(frozen=True)
class Place:
    """A working folder with an environment of its own."""

    folder: Path
    env: Mapping[str, str]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end; if it reads a pipe, it gets one line."""
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=self.env,
            input="Hello\n",
            capture_output=True,
            text=True,
            check=False,
        )

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Runs Python code in a process of its own."""
        script = self.folder / "block.py"
        script.write_text(code, encoding="utf-8")
        return self.run(sys.executable, script.name)

    def gym(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of zoo-gym."""
        return self.run(sys.executable, "-m", "zoo.gym", *words)

    def write_rows(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Writes a file of examples."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.folder / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def blocks(shared: Callable[[str], Path]) -> dict[str, str]:
    """The published code by number."""
    return read_blocks(shared)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of models in which every published id is zen-pico, or a reward model of its shape."""
    cache = tmp_path_factory.mktemp("hub")
    for name in MODELS:
        storage = cache / f"models--{name.replace('/', '--')}"
        shutil.copytree(pico_folder(), storage / "snapshots" / COMMIT)
        (storage / "refs").mkdir()
        (storage / "refs" / "main").write_text(COMMIT)
    rewards = cache / "models--zenlm--zen-reward-model"
    write_reward_model(rewards / "snapshots" / COMMIT)
    (rewards / "refs").mkdir()
    (rewards / "refs" / "main").write_text(COMMIT)
    return cache


@pytest.fixture
def place(tmp_path: Path, cache: Path) -> Place:
    """An empty working folder, with the rows that published code names."""
    home = {"ZOO_GYM_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(cache)}
    env = os.environ | home | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    (tmp_path / "work").mkdir()
    found = Place(tmp_path / "work", env)
    found.write_rows(
        "alpaca_en_demo",
        [{"instruction": f"Say {n}.", "input": "", "output": f"It is {n}."} for n in range(24)],
    )
    sums = [{"prompt": f"{n} + 1 =", "answer": n + 1} for n in range(12)]
    found.write_rows("data.jsonl", sums)
    found.write_rows(
        "user_data.jsonl", [{"prompt": f"Say {n}.", "completion": f"{n}."} for n in range(24)]
    )
    pairs = [{"prompt": f"Say {n}.", "chosen": f"{n}", "rejected": "No"} for n in range(24)]
    for name in ("your_preference_dataset", "preference_data.jsonl"):
        found.write_rows(name, pairs)
    return found
