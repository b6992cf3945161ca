"""Stores digests of the base of a run, and refuses to resume with another base."""

from pathlib import Path
from typing import Any, cast

from zoo.gym.delta.origin.digests import BASE_KEY, FORM_PARTS, base_digests
from zoo.gym.errors import InputError
from zoo.gym.train.run_folder.settings import read_env, update_env
from zoo.models.folder import read_config
from zoo.models.forward_settings import differing, forward_settings

CONFIG_PART = "config"
"""Among the digests: what the config of the base says of its computation."""


def check_same_base(env_file: Path, folder: Path, key: str = BASE_KEY) -> None:
    """Checks that the base of a run is unchanged; at the start of a run, stores its digests.

    Args:
        env_file: the run's `env.json`.
        folder: the base's folder.
        key: of the digests; of another model than the base, the setting that names it.

    Raises:
        InputError: a part of the base has changed; the message says which.
    """
    if key not in read_env(env_file):
        settings = forward_settings(read_config(folder))
        update_env(env_file, {key: {**base_digests(folder), CONFIG_PART: settings}})
    refuse_other_base(env_file, folder, key)


def refuse_other_base(env_file: Path, folder: Path, key: str = BASE_KEY) -> None:
    """Refuses a base other than the one a run began with; without stored digests, accepts any.

    Args:
        env_file: the run's `env.json`.
        folder: the base's folder.
        key: see `check_same_base`.

    Raises:
        InputError: a part of the base has changed; the message says which.
    """
    stored = read_env(env_file).get(key)
    if stored is None:
        return
    if not isinstance(stored, dict):
        raise InputError(
            f"{env_file}: {key}: expected digests, got a damaged value", code="train.damaged_file"
        )
    stored_parts, now = cast("dict[str, Any]", stored), base_digests(folder)
    # a run of an older version has stored digests of other parts
    changed = [part for part, digest in now.items() if stored_parts.get(part, digest) != digest]
    settings = stored_parts.get(CONFIG_PART)
    if isinstance(settings, dict):
        changed += differing(settings, forward_settings(read_config(folder)))
    if changed:
        raise InputError(
            f"model '{folder}': expected the {key} that run {env_file.parent.name} began with, "
            f"got other: {', '.join(FORM_PARTS.get(part, part) for part in changed)}",
            hint=f"put the old {key} back, or start a new run",
            code="train.changed_base",
        )
