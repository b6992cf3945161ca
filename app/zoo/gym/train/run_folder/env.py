"""Stores what a run chose and saw at its start in `env.json`, and checks it again on resume.

Threads, device, data fingerprint, base and versions of libraries. The settings are in
`zoo.gym.train.run_folder.settings`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.train import TrainConfig
from zoo.gym.data import fingerprint
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.train.run_folder.base import BASE_KEY, refuse_other_base
from zoo.gym.train.run_folder.settings import read_env, record_change, settings_in, update_env
from zoo.gym.versions import versions
from zoo.models.folder import count_parameters

DATA_KEY = "data"
"""In `env.json` of a run: the fingerprint of its data."""


def remembered(env_file: Path, key: str, first: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Returns what the run has stored under `key`; at its start `first` says it.

    Raises:
        InputError: `env.json` is damaged.
    """
    env = read_env(env_file)
    if key not in env:
        env[key] = first()
        update_env(env_file, {key: env[key]})
    return env[key]


def remembered_count(env_file: Path, key: str, first: Callable[[], int]) -> int:
    """Returns a number as `remembered` does.

    Raises:
        InputError: what is stored is no whole number.
    """
    found = remembered(env_file, key, first)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise InputError(f"{env_file}: {key}: expected a whole number, got a damaged value")
    return found


def stored_threads(env_file: Path, folder: Path) -> int:
    """Returns the run's thread count: the one it started with, or one chosen and stored now."""
    from zoo.backends.threads import choose_threads

    return max(
        1, remembered_count(env_file, "threads", lambda: choose_threads(count_parameters(folder)))
    )


def stored_device(env_file: Path) -> str:
    """Returns the run's device: the one it started on, or the best one here, stored now.

    Raises:
        InputError: the run has another device than this machine; it goes on here after
            `runs resume --set device=`.
    """
    from zoo.backends.detect import detect, require

    found = str(remembered(env_file, "device", lambda: detect().name))
    try:
        return require(found)
    except (InputError, NotAvailableError) as error:
        here = detect().name
        raise InputError(
            f"device: the run works on {found}, which is not here: {error.message}",
            hint=f"go on elsewhere: zoo-gym runs resume {env_file.parent.name} --set device={here}",
        ) from None


def check_same_data(env_file: Path, config: TrainConfig) -> str:
    """Makes sure that a resumed run goes on with the data it began with; returns its fingerprint.

    Raises:
        InputError: a file has changed since.
        NotAvailableError: a file is gone.
    """
    for name in config.dataset:
        if not Path(name).is_file():
            raise NotAvailableError(
                f"dataset: '{name}': no such file: expected the data that the run began with",
                hint="put the file back, or start a new run",
            )
    now = fingerprint([Path(name) for name in config.dataset])
    if remembered(env_file, DATA_KEY, lambda: now) != now:
        raise InputError(
            f"dataset: {', '.join(config.dataset)} changed since the run began",
            hint="start a new run, or put the old file back",
        )
    return now


def note_versions(env_file: Path, step: int) -> str | None:
    """Records the libraries that a run goes on with; returns a sentence where they are others.

    Raises:
        InputError: `env.json` is damaged.
    """
    found, now = read_env(env_file).get("versions"), versions()
    began = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    pairs = {name: (version, now.get(name)) for name, version in began.items()}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if not differing:
        return None
    record_change(env_file, step, {"versions": differing})
    update_env(env_file, {"versions": now})
    told = ", ".join(f"{name} {new} (was {old})" for name, (old, new) in differing.items())
    return f"the run goes on with other libraries, so its weights may differ: {told}"


def check_as_began(env_file: Path) -> None:
    """Makes sure that data and base are those that a run began with, as far as it stored them.

    The worker looks again; here the answer comes before a resume is said to go on.

    Raises:
        InputError: one has changed since, or `env.json` is damaged.
        NotAvailableError: one is gone.
    """
    from zoo.models import resolve

    env, config = read_env(env_file), settings_in(env_file)
    if config is None:
        return
    if DATA_KEY in env:
        check_same_data(env_file, config)
    if BASE_KEY in env:
        refuse_other_base(env_file, resolve(config.model_name_or_path, offline=True).folder)
