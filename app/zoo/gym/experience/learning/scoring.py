"""What a reward consists of: files of functions with what they import, models, adapters.

A run notes their digests before its first call and refuses to be resumed with others: rewards of
two kinds would be compared. Left out: data that a function reads, and code that it
reads while it is called.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.reward_spec import parse_spec
from zoo.gym.errors import InputError
from zoo.gym.experience.settings import LIVE
from zoo.gym.rewards.reward import Reward

KEY = "reward_digests"
"""In `env.json` of a run: the digest of each part, by its path or name."""


def digests_of(reward: Reward, spec: object) -> dict[str, str]:
    """Returns a digest of each file and model that a reward consists of, by its path or name.

    Args:
        reward: the loaded reward.
        spec: the value of the setting that names it; one without files has none.

    Raises:
        GymError: a model or an adapter is gone.
    """
    from zoo.gym.delta.origin.digests import weights_digest
    from zoo.gym.train.run_folder.other_files import digest_of
    from zoo.models import resolve

    found = dict(reward.sources)
    if spec == LIVE:
        return found
    for settings in parse_spec(spec):
        for key in settings.models:
            name = str(getattr(settings, key))
            found[name] = weights_digest(resolve(name, offline=True).folder)
        if settings.models and settings.file:
            found[settings.file] = digest_of(f"reward {settings.label}", settings.file)
    return found


def check_same_reward(env_file: Path, now: Mapping[str, str]) -> None:
    """Refuses a reward of other files than a run began with; notes them if none are noted.

    A file that was moved is the same.

    Args:
        env_file: the run's `env.json`.
        now: the digests of the reward that is loaded.

    Raises:
        InputError: a file has changed.
    """
    from zoo.gym.train.run_folder.settings import read_env, update_env

    noted: Any = read_env(env_file).get(KEY)
    if noted is None:
        update_env(env_file, {KEY: dict(now)})
        return
    if not isinstance(noted, dict):
        raise InputError(f"{env_file}: {KEY}: expected digests, got a damaged value")
    before = cast("Mapping[str, Any]", noted)
    changed = _without(now, before.values()) or _without(before, now.values())
    if changed:
        raise InputError(
            f"reward: '{changed[0]}': expected the file that run {env_file.parent.name} began "
            "with, got a changed file",
            hint="put the old file back, or start a new run",
        )


def _without(some: Mapping[str, Any], digests: Iterable[Any]) -> list[str]:
    known = set(digests)
    return [name for name, digest in some.items() if digest not in known]
