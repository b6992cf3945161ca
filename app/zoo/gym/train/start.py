"""What a run chose and saw at its start, and must find again when it goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.gym.config.train import TrainConfig
from zoo.gym.data import fingerprint
from zoo.gym.errors import InputError
from zoo.gym.files import write_beside
from zoo.models.folder import count_parameters


def remembered(env_file: Path, key: str, first: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Returns what the run has stored under `key`; at its start `first` says it."""
    env = json.loads(env_file.read_text(encoding="utf-8"))
    if key not in env:
        env[key] = first()
        write_beside(env_file, json.dumps(env, indent=2) + "\n")
    return env[key]


def stored_threads(env_file: Path, folder: Path) -> int:
    """Returns the run's thread count: the one it started with, or one chosen and stored now."""
    from zoo.backends.threads import choose_threads

    return int(remembered(env_file, "threads", lambda: choose_threads(count_parameters(folder))))


def check_same_data(env_file: Path, config: TrainConfig) -> None:
    """Makes sure that a resumed run goes on with the data it began with.

    Raises:
        InputError: a file has changed since.
    """
    now = fingerprint([Path(name) for name in config.dataset])
    if remembered(env_file, "data", lambda: now) != now:
        raise InputError(
            f"dataset: {', '.join(config.dataset)} changed since the run began",
            hint="start a new run, or put the old file back",
        )
