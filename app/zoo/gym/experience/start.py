"""Prepares a run: reads and splits tasks, checks models, cap and reward, and makes the folder."""

import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from zoo.gym.errors import GymError, InputError
from zoo.gym.experience import store
from zoo.gym.experience.calls.budget import Cap
from zoo.gym.experience.estimate import Estimate, estimate
from zoo.gym.experience.learning.majority import DESCRIPTION
from zoo.gym.experience.learning.split import LEAST_TASKS, Split, same_text, split_tasks
from zoo.gym.experience.library.library import MOST_SEEN
from zoo.gym.experience.models import SERVERS_KEY, Named, addresses_of, cap_of, named_models
from zoo.gym.experience.rewards import REWARD_FILES_KEY, load_reward, reward_files
from zoo.gym.experience.session import KIND
from zoo.gym.experience.settings import MAJORITY, ExperienceConfig
from zoo.gym.experience.tasks import TASKS_KEY, read_tasks, tasks_digest, unread, write_split
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
        reward_files: digests of the files and models that it consists of.
    """

    config: ExperienceConfig
    split: Split
    models: Named
    cap: Cap
    estimate: Estimate
    notes: list[str]
    reward: str
    reward_files: dict[str, str]


def prepare_files(
    config: ExperienceConfig, paths: Sequence[Path], *, will_run: bool = True
) -> Prepared:
    """Returns the run that learns from files of tasks.

    Raises:
        GymError: a file, model, price or reward is missing or wrong.
    """
    tasks, notes = read_tasks(paths)
    name = config.name or store.plain_name(paths[0].stem)
    return prepare(config.model_copy(update={"name": name}), tasks, notes, will_run=will_run)


def prepare(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    notes: Sequence[str] = (),
    reward: object = None,
    *,
    will_run: bool = True,
) -> Prepared:
    """Returns the run that learns from tasks.

    If no calls follow (`will_run`), a missing key, price, cap or model is only a note.

    Raises:
        GymError: a file, model, price or reward is missing or wrong.
    """
    store.check_name(config.name)
    models = named_models(config)
    cap, missing = _checked(config, models, will_run=will_run)
    gate, gate_notes = read_tasks([given_path(config.gate)]) if config.gate else ([], [])
    test, test_notes = read_tasks([given_path(config.test)]) if config.test else ([], [])
    split = split_tasks(tasks, config.seed, gate, test)
    _refuse_unusable(config, split)
    with load_reward(config, split, reward, labels=True) as scorer:
        description = DESCRIPTION if config.reward == MAJORITY else scorer.description
        digests = reward_files(config, scorer)
    notes = [*missing, *notes, *gate_notes, *test_notes]
    if reward is None:
        notes += unread([*tasks, *gate, *test], config.reward_kinds)
    if not config.teacher and models.model.is_local:
        notes.append(
            f"no teacher is named: {config.model} teaches itself, which small models rarely can"
        )
    if not split.gate:
        texts = len({same_text(task) for task in tasks})
        different = "" if texts == len(tasks) else f" of {counted(texts, 'text')}"
        notes.append(
            f"{counted(len(tasks), 'task')}{different}: too few for a gate: expected at least "
            f"{LEAST_TASKS}, or a file for it: what is learned stays unproven"
        )
    if config.group_size == 1:
        notes.append("group_size is 1: without other answers to compare with, nothing is learned")
    need = estimate(config, split, models)
    return Prepared(config, split, models, cap, need, notes, description, digests)


def _checked(config: ExperienceConfig, models: Named, *, will_run: bool) -> tuple[Cap, list[str]]:
    """Returns the cap, and what a run still needs, in sentences."""
    caps: list[Cap] = []
    missing: list[str] = []
    checks: list[Callable[[], object]] = [lambda: caps.append(cap_of(config, models))]
    checks += [server.key for server in models.on_servers]
    checks += [local.check for local in models.in_process]
    for check in checks:
        try:
            check()
        except GymError as error:
            if will_run:
                raise
            missing.append(f"a run needs more: {error.message}")
    paid = [server for server in models.on_servers if not server.is_local and server.price is None]
    if paid and not will_run:
        missing.append(f"no price of {paid[0].id} is known: what it costs is not estimated")
    return (caps or [Cap()])[0], missing


def _refuse_unusable(config: ExperienceConfig, split: Split) -> None:
    """Refuses numbers of answers that are not drawn, and more tasks than a library can remember."""
    for key, tasks in (("gate_draws", split.gate), ("test_draws", split.test)):
        if not tasks and key in config.model_fields_set:
            part = key.partition("_")[0]
            raise InputError(
                f"{key}: has no effect: expected at least {LEAST_TASKS} different tasks, or a file "
                f"for the {part}, got neither",
                hint=f"leave it out, or --{part} FILE",
                code="experience.no_effect",
            )
    count = len({same_text(task) for task in (*split.train, *split.gate)})
    if count > MOST_SEEN:
        raise InputError(
            f"tasks: expected at most {MOST_SEEN:,} that teach or decide, got {count:,}",
            hint="a library keeps the hash of each; train on a part of them",
            code="experience.too_many_tasks",
        )


def make_run(prepared: Prepared) -> Run:
    """Makes the folder of a run, in state queued.

    Raises:
        StorageError: it cannot be written.
        InputError: a task has a value that JSON cannot represent, or your key cannot be used.
    """
    from zoo.gym.train.run_folder.settings import update_env

    own_key()  # it signs the library: better refused before the first call than after the last
    settings = prepared.config.model_dump(mode="json")
    chosen = {key: value for key, value in settings.items() if value not in (None, "")}
    env = {
        "kind": KIND,
        KIND: settings,
        "python": platform.python_version(),
        "estimate": asdict(prepared.estimate),
        REWARD_FILES_KEY: prepared.reward_files,
    }
    text = yaml.safe_dump({"stage": KIND, **chosen}, sort_keys=False, allow_unicode=True)
    run = create_run(text, env)
    try:
        write_split(run.folder, prepared.split)
        noted = {TASKS_KEY: tasks_digest(run.folder), SERVERS_KEY: addresses_of(prepared.models)}
        update_env(run.env_file, noted)
    except InputError:
        from zoo.gym.jobs.remove import remove

        run.identity_file.unlink(missing_ok=True)
        with suppress(InputError):
            remove(run)
        raise
    return run
