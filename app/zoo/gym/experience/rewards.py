"""The reward of a run or a command: loads it, and refuses one that changed since the run began.

A run notes the digests of what its reward consists of before its first call: files of functions
with what they import, models, adapters. With others, rewards of two kinds would be compared. Left
out: data that a function reads, and code that it reads while it is called.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.reward_spec import parse_spec
from zoo.gym.errors import InputError
from zoo.gym.experience.learning.majority import COMPARES
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.settings import LIVE, MAJORITY, ExperienceConfig
from zoo.gym.rewards.loading import load
from zoo.gym.rewards.reward import Reward

REWARD_FILES_KEY = "reward_digests"
"""In `env.json` of a run: the digest of each part, by its path or name."""


def load_reward(
    config: ExperienceConfig, split: Split, function: object = None, *, labels: bool = False
) -> Reward:
    """Returns the reward of a run or a command.

    `function` is a reward function of this process; `labels` says whether labels of a majority will
    be drawn.

    Raises:
        InputError: it cannot be loaded, a task lacks what it needs, or it is the majority without
            labels.
    """
    if function is None and config.reward == LIVE:
        raise InputError(
            "reward: expected a function that this process has, got one of the program that "
            "started the run",
            hint="write it to a file and start a new run with reward=my.py:function",
            code="experience.live_reward",
        )
    if function is None and config.reward == MAJORITY:
        if labels:
            return load(COMPARES, [])
        raise InputError(
            f"reward: expected another one than {MAJORITY}, which is for experience train alone",
            hint="rows with answers, or --reward judge",
            code="experience.majority_reward",
        )
    spec = config.reward_spec if function is None else function
    return load(spec, [*split.train, *split.gate, *split.test])


def reward_files(config: ExperienceConfig, reward: Reward) -> dict[str, str]:
    """Returns a digest of each file and model of a loaded reward, by its path or name.

    Raises:
        GymError: a model or an adapter is gone.
    """
    from zoo.gym.delta.origin.digests import weights_digest
    from zoo.gym.train.run_folder.other_files import digest_of
    from zoo.models import resolve

    digests = dict(reward.sources)
    if config.reward in (MAJORITY, LIVE):
        return digests
    for settings in parse_spec(config.reward_spec):
        for key in settings.models:
            name = str(getattr(settings, key))
            digests[name] = weights_digest(resolve(name, offline=True).folder)
        if settings.models and settings.file:
            digests[settings.file] = digest_of(f"reward {settings.label}", settings.file)
    return digests


def check_same_reward(env_file: Path, digests: Mapping[str, str]) -> None:
    """Refuses a reward of other files than a run began with; notes them if none are noted.

    A file that was moved is the same.

    Raises:
        InputError: a file has changed.
    """
    from zoo.gym.train.run_folder.settings import read_env, update_env

    noted: Any = read_env(env_file).get(REWARD_FILES_KEY)
    if noted is None:
        update_env(env_file, {REWARD_FILES_KEY: dict(digests)})
        return
    if not isinstance(noted, dict):
        raise InputError(
            f"{env_file}: {REWARD_FILES_KEY}: expected digests, got a damaged value",
            code="experience.damaged_run",
        )
    first = cast("Mapping[str, Any]", noted)
    changed = [name for name, digest in digests.items() if digest not in first.values()]
    changed += [name for name, digest in first.items() if digest not in digests.values()]
    if changed:
        raise InputError(
            f"reward: '{changed[0]}': expected the file that run {env_file.parent.name} began "
            "with, got a changed file",
            hint="put the old file back, or start a new run",
            code="experience.changed_reward",
        )
