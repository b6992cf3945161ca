"""Stores the environment of a run in `env.json`, and checks it on resume.

That is threads, device, data fingerprint, base and library versions. The settings are in
`zoo.gym.train.run_folder.settings`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.train import TrainConfig
from zoo.gym.data import fingerprint
from zoo.gym.delta.origin.digests import BASE_KEY
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.train.run_folder.base import refuse_other_base
from zoo.gym.train.run_folder.other_files import refuse_changed_files
from zoo.gym.train.run_folder.settings import read_env, record_change, settings_in, update_env
from zoo.gym.versions import versions
from zoo.models.folder import count_parameters

DATA_KEY = "data"
"""In `env.json` of a run: the fingerprint of its data."""


def remembered(env_file: Path, key: str, first: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Returns the value stored under `key`; if there is none, stores the value of `first`.

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
        InputError: the stored value is not a whole number, or negative.
    """
    count = remembered(env_file, key, first)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise InputError(
            f"{env_file}: {key}: expected a whole number, got a damaged value",
            code="train.damaged_file",
        )
    return count


def stored_threads(env_file: Path, folder: Path) -> int:
    """Returns the run's stored thread count, or chooses and stores one."""
    from zoo.backends.machine.threads import choose_threads

    return max(
        1, remembered_count(env_file, "threads", lambda: choose_threads(count_parameters(folder)))
    )


def stored_device(env_file: Path, backend: str = "auto") -> str:
    """Returns the run's stored device, or stores the one that its settings name.

    Args:
        env_file: the run's `env.json`.
        backend: the setting; `auto` is the best device of this machine.

    Raises:
        NotAvailableError: this machine lacks the device that the settings of a new run name.
        InputError: this machine lacks the run's device; `runs resume --set device=` changes it.
    """
    from zoo.backends.machine.detect import detect, require

    def chosen() -> str:
        return detect().name if backend == "auto" else require(backend)

    device = str(remembered(env_file, "device", chosen))
    try:
        return require(device)
    except (InputError, NotAvailableError) as error:
        here = detect().name
        raise InputError(
            f"device: the run uses {device}, which this machine lacks: {error.message}",
            hint=f"resume it here: zoo-gym runs resume {env_file.parent.name} --set device={here}",
            code="train.no_device",
        ) from None


def check_same_data(env_file: Path, config: TrainConfig) -> str:
    """Checks that the data of a run is unchanged, and returns its fingerprint.

    Raises:
        InputError: a file has changed since.
        NotAvailableError: a file is gone.
    """
    files = config.data_files
    for file in files:
        if not file.is_file():
            raise NotAvailableError(
                f"dataset: '{file}': no such file: expected the data that the run began with",
                hint="put the file back, or start a new run",
                code="train.data_gone",
            )
    now = fingerprint(files)
    if remembered(env_file, DATA_KEY, lambda: now) != now:
        raise InputError(
            f"dataset: {', '.join(map(str, files))} changed since the run began",
            hint="start a new run, or put the old file back",
            code="train.data_changed",
        )
    return now


def note_versions(env_file: Path, step: int) -> str | None:
    """Records the library versions of a resumed run; returns a warning if they have changed.

    Raises:
        InputError: `env.json` is damaged.
    """
    stored, now = read_env(env_file).get("versions"), versions()
    began = cast("dict[str, object]", stored) if isinstance(stored, dict) else {}
    pairs = {name: (version, now.get(name)) for name, version in began.items()}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if not differing:
        return None
    record_change(env_file, step, {"versions": differing})
    update_env(env_file, {"versions": now})
    changes = ", ".join(f"{name} {new} (was {old})" for name, (old, new) in differing.items())
    return f"library versions have changed, so the weights may differ: {changes}"


def check_as_began(env_file: Path) -> None:
    """Checks that what a run reads is unchanged, as far as it stored digests.

    That is its data, its models and the files that its rewards name.

    The worker checks again; this check lets a resume fail before its worker starts.

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
    refuse_changed_files(env_file, config)
    for key in env.keys() & config.other_models.keys():
        refuse_other_base(env_file, resolve(config.other_models[key], offline=True).folder, key)
