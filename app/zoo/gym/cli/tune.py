"""`zoo-gym tune`: searches settings of training, each trial a run."""

import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from zoo.gym import jobs
from zoo.gym.cli import train
from zoo.gym.cli.options import Json, Model, Yes
from zoo.gym.cli.output import Output
from zoo.gym.config import Loaded
from zoo.gym.config.items import value_text
from zoo.gym.config.stages import load_method
from zoo.gym.errors import InputError
from zoo.gym.humanize import figure
from zoo.gym.jobs.run import STUDY_KEY
from zoo.gym.tune.space import Range, Value, parse_ranges, split_ranges

if TYPE_CHECKING:
    from zoo.gym.tune.search import Budget, Outcome, Start
    from zoo.gym.tune.study import Plan, Trials


def tune(
    *items: str,
    model: Model = None,
    name: str | None = None,
    trials: int = 20,
    minutes: float | None = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Searches settings of training by held-out rows; each trial is a run.

    Args:
        items: as for train: files, a .yaml file, KEY=VALUE; and KEY=LOW..HIGH or KEY=A,B,C for
            each setting to search
        model: the model to train, the same as model=MODEL
        name: the name of the study; the same command continues it. By default that of the data
        trials: the number of trials, those of earlier calls included
        minutes: start no trial after so many minutes, and save the running one
        yes: download without asking
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.tune.search import Budget, check_ends
    from zoo.gym.tune.study import name_for, one_search, require_optuna

    screen = Output(as_json)
    if trials < 1:
        raise InputError(f"--trials: expected at least 1, got {trials}", code="cli.bad_value")
    if minutes is not None and not 0 < minutes < 1e6:
        raise InputError(f"--minutes: expected more than 0, got {minutes:g}", code="cli.bad_value")
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    texts, words = split_ranges(items)

    def load(more: Sequence[str] = ()) -> Loaded:
        return train.load((*words, *more), (), {"model_name_or_path": model})

    loaded = load()
    ranges = parse_ranges(texts, loaded.config.stage)
    check_ends(ranges, load)
    require_optuna()
    study = name_for(loaded.config.dataset) if name is None else name

    def start(settings: Mapping[str, Value], run_name: str) -> jobs.Run:
        more = [f"{key}={value_text(value)}" for key, value in settings.items()]
        run = train.prepared_run(load(more), screen, yes=yes, env={STUDY_KEY: study})
        with suppress(InputError):  # another run keeps its name
            jobs.rename(run, run_name)
        return run

    with one_search(study):
        return _search(study, _plan(loaded, ranges), start, Budget(trials, deadline), screen)


def _search(name: str, plan: "Plan", start: "Start", budget: "Budget", screen: Output) -> int:
    """Searches, and reports the best run."""
    from zoo.gym.tune.search import search
    from zoo.gym.tune.study import Trials

    study = Trials(name, plan)
    for each in plan.ranges:
        screen.say(f"{each.key}: {each.in_words}")
    done = f"{len(study.ended())} of {budget.trials} trials"
    screen.say(f"study {study.name}: {done}, in {study.folder}")
    first = search(study, start, budget, partial(_show, screen, plan.decides))
    if (ended := len(study.ended())) < budget.trials:
        over = f"the time is over after {ended} of {budget.trials} trials"
        screen.say(f"{over}; the same command continues")
    return _report(study, first, screen)


def _plan(loaded: Loaded, ranges: tuple[Range, ...]) -> "Plan":
    """Returns what a study searches: ranges, and the settings that the user gave."""
    from zoo.gym.config.items import existing
    from zoo.gym.data import fingerprint
    from zoo.gym.train.run_folder.pinned import dataset_files
    from zoo.gym.tune.study import Plan

    config = loaded.config
    stated = {key for key, origin in loaded.origins.items() if origin != "default"}
    settings = config.model_dump(mode="json", include=stated)
    for key in {"dataset", "eval_dataset"} & settings.keys():
        settings[key] = [str(existing(path).absolute()) for path in settings[key]]
    method = load_method(config.stage)
    data = fingerprint([existing(str(path)) for path in dataset_files(config).used])
    return Plan(ranges, settings, data, method.decides, method.better)


def _show(screen: Output, decides: str, outcome: "Outcome") -> None:
    """Prints how a run of the search ended."""
    settings = " ".join(f"{key}={value_text(value)}" for key, value in outcome.settings.items())
    number = "start" if outcome.number is None else f"trial {outcome.number}"
    score = "no figure" if outcome.score is None else f"{decides} {figure(outcome.score)}"
    state = "" if outcome.state == "done" else f", {outcome.state}"
    screen.answer(f"{number}  {outcome.run}  {score}{state}  {settings}".rstrip())


def _report(study: "Trials", first: "Outcome", screen: Output) -> int:
    """Prints the best run and writes its settings."""
    from zoo.gym.tune.study import RUN, write_recipe

    best, decides = study.best(), study.plan.decides
    assert first.score is not None
    settings, score, run = dict[str, Value](), first.score, first.run
    sign = 1 if study.plan.better == "lower" else -1
    if best is not None and best.value is not None and sign * (best.value - score) < 0:
        settings, score, run = dict(best.params), best.value, str(best.user_attrs[RUN])
    path = write_recipe(study, settings, score, run)
    if settings:
        words = " ".join(f"{key}={value_text(value)}" for key, value in settings.items())
        screen.answer(f"best: {words}, {decides} {figure(score)} in run {run}")
        screen.answer(
            f"with the settings as given: {decides} {figure(first.score)} in run {first.run}"
        )
    else:
        screen.answer(f"no trial is better than the start: {decides} {figure(score)} in run {run}")
    screen.say("the figures are those of the rows that chose them: measure on others at the end")
    screen.say("next:")
    screen.say(f"  zoo-gym export {run}    writes the best run for other programs")
    screen.answer(f"  zoo-gym train {shlex.quote(str(path))}    trains with its settings")
    screen.result(
        {
            "study": study.name,
            "folder": str(study.folder),
            "trials": len(study.ended()),
            "best": settings,
            "score": score,
            "start": first.score,
            "decides": decides,
            "run": run,
            "recipe": str(path),
        }
    )
    return 0
