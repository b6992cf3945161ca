"""A study: the trials of a search in SQLite, by Optuna, and what it searches, in one folder.

Each suggestion depends on the number of the trial and the trials before alone, so that a search
that was killed goes on as if nothing had happened.
"""

import json
import re
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.files.lock import locked
from zoo.gym.humanize import figure
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.tune.space import Range, Value

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

MOST_LETTERS = 58
"""Of a name; with `-start` or `-0000` behind it it is that of a run, which has at most 64."""

_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9._-]{{0,{MOST_LETTERS - 1}}}")
RUN, SCORE = "run", "score"
"""What a trial has besides its settings: the id of its run, and the figure that it ended with."""

SEED = 42
"""That of the first suggestion; later ones count on from it."""

STARTUP_TRIALS = 5
"""So many trials are complete before one is pruned, and before values are drawn near good ones."""


def require_optuna() -> None:
    """Checks that Optuna is installed.

    Raises:
        NotAvailableError: it is not.
    """
    if find_spec("optuna") is None:
        raise NotAvailableError(
            "tuning needs the package optuna, which is not installed",
            hint=install_command("tune"),
            code="tune.missing_package",
        )


@dataclass(frozen=True)
class Plan:
    """What a study searches.

    Attributes:
        ranges: the settings that are searched.
        settings: those that the user gave, by key, a single value of a searched one included; data
            by its absolute path.
        data: the fingerprint of the data.
        decides: the figure that trials are compared by.
        better: whether lower or higher figures are better.
    """

    ranges: tuple[Range, ...]
    settings: Mapping[str, Any]
    data: str
    decides: str
    better: str

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `study.json`."""
        return {
            "v": 1,
            "ranges": [each.as_json() for each in self.ranges],
            "settings": dict(self.settings),
            "data": self.data,
            "decides": self.decides,
            "better": self.better,
        }


class Trials:
    """The trials of a study, in its folder.

    Args:
        name: the name of the study; one that exists is continued.
        plan: what it searches.

    Raises:
        InputError: the name cannot be one, or the study of that name searches something else.
        StorageError: its folder cannot be written.
    """

    def __init__(self, name: str, plan: Plan) -> None:
        self.folder, self.plan = study_folder(name), plan
        self.name = name
        ensure_folder(self.folder)
        self._check_plan()
        self._study = self._opened()

    def _check_plan(self) -> None:
        file = self.folder / "study.json"
        content = json.loads(json.dumps(self.plan.as_json()))
        stored = read_json_object(file)
        if stored is None:
            write_beside(file, json.dumps(content, indent=2) + "\n", sync=True)
            return
        changed = [key for key in content if stored.get(key) != content[key]]
        if changed:
            raise InputError(
                f"study '{self.name}' exists with other {' and '.join(changed)}: its figures could"
                " not be compared",
                hint="choose another one: --name NAME",
                code="tune.other_study",
            )

    def _opened(self) -> "Study":
        import optuna
        from optuna.pruners import MedianPruner
        from sqlalchemy import URL

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        place = URL.create("sqlite", database=str(self.folder / "trials.sqlite"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return optuna.create_study(
                storage=place.render_as_string(),
                study_name=self.name,
                direction="minimize" if self.plan.better == "lower" else "maximize",
                pruner=MedianPruner(n_startup_trials=STARTUP_TRIALS),
                load_if_exists=True,
            )

    def next(self) -> "tuple[Trial, dict[str, Value]]":
        """Returns the trial that was begun and not ended, or a new one, and its settings."""
        from optuna.samplers import TPESampler
        from optuna.trial import Trial, TrialState

        begun = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        number = begun[0].number if begun else len(self._study.get_trials(deepcopy=False))
        self._study.sampler = TPESampler(n_startup_trials=STARTUP_TRIALS, seed=SEED + number)
        if begun:  # Optuna has no public way to continue one
            known = begun[0]._trial_id  # pyright: ignore[reportPrivateUsage]
            trial = Trial(self._study, known)
        else:
            trial = self._study.ask()
        return trial, {each.key: each.suggest(trial) for each in self.plan.ranges}

    def tell(self, trial: "Trial", score: float | None, *, pruned: bool = False) -> None:
        """Ends a trial: with its figure, as pruned, or without a figure as failed."""
        from optuna.trial import TrialState

        if pruned:
            self._study.tell(trial, state=TrialState.PRUNED)
        elif score is None:
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, score)

    def ended(self) -> "list[FrozenTrial]":
        """Returns the trials that ended, in order."""
        trials = self._study.get_trials(deepcopy=False)
        return [trial for trial in trials if trial.state.is_finished()]

    def best(self) -> "FrozenTrial | None":
        """Returns the trial with the best figure, the first of equal ones; None if none has one."""
        from optuna.trial import TrialState

        complete = [trial for trial in self.ended() if trial.state is TrialState.COMPLETE]
        sign = 1 if self.plan.better == "lower" else -1
        return min(complete, key=lambda trial: sign * (trial.value or 0.0), default=None)


@contextmanager
def one_search(name: str) -> Generator[None]:
    """Keeps other processes from the study of a name for the duration of a `with` block.

    Raises:
        GymError: another process searches it.
        InputError: the name cannot be one.
        StorageError: its folder cannot be written.
    """
    folder = study_folder(name)
    ensure_folder(folder)
    with locked(folder / ".lock") as is_held:
        if not is_held:
            raise GymError(
                f"study '{name}' is being searched by another process",
                hint="wait for its end, or search another one: --name NAME",
                code="tune.being_searched",
            )
        yield


def study_folder(name: str) -> Path:
    """Returns the folder of a study.

    Raises:
        InputError: the name cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"--name: expected up to {MOST_LETTERS} letters, digits, '.', '_' and '-', starting "
            f"with a letter, got {name!r}",
            code="tune.bad_name",
        )
    return folders().runs.parent / "studies" / name


def name_for(data: Sequence[str]) -> str:
    """Returns the name of the study of some data files: that of the first one."""
    stem = Path(data[0]).name.partition(".")[0] if data else ""
    letters = re.sub(r"[^A-Za-z0-9._-]", "-", stem)
    return re.sub(r"^[^A-Za-z]+", "", letters)[:MOST_LETTERS] or "study"


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
