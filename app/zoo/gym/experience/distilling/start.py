"""Prepares a run that distils lessons: its settings, tasks, models, and folder."""

import json
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from zoo.gym.config import TrainConfig, dump_config, load_config
from zoo.gym.config.load import Loaded, ours
from zoo.gym.errors import InputError
from zoo.gym.experience import store
from zoo.gym.experience.calls.budget import Cap
from zoo.gym.experience.learning.split import LEAST_TASKS, Split, split_tasks
from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.models import SERVERS_KEY, Named, addresses_of, cap_of, named_models
from zoo.gym.experience.providers.names import Hosted
from zoo.gym.experience.rewards import REWARD_FILES_KEY, load_reward, reward_files
from zoo.gym.experience.session import CAPS
from zoo.gym.experience.settings import DistillationConfig
from zoo.gym.experience.tasks import (
    TASKS_KEY,
    read_tasks,
    seen_by,
    tasks_digest,
    unread,
    without_seen,
    write_split,
)
from zoo.gym.files import write_beside
from zoo.gym.humanize import counted
from zoo.gym.jobs.outputs import check_unclaimed
from zoo.gym.jobs.run import Run, create_run
from zoo.gym.paths import given_path
from zoo.gym.rewards.reward import Task
from zoo.gym.train.planning.fixed_base import check_fixed_base
from zoo.gym.train.planning.names import check_names
from zoo.gym.train.result.output import check_chosen_output
from zoo.gym.train.run_folder.pinned import idle_date, pinned
from zoo.gym.train.run_folder.settings import store_settings, update_env
from zoo.models import resolve

KIND = "distillation"
"""The key of the settings of such a run in its `env.json`."""

LESSONS_FILE = "lessons.json"
"""In the run folder: the lessons, without those that are held back."""

_OWN = {
    "model_name_or_path": "--model {value}",
    "seed": "--seed {value}",
    "stage": "the stage is lessons, or with --teacher sft",
    "lessons": "the library is the first argument: zoo-gym experience distill LIBRARY TASKS",
    "group_size": "--group-size {value}",
    "temperature": "--temperature-train {value}",
    "max_completion_length": "--max-new-tokens {value}",
    "max_new_tokens": "--max-new-tokens {value}",
    "dataset": "the files of tasks are arguments: zoo-gym experience distill LIBRARY TASKS",
    "columns": "the tasks have keys of their own: prompt and answer",
    "me": "tasks have no speakers",
    "dataset_dir": "the files of tasks are arguments: zoo-gym experience distill LIBRARY TASKS",
}
"""Settings of a training that a distillation sets, and how its user does."""


@dataclass(frozen=True)
class Prepared:
    """A run that can be made.

    Attributes:
        config: the settings.
        library: the lessons.
        split: the tasks.
        training: the settings of the training, still without its rows.
        models: who answers, if a server does.
        cap: what may be spent.
        notes: what the user should know, in sentences.
        reward_files: digests of the files and models that the reward consists of.
    """

    config: DistillationConfig
    library: store.Stored
    split: Split
    training: TrainConfig
    models: Named
    cap: Cap
    notes: list[str]
    reward_files: dict[str, str]


def prepare(
    config: DistillationConfig, library: str, paths: Sequence[Path], changes: Sequence[str] = ()
) -> Prepared:
    """Returns the run that distils a library on tasks.

    `library` is a name, NAME@VERSION, or a file; `changes` are settings of the training,
    `KEY=VALUE`.

    Raises:
        GymError: a file, model, price or setting is missing or wrong.
    """
    stored = store.load_given(library)
    if not stored.library.items:
        raise InputError(
            f"library: {library}: expected one with lessons, got none", code="experience.no_lessons"
        )
    models = named_models(config.calls)
    if config.teacher and not isinstance(models.model, Hosted):
        raise InputError(
            f"teacher: expected a model on a server, got {config.teacher}",
            hint="without a teacher the model itself learns what the lessons make likely",
            code="experience.local_teacher",
        )
    tasks, notes = read_tasks(paths)
    test, test_notes = read_tasks([given_path(config.test)]) if config.test else ([], [])
    split, seen_notes = measured_apart(split_tasks(tasks, config.seed, (), test), stored.library)
    with load_reward(config.calls, split) as reward:
        digests = reward_files(config.calls, reward)
    for server in models.on_servers:
        server.key()
    cap = check_caps(config)
    loaded = _training(config, stored.library, split.train, changes)
    idle = [key for key in ("test_draws", "temperature_eval") if key in config.model_fields_set]
    if idle and not split.gate and not split.test:
        raise InputError(
            f"{idle[0]}: has no effect: nothing is measured: expected at least {LEAST_TASKS} "
            "different tasks, or a file to test with, got neither",
            hint="leave it out, or --test FILE",
            code="experience.no_effect",
        )
    notes = [
        *(f"without effect: {key.key} ({key.origin}): {key.reason}" for key in loaded.ignored),
        *notes,
        *test_notes,
        *unread([*tasks, *test], config.calls.reward_kinds),
        *seen_notes,
        *stored.notices,
    ]
    if stored.library.evidence.get("verdict") != "proven":
        notes.append("these lessons are unproven: no test has shown that they help")
    if not split.gate and not split.test:
        notes.append(
            f"{counted(len(tasks), 'task')}: expected at least {LEAST_TASKS}, or a file to test "
            "with: what is learned stays unproven"
        )
    return Prepared(config, stored, split, loaded.config, models, cap, notes, digests)


def measured_apart(split: Split, library: Library) -> tuple[Split, list[str]]:
    """Returns the split with the tasks that taught the lessons in training, not in measurement."""
    seen = seen_by(library.items, library.seen)
    gate, test = (tuple(without_seen(part, seen, 0)[0]) for part in (split.gate, split.test))
    total = len(split.gate) + len(split.test)
    count = total - len(gate) - len(test)
    if not count:
        return split, []
    note = f"{count} of {total} tasks measure nothing: the lessons were learned from them"
    taught = (task for task in split.gate if task not in gate)
    return Split((*split.train, *taught), gate, test), [note]


def check_caps(config: DistillationConfig) -> Cap:
    """Returns the cap on the calls of a teacher.

    Raises:
        InputError: there is a cap, but no teacher; or see `cap_of`.
    """
    if not config.teacher:
        for key in CAPS:
            if getattr(config, key) is not None:
                raise InputError(
                    f"{key}: has no effect without --teacher: no model on a server is called",
                    hint="leave it out; --max-new-tokens N is the longest answer",
                    code="experience.no_effect",
                )
    return cap_of(config.calls, named_models(config.calls))


def _training(
    config: DistillationConfig, library: Library, tasks: Sequence[Task], changes: Sequence[str]
) -> Loaded:
    """Returns the pinned settings of the training, with files that stand for those of the run."""
    for change in changes:
        key, _, value = change.partition("=")
        hint = _OWN.get(ours(key.strip())) or _OWN.get(key.strip())
        if hint is not None:
            raise InputError(
                f"{change}: expected a setting of the training alone, got one that a distillation "
                "has itself",
                hint=hint.format(value=value),
                code="experience.foreign_setting",
            )
    base = resolve(config.model, offline=True)
    settings: dict[str, object] = {"model_name_or_path": config.model, "seed": config.seed}
    with tempfile.TemporaryDirectory() as folder:
        lessons, rows = Path(folder) / LESSONS_FILE, Path(folder) / "rows.jsonl"
        if config.teacher:
            settings |= {"stage": "sft"}
        else:
            write_library(lessons, library)
            settings |= {"stage": "lessons", "lessons": str(lessons)}
            settings |= {"group_size": config.group_size, "temperature": config.temperature_train}
            settings |= {"max_completion_length": config.max_new_tokens}
        rows.write_text(rows_of(tasks), encoding="utf-8")
        loaded = load_config([], changes, settings | {"dataset": [str(rows)]})
        fixed = pinned(loaded.config, base)
        check_names(fixed, base.folder)
        check_fixed_base(fixed, base.folder)
        if fixed.output_dir is not None:
            check_unclaimed(Path(fixed.output_dir))
            check_chosen_output(fixed)
        dates = idle_date(loaded.config, loaded.origins.get("date", "default"), base.folder)
        return replace(loaded, config=fixed, ignored=(*loaded.ignored, *dates))


def rows_of(tasks: Sequence[Task]) -> str:
    """Returns tasks as rows of prompts."""
    prompts = ([{"role": t.role, "content": t.content} for t in task.messages] for task in tasks)
    return "".join(json.dumps({"prompt": turns}) + "\n" for turns in prompts)


def make_run(prepared: Prepared) -> Run:
    """Makes the folder of a run, in state queued.

    Raises:
        StorageError: it cannot be written.
        InputError: a task has a value that JSON cannot represent.
    """
    config, stored = prepared.config, prepared.library
    name = f"{stored.name}@{stored.version}" if stored.version else str(stored.path)
    env = {
        KIND: config.model_dump(mode="json"),
        "library": {"name": name, "digest": stored.digest},
        "python": platform.python_version(),
        "settings": prepared.training.model_dump(mode="json"),
        REWARD_FILES_KEY: prepared.reward_files,
    }
    run = create_run(dump_config(prepared.training), env)
    write_split(run.folder, prepared.split)
    noted = {TASKS_KEY: tasks_digest(run.folder), SERVERS_KEY: addresses_of(prepared.models)}
    update_env(run.env_file, noted)
    write_library(run.folder / LESSONS_FILE, stored.library)
    files: dict[str, object] = {"dataset": (str(run.rows_file),)}
    if not config.teacher:
        write_beside(run.rows_file, rows_of(prepared.split.train), sync=True)
        files["lessons"] = str(run.folder / LESSONS_FILE)
    training = prepared.training.model_copy(update=files)
    store_settings(run.config_file, run.env_file, training)
    return run
