"""Records digests of the files besides data and models, and refuses to resume with other ones.

These are the adapter that is trained further, the files of functions, and the adapters of judges;
`base` does the same for models. A function in a module (`module:f`) and the modules that a
function's file imports are not checked.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.train import TrainConfig
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.paths import given_path
from zoo.gym.train.run_folder.settings import read_env, update_env

OTHER_FILES_KEY = "other_files"
"""In `env.json` of a run: the SHA-256 of each such file, by the setting that names it."""

FORMER_KEY = "reward_files"
"""The name of the key in runs that began before there were other such files."""

_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")


def check_same_files(env_file: Path, config: TrainConfig) -> None:
    """Checks that the other files are unchanged; at the start of a run, stores their digests.

    Args:
        env_file: the run's `env.json`.
        config: the settings of the run, with absolute paths.

    Raises:
        InputError: a file has changed.
        NotAvailableError: a file is gone.
    """
    env = read_env(env_file)
    if config.other_files and not {OTHER_FILES_KEY, FORMER_KEY} & env.keys():
        now = {label: digest_of(label, path) for label, path in config.other_files.items()}
        update_env(env_file, {OTHER_FILES_KEY: now})
    refuse_changed_files(env_file, config)


def refuse_changed_files(env_file: Path, config: TrainConfig) -> None:
    """Refuses other files than a run began with; without stored digests, accepts any.

    Args:
        env_file: the run's `env.json`.
        config: the settings of the run, with absolute paths.

    Raises:
        InputError: a file has changed.
        NotAvailableError: a file is gone.
    """
    env = read_env(env_file)
    stored = env.get(OTHER_FILES_KEY, env.get(FORMER_KEY))
    if stored is None:
        return
    if not isinstance(stored, dict):
        raise InputError(
            f"{env_file}: {OTHER_FILES_KEY}: expected digests, got a damaged value",
            code="train.damaged_file",
        )
    digests = cast("Mapping[str, Any]", stored)
    for label, path in config.other_files.items():
        if digest_of(label, path) != digests.get(label):
            raise InputError(
                f"{label}: '{path}': expected the file that run {env_file.parent.name} began "
                "with, got a changed file",
                hint="put the old file back, or start a new run",
                code="train.file_changed",
            )


def digest_of(label: str, place: str) -> str:
    """Returns the SHA-256 of a file; of a folder, that of the files of an adapter.

    Raises:
        NotAvailableError: there is no such file.
    """
    path = given_path(place)
    files = [path / name for name in _ADAPTER_FILES] if path.is_dir() else [path]
    present = [file for file in files if file.is_file()]
    if not present:
        raise NotAvailableError(
            f"{label}: '{place}': no such file: expected the file that the run names",
            hint="put the file back, or start a new run",
            code="train.file_gone",
        )
    whole = hashlib.sha256()
    for file in present:
        with file.open("rb") as opened:
            whole.update(hashlib.file_digest(opened, "sha256").digest())
    return whole.hexdigest()
