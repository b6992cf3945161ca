"""The work of a run: learns a library from the run's tasks, with its journal in the run folder.

There are no checkpoints: a resumed run repeats its steps with the answers of the journal, makes the
missing calls, and continues. A replay repeats a finished run from its journal alone: the same
library to the byte, or what differs.
"""

import hashlib
import json
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from zoo.backends.openai.reply import Reply
from zoo.backends.openai.retry import NOT_RUNNING
from zoo.gym.errors import InputError, InterruptedRunError, NotAvailableError
from zoo.gym.experience import store
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Caller, Model, ReplayEndedError
from zoo.gym.experience.calls.journal import Journal, Spent
from zoo.gym.experience.learning.gate import LOOKS
from zoo.gym.experience.learning.learn import Learned, batches, learn
from zoo.gym.experience.learning.signflip import LEVEL
from zoo.gym.experience.library.file import read_library, signature_file, write_library
from zoo.gym.experience.models import (
    SERVERS_KEY,
    cap_of,
    check_same_servers,
    named_models,
    open_models,
)
from zoo.gym.experience.rewards import check_same_reward, load_reward, reward_files
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.experience.tasks import TASKS_FILE, TASKS_KEY, check_same_tasks, read_split
from zoo.gym.files import storage_errors, write_beside
from zoo.gym.files.yaml_entries import parse_value
from zoo.gym.jobs.control import wait_while_paused
from zoo.gym.jobs.kinds import KindOfRun
from zoo.gym.jobs.queue import turn_on_device
from zoo.gym.jobs.run import Run
from zoo.gym.paths import ensure_folder
from zoo.gym.signing import own_key, read_signed, sign, write_signed

LIBRARY_FILE, JOURNAL_FILE, REPORT_FILE = "library.json", "journal.jsonl", "report.json"
REPORTED = (JOURNAL_FILE, TASKS_FILE)
"""The files of a run folder with digests in the report."""

CAPS = ("max_usd", "max_tokens")
"""The settings that a resume may change."""

KIND = "experience"
"""What `env.json` calls such a run, and the key of its settings there."""

_REPORT_CONTEXT = "experience report"


def read_settings(run: Run) -> ExperienceConfig:
    """Returns the settings of a run.

    Raises:
        InputError: `env.json` is damaged.
    """
    from zoo.gym.train.run_folder.settings import read_env

    settings: Any = read_env(run.env_file).get(KIND)
    if not isinstance(settings, dict):
        raise InputError(
            f"{run.env_file}: expected the settings of a run of lessons, got none",
            code="experience.no_run_of_lessons",
        )
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

    `reward` is a function of this process; None for the reward of the settings. `wait` says whether
    models of this process wait for a device in use. `budget` is the rest of a cap on more than this
    run.

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
        caller = caller_of(run, journal, budget or Budget(cap, journal.spent))
        steps = len(batches(len(split.train), config.max_epochs, config.seed))
        tasks = {"train": len(split.train), "gate": len(split.gate), "test": len(split.test)}
        level = LEVEL / (steps * LOOKS)
        run.events.emit("plan", steps=steps, tasks=tasks, gate_level=level, cap=str(cap))
        if journal.other_method:
            caller.tell(f"{journal.other_method}: answers to changed requests are asked for again")
        with (
            load_reward(config, split, reward, labels=True) as scorer,
            open_models(models, caller.notices.put, partial(turn_on_device, run, wait=wait)) as (
                model,
                teacher,
            ),
        ):
            check_same_reward(run.env_file, reward_files(config, scorer))
            report = partial(_report, run, journal)
            learned = learn(split, caller, model, teacher, scorer, config, report)
    return _finish(run, config, learned)


def caller_of(run: Run, journal: Journal, budget: Budget) -> Caller:
    """Returns what makes the calls of a run: it stops and pauses with the run and warns in it."""
    return Caller(
        journal,
        budget,
        leaving=partial(wait_while_paused, run.control, run.events),
        tell=partial(_warn, run),
    )


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
        raise InterruptedRunError(error.message, hint=hint, code=error.code) from error
    except NotAvailableError as error:
        if (hint := error.hint or "").startswith(NOT_RUNNING):
            hint = f"{hint} then resume the run: zoo-gym runs resume {run.id}"
        raise NotAvailableError(error.message, hint=hint or None, code=error.code) from error


def capped(run: Run, changes: Sequence[str]) -> dict[str, object]:
    """Returns what `env.json` of a run has after changes of its caps; nothing without changes.

    Raises:
        InputError: a change is of another setting, or a value is wrong or would have no effect.
    """
    config = read_settings(run)
    if not (caps := caps_in(changes)):
        return {}
    changed = ExperienceConfig.model_validate(config.model_dump() | caps)
    cap_of(changed, named_models(changed))
    return {KIND: changed.model_dump(mode="json")}


RUN = KindOfRun(lambda run: learn_in(run, read_settings(run)), CAPS, capped, trains=False)
"""What a run of lessons does."""


def caps_in(changes: Sequence[str]) -> dict[str, object]:
    """Returns the caps that `KEY=VALUE` set, by key.

    Raises:
        InputError: one is of another setting, has no value, or is given twice.
    """
    caps: dict[str, object] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if key not in CAPS or not equals:
            raise InputError(
                f"{change}: expected max_usd=... or max_tokens=..., got another change",
                code="experience.change",
            )
        if not text or key in caps:
            raise InputError(
                f"{change}: expected one value of {key}, got {'two' if text else 'none'}",
                code="experience.change",
            )
        caps[key] = parse_value(text)
    return caps


def _warn(run: Run, message: str) -> None:
    run.events.emit("warn", message=message)


def _report(run: Run, journal: Journal, **figures: object) -> None:
    spent = {"calls": journal.spent.calls, "spent_usd": round(journal.spent.usd, 6)}
    run.events.emit("step", **figures, **spent)


def _figures(learned: Learned, spent: Spent) -> dict[str, object]:
    """Returns the figures in the report of a finished run, without the name of its library."""
    library, test = learned.library, learned.test
    return {
        "verdict": learned.verdict,
        "effect": None if test is None else test.effect,
        "low": library.evidence.get("low"),
        "high": library.evidence.get("high"),
        "reward_without": None if test is None else test.base,
        "reward_with": None if test is None else test.learned,
        "tokens_added": library.tokens if test is None else test.tokens,
        "lessons": len(library.items),
        "calls": spent.calls,
        "prompt_tokens": spent.prompt_tokens,
        "cached_tokens": spent.cached_tokens,
        "completion_tokens": spent.completion_tokens,
        "spent_usd": round(spent.usd, 6),
    }


def _finish(run: Run, config: ExperienceConfig, learned: Learned) -> Mapping[str, object]:
    """Stores the result, also under its name, and returns the fields of the end event.

    The report has digests of the journal and the tasks, and a signature beside it: a replay notices
    each changed byte, also of what decides nothing, such as bills.
    """
    path = ensure_folder(run.result) / REPORT_FILE
    digest = write_library(run.result / LIBRARY_FILE, learned.library)
    name: str | None = None
    if learned.library.items:
        stored = store.save(config.name, learned.library)
        name = f"{stored.name}@{stored.version}"
    with closing(Journal(run.folder / JOURNAL_FILE)) as journal:  # as a replay adds it up
        metrics = {"digest": digest, "library": name, **_figures(learned, journal.spent)}
    files = {name: _sha256(run.folder / name) for name in REPORTED}
    write_beside(path, json.dumps({**metrics, "files": files}, indent=1) + "\n", sync=True)
    signed = sign(own_key(), _REPORT_CONTEXT, {"sha256": _sha256(path)})
    write_signed(signature_file(path), signed)
    return {"metrics": metrics}


def _first_change(folder: Path, figures: Mapping[str, object], *, is_reported: bool) -> str | None:
    """Returns which file of a finished run differs from its replay, None if none does.

    `is_reported` says whether the version that wrote the journal put digests of files in a report.
    """
    path = folder / "result" / REPORT_FILE
    try:
        report: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise NotAvailableError(
            f"{path}: expected the report of the run, got nothing", code="experience.no_report"
        ) from None
    except (ValueError, RecursionError):
        report = None
    if not isinstance(report, dict):
        return f"{REPORT_FILE}: damaged"
    noted = cast("dict[str, Any]", report)
    for key, figure in figures.items():
        if noted.get(key) != figure:
            return f"{REPORT_FILE}: {key}: {figure} instead of {noted.get(key)}"
    files: Any = noted.get("files")
    if files is None and not is_reported and not signature_file(path).is_file():
        return None
    for name in REPORTED:
        if not isinstance(files, dict) or files.get(name) != _sha256(folder / name):
            return f"{name}: changed since the run has ended"
    with suppress(InputError, NotAvailableError):
        if read_signed(signature_file(path), _REPORT_CONTEXT).body == {"sha256": _sha256(path)}:
            return None
    return f"{REPORT_FILE}: changed since it was signed"


def _sha256(path: Path) -> str:
    with storage_errors(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Replayed:
    """The result of a replay.

    Attributes:
        digest: the digest of the repeated library; empty if the replay did not reach its end.
        same: whether the library, the figures of the report and the files are those of the run.
        first_difference: where it differs; None if it does not.
        other_method: why it must be expected to differ, in words: another version of the program
            wrote the journal; empty if this one did.
    """

    digest: str
    same: bool
    first_difference: str | None
    other_method: str = ""


def replay(run: Run) -> Replayed:
    """Repeats a run without its servers, its rewards or a key.

    Raises:
        InputError: the run is not one of lessons, or its files are damaged.
        NotAvailableError: it has no tasks, or no result yet.
    """
    config, split = read_settings(run), read_split(run.folder)
    _, digest = read_library(run.result / LIBRARY_FILE)
    path = run.folder / JOURNAL_FILE
    if not path.is_file():
        raise InputError(
            f"{path}: expected the journal of the run, got nothing", code="experience.no_journal"
        )
    with closing(Journal(path, is_kept=True)) as journal, tempfile.TemporaryDirectory() as folder:
        caller = Caller(journal, Budget(Cap()), replay=True)
        model = Model(config.model, _NoAnswers())
        teacher = Model(config.teacher_name, _NoAnswers())
        try:
            learned = learn(split, caller, model, teacher, None, config)
            repeated = write_library(Path(folder) / LIBRARY_FILE, learned.library)
        except ReplayEndedError as error:
            return Replayed("", False, error.message, journal.other_method)  # noqa: FBT003
    if repeated != digest:
        difference = f"library: {repeated[:16]} instead of {digest[:16]}"
        return Replayed(repeated, False, difference, journal.other_method)  # noqa: FBT003
    figures = {"digest": digest, **_figures(learned, journal.spent)}
    change = _first_change(run.folder, figures, is_reported=journal.method > 0)
    return Replayed(repeated, change is None, change)


class _NoAnswers:
    def attempt(self, *args: object, **options: object) -> Reply:
        raise AssertionError("a replay makes no calls")
