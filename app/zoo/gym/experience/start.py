"""Prepares a run: reads and splits tasks, checks models, cap and reward, and makes the folder."""

import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from zoo.gym.errors import InputError
from zoo.gym.experience import store
from zoo.gym.experience.calls.budget import Cap
from zoo.gym.experience.estimate import Estimate, estimate
from zoo.gym.experience.learning.majority import DESCRIPTION, MAJORITY
from zoo.gym.experience.learning.split import LEAST_TASKS, Split, split_tasks
from zoo.gym.experience.models import Named, cap_of, named_models
from zoo.gym.experience.session import KIND, load_reward
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.experience.tasks import read_tasks, write_split
from zoo.gym.humanize import counted
from zoo.gym.jobs.run import Run, create_run
from zoo.gym.paths import given_path
from zoo.gym.rewards.reward import Task
from zoo.gym.signing import own_key


@dataclass(frozen=True)
class Prepared:
    """A run that can be made.

    Attributes:
        config: the settings, with the library's name.
        split: the tasks.
        models: who answers and who teaches.
        cap: what may be spent.
        estimate: what it will need.
        notes: what the user should know, in sentences.
        reward: what scores answers, in a sentence.
    """

    config: ExperienceConfig
    split: Split
    models: Named
    cap: Cap
    estimate: Estimate
    notes: list[str]
    reward: str


def prepare_files(config: ExperienceConfig, paths: Sequence[Path]) -> Prepared:
    """Returns the run that learns from files of tasks.

    Raises:
        GymError: a file, model, price or reward is missing or wrong.
    """
    tasks, notes = read_tasks(paths)
    name = config.name or store.name_of(paths[0])
    return prepare(config.model_copy(update={"name": name}), tasks, notes)


def prepare(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    notes: Sequence[str] = (),
    reward: object = None,
) -> Prepared:
    """Returns the run that learns from tasks.

    Args:
        config: the settings, with a name.
        tasks: the tasks.
        notes: what is known about their files.
        reward: a reward function of this process.

    Raises:
        GymError: a file, model, price or reward is missing or wrong.
    """
    store.check_name(config.name)
    models = named_models(config)
    cap = cap_of(config, models)
    gate, gate_notes = _file(config.gate)
    test, test_notes = _file(config.test)
    split = split_tasks(tasks, config.seed, gate, test)
    with load_reward(config, split, reward, labels=True) as scorer:
        described = DESCRIPTION if config.reward == MAJORITY else scorer.description
    for server in models.on_servers:
        server.key()
    for local in models.in_process:
        local.check()
    told = [*notes, *gate_notes, *test_notes, *_warnings(config, models, split, len(tasks))]
    need = estimate(config, split, models)
    return Prepared(config, split, models, cap, need, told, described)


def _file(given: str) -> tuple[list[Task], list[str]]:
    return read_tasks([given_path(given)]) if given else ([], [])


def _warnings(config: ExperienceConfig, models: Named, split: Split, count: int) -> list[str]:
    found: list[str] = []
    if not config.teacher and models.model.is_local:
        found.append(
            f"no teacher is named: {config.model} teaches itself, which small models rarely can"
        )
    if not split.gate:
        found.append(
            f"{counted(count, 'task')}: too few for a gate: expected at least {LEAST_TASKS}, or a "
            "file for it: what is learned stays unproven"
        )
    if config.group_size == 1:
        found.append("group_size is 1: without other answers to compare with, nothing is learned")
    return found


def make_run(prepared: Prepared) -> Run:
    """Makes the folder of a run, in state queued.

    Raises:
        StorageError: it cannot be written.
        InputError: a task has a value that JSON cannot represent, or your key cannot be used.
    """
    own_key()  # it signs the library: better refused before the first call than after the last
    settings = prepared.config.model_dump(mode="json")
    shown = {key: value for key, value in settings.items() if value not in (None, "")}
    env = {
        "kind": KIND,
        KIND: settings,
        "python": platform.python_version(),
        "estimate": prepared.estimate.as_json(),
    }
    text = yaml.safe_dump({"stage": KIND, **shown}, sort_keys=False, allow_unicode=True)
    run = create_run(text, env)
    try:
        write_split(run.folder, prepared.split)
    except InputError:
        from zoo.gym.jobs.remove import remove

        run.identity_file.unlink(missing_ok=True)
        with suppress(InputError):
            remove(run)
        raise
    return run
