"""The work of a run: learns a library from the run's tasks, with its journal in the run folder.

There are no checkpoints: a resumed run repeats its way with the answers of the journal, makes the
calls that are missing, and continues where it was.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from zoo.backends.openai.retry import NOT_RUNNING
from zoo.backends.sampling import Sampling
from zoo.gym.config.reward_spec import parse_spec
from zoo.gym.errors import InputError, InterruptedRunError, NotAvailableError
from zoo.gym.experience import store
from zoo.gym.experience.calls.budget import Budget
from zoo.gym.experience.calls.caller import Caller
from zoo.gym.experience.calls.journal import Journal, Spent
from zoo.gym.experience.learning.gate import LOOKS
from zoo.gym.experience.learning.learn import Learned, Lesson, batches, learn
from zoo.gym.experience.learning.majority import COMPARES, MAJORITY
from zoo.gym.experience.learning.scoring import check_same_reward, digests_of
from zoo.gym.experience.learning.signflip import LEVEL
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.report import (
    JOURNAL_FILE,
    REPORT_FILE,
    REPORTED,
    file_sha256,
    sign_report,
)
from zoo.gym.experience.models import (
    SERVERS_KEY,
    cap_of,
    check_same_servers,
    named_models,
    open_models,
)
from zoo.gym.experience.settings import LIVE, ExperienceConfig
from zoo.gym.experience.tasks import TASKS_KEY, check_same_tasks, read_split
from zoo.gym.files import write_beside
from zoo.gym.files.yaml_entries import parse_value
from zoo.gym.jobs.control import wait_while_paused
from zoo.gym.jobs.kinds import KindOfRun
from zoo.gym.jobs.queue import turn_on_device
from zoo.gym.jobs.run import Run
from zoo.gym.paths import ensure_folder
from zoo.gym.rewards.loading import load
from zoo.gym.rewards.reward import Reward

LIBRARY_FILE = "library.json"
CAPS = ("max_usd", "max_tokens")
"""The settings that a resume may change."""

KIND = "experience"
"""What `env.json` calls such a run, and the key of its settings there."""


def work(run: Run) -> Mapping[str, object]:
    """Does the work of a run in a worker.

    Raises:
        GymError: see `learn_in`.
    """
    return learn_in(run, read_settings(run))


def read_settings(run: Run) -> ExperienceConfig:
    """Returns the settings of a run.

    Raises:
        InputError: `env.json` is damaged.
    """
    from zoo.gym.train.run_folder.settings import read_env

    settings: Any = read_env(run.env_file).get(KIND)
    if not isinstance(settings, dict):
        raise InputError(f"{run.env_file}: expected the settings of a run of lessons, got none")
    return ExperienceConfig.model_validate(settings)


def learn_in(
    run: Run,
    config: ExperienceConfig,
    reward: object = None,
    *,
    wait: bool = True,
    budget: Budget | None = None,
) -> Mapping[str, object]:
    """Learns in a run folder and returns the fields of its end event.

    Args:
        run: the run; its tasks are in its folder.
        config: the settings.
        reward: a reward function of this process; None for the one that the settings name.
        wait: whether models of this process wait for a device that is in use.
        budget: what is left of a cap on more than this run; None for one on the run alone.

    Raises:
        InterruptedRunError: the run was stopped, a cap is reached, or a server is.
        GymError: a server refuses, or nothing can be scored.
    """
    from zoo.gym.train.run_folder.settings import read_env

    env = read_env(run.env_file)
    check_same_tasks(run.folder, env.get(TASKS_KEY))
    split = read_split(run.folder)
    models = named_models(config)
    check_same_servers(models, env.get(SERVERS_KEY))
    cap = cap_of(config, models)
    with hints_for(run), closing(Journal(run.folder / JOURNAL_FILE)) as journal:
        budget = budget or Budget(cap, journal.spent)
        turn = partial(turn_on_device, run, wait=wait)
        leaving = partial(wait_while_paused, run.control, run.events)
        tell = partial(_warn, run)
        caller = Caller(journal, budget, leaving=leaving, tell=tell)
        _announce(run, config, split, str(cap))
        if journal.other_method:
            tell(f"{journal.other_method}: answers to changed requests are asked for again")
        with (
            load_reward(config, split, reward, labels=True) as scorer,
            open_models(models, caller.notices.put, turn) as (model, teacher),
        ):
            check_same_reward(run.env_file, reward_files(config, scorer))
            report = partial(_report, run, journal)
            found = learn(split, caller, model, teacher, scorer, lesson_of(config), report, tell)
    return _finish(run, config, found)


@contextmanager
def hints_for(run: Run) -> Generator[None]:
    """Names the run in the hints of what interrupts it.

    Raises:
        InterruptedRunError: one was raised.
        NotAvailableError: the same; the hint says how the run continues.
    """
    try:
        yield
    except InterruptedRunError as error:
        hint = (error.hint or "").replace("RUN", run.id) or None
        raise InterruptedRunError(error.message, hint=hint) from error
    except NotAvailableError as error:
        if (hint := error.hint or "").startswith(NOT_RUNNING):
            hint = f"{hint} then resume the run: zoo-gym runs resume {run.id}"
        raise NotAvailableError(error.message, hint=hint or None) from error


def capped(run: Run, changes: Sequence[str]) -> dict[str, object]:
    """Returns what `env.json` of a run has after changes of its caps; nothing without changes.

    Raises:
        InputError: a change is of another setting, or a value is wrong or would have no effect.
    """
    config, caps = read_settings(run), caps_in(changes)
    if not caps:
        return {}
    changed = ExperienceConfig.model_validate(config.model_dump() | caps)
    cap_of(changed, named_models(changed))
    return {KIND: changed.model_dump(mode="json")}


RUN = KindOfRun(work, CAPS, capped, trains=False)
"""What a run of lessons does."""


def caps_in(changes: Sequence[str]) -> dict[str, object]:
    """Returns the caps that `KEY=VALUE` set, by key.

    Raises:
        InputError: one is of another setting, has no value, or is given twice.
    """
    given: dict[str, object] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if key not in CAPS or not equals:
            raise InputError(
                f"{change}: expected max_usd=... or max_tokens=..., got another change"
            )
        if not text or key in given:
            raise InputError(
                f"{change}: expected one value of {key}, got {'two' if text else 'none'}"
            )
        given[key] = parse_value(text)
    return given


def load_reward(
    config: ExperienceConfig, split: Split, given: object = None, *, labels: bool = False
) -> Reward:
    """Returns the reward of a run or a command.

    Args:
        config: names it.
        split: the tasks.
        given: a reward function of this process; None for the one that is named.
        labels: whether labels of a majority will be drawn.

    Raises:
        InputError: it is none, a task lacks what it needs, or it is the majority without labels.
    """
    if given is None and config.reward == LIVE:
        raise InputError(
            "reward: expected a function that this process has, got one of the program that "
            "started the run",
            hint="write it to a file and start a new run with reward=my.py:function",
        )
    if given is None and config.reward == MAJORITY:
        if labels:
            return load(COMPARES, [])
        raise InputError(
            f"reward: expected another one than {MAJORITY}, which is of experience train alone",
            hint="rows with answers, or --reward judge",
        )
    spec = config.reward if given is None else given
    spec = _spec(spec) if isinstance(spec, str) else spec
    return load(spec, [*split.train, *split.gate, *split.test])


def reward_files(config: ExperienceConfig, reward: Reward) -> dict[str, str]:
    """Returns a digest of each file and model of the reward of a run or a command.

    Raises:
        GymError: a model or an adapter is gone.
    """
    is_named = config.reward not in (MAJORITY, LIVE)
    return digests_of(reward, _spec(config.reward) if is_named else LIVE)


def lesson_of(config: ExperienceConfig) -> Lesson:
    """Returns the settings of learning."""
    most = config.max_new_tokens
    return Lesson(
        config.group_size,
        config.max_epochs,
        config.gate_draws,
        config.test_draws,
        Sampling(most, config.temperature_train),
        Sampling(most, config.temperature_eval),
        Sampling(config.teacher_max_new_tokens, config.temperature_eval),
        config.system,
        config.domain,
        config.seed,
        config.top_k,
        labels_of(config),
    )


def labels_of(config: ExperienceConfig) -> str:
    """Returns what stands for known answers, `majority`, `judge` or `model`; else nothing."""
    if config.reward == MAJORITY:
        return MAJORITY
    kinds = reward_kinds(config)
    return next((kind for kind in ("judge", "model") if kind in kinds), "")


def reward_kinds(config: ExperienceConfig) -> set[str]:
    """Returns the kinds of the reward's parts, as `rewards.md` names them."""
    if config.reward in (MAJORITY, LIVE):
        return {config.reward}
    return {part.kind for part in parse_spec(_spec(config.reward))}


def _spec(text: str) -> object:
    """Returns the value of `reward` as it was written: a name, or YAML of several."""
    return parse_value(text) if text[:1] in ("{", "[") else text


def _announce(run: Run, config: ExperienceConfig, split: Split, cap: str) -> None:
    steps = len(batches(len(split.train), config.max_epochs, config.seed))
    tasks = {"train": len(split.train), "gate": len(split.gate), "test": len(split.test)}
    level = LEVEL / (steps * LOOKS)
    run.events.emit("plan", steps=steps, tasks=tasks, gate_level=level, cap=cap)


def _warn(run: Run, message: str) -> None:
    run.events.emit("warn", message=message)


def _report(run: Run, journal: Journal, **figures: object) -> None:
    spent = {"calls": journal.spent.calls, "spent_usd": round(journal.spent.usd, 6)}
    run.events.emit("step", **figures, **spent)


def figures_of(found: Learned, spent: Spent) -> dict[str, object]:
    """Returns what a report says of a finished run, but for the name of its library."""
    return {
        "verdict": found.verdict,
        "effect": None if found.test is None else found.test.effect,
        "low": found.library.evidence.get("low"),
        "high": found.library.evidence.get("high"),
        "reward_without": None if found.test is None else found.test.base,
        "reward_with": None if found.test is None else found.test.learned,
        "tokens_added": found.library.tokens if found.test is None else found.test.tokens,
        "lessons": len(found.library.items),
        "calls": spent.calls,
        "prompt_tokens": spent.prompt_tokens,
        "cached_tokens": spent.cached_tokens,
        "completion_tokens": spent.completion_tokens,
        "spent_usd": round(spent.usd, 6),
    }


def _finish(run: Run, config: ExperienceConfig, found: Learned) -> Mapping[str, object]:
    """Stores the result, also under its name, and returns the fields of the end event."""
    result = ensure_folder(run.result)
    digest = write_library(result / LIBRARY_FILE, found.library)
    stored: store.Stored | None = None
    if found.library.items:
        stored = store.save(config.name, found.library)
    with closing(Journal(run.folder / JOURNAL_FILE)) as journal:  # as a replay adds it up
        metrics = figures_of(found, journal.spent)
    named = {"library": None if stored is None else f"{stored.name}@{stored.version}"}
    files = {name: file_sha256(run.folder / name) for name in REPORTED}
    report = {"digest": digest, **named, **metrics, "files": files}
    write_beside(result / REPORT_FILE, json.dumps(report, indent=1) + "\n", sync=True)
    sign_report(result / REPORT_FILE)
    return {"metrics": {"digest": digest, **named, **metrics}}
