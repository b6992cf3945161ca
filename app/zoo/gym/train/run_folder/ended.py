"""What a run without a process has on disk, and so what can be done with it: resume or finish.

Only `env.json` and the counters of the newest checkpoint are read, and damage counts as absence:
the commands themselves check the checkpoint and report what is wrong.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from zoo.gym.files import read_json_object
from zoo.gym.train.run_folder.checkpoint import PROGRESS_FILE, folder_name, newest_step


@dataclass(frozen=True)
class Ended:
    """The state of a run that ended before its last step.

    Attributes:
        step: the step of its newest checkpoint; 0 without one, and then it cannot be finished.
        best_step: the best evaluated step up to there; 0 before the first evaluation.
        resumable: False if the checkpoint lacks the optimizer state and steps are left.
    """

    step: int
    best_step: int
    resumable: bool

    @property
    def result(self) -> str | None:
        """The step that a finish makes a result of, in words; None if there is none."""
        if not self.step:
            return None
        return f"its best step ({self.best_step})" if self.best_step else f"step {self.step}"


def read_ended(folder: Path) -> Ended:
    """Returns what a run folder without a process contains."""
    checkpoints = folder / "checkpoints"
    step, best_step = _newest(checkpoints), 0
    if step:
        progress = read_json_object(checkpoints / folder_name(step) / PROGRESS_FILE) or {}
        best_step = _count(progress.get("best_step"))
    steps = _count(_settings(folder).get("max_steps"))
    lacks_optimizer = step > 0 and (step < steps or not steps) and keeps_only_model(folder)
    return Ended(step, best_step, resumable=not lacks_optimizer)


def keeps_only_model(folder: Path) -> bool:
    """Returns whether a run's checkpoints lack optimizer state: it can be finished, not resumed."""
    return _settings(folder).get("save_only_model") is True


def makes_result(folder: Path) -> bool:
    """Returns whether a run's worker, if it has one, only makes the result of an early finish."""
    return _count((read_json_object(folder / "env.json") or {}).get("finish_at")) > 0


def _newest(checkpoints: Path) -> int:
    try:
        return newest_step(checkpoints)
    except OSError:
        return 0


def _settings(folder: Path) -> dict[str, Any]:
    settings = (read_json_object(folder / "env.json") or {}).get("settings")
    return cast("dict[str, Any]", settings) if isinstance(settings, dict) else {}


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
