"""Writes what a search found as a settings file that `zoo-gym train` takes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from zoo.gym.files import write_beside
from zoo.gym.humanize import figure
from zoo.gym.tune.study import Trials

FILE = "best.yaml"


def write_recipe(trials: Trials, settings: Mapping[str, Any], score: float, run: str) -> Path:
    """Writes the user's settings with those of the best run, and returns the file.

    Args:
        trials: the study.
        settings: the searched settings of that run; none if the start was the best.
        score: its held-out figure.
        run: its id.

    Raises:
        StorageError: the file cannot be written.
    """
    plan = trials.plan
    head = f"# study {trials.name}, run {run}: held-out {plan.decides} {figure(score)}\n"
    content = yaml.safe_dump({**plan.settings, **settings}, sort_keys=True, allow_unicode=True)
    path = trials.folder / FILE
    write_beside(path, head + content, sync=True)
    return path
