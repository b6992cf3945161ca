"""Measures lessons on the user's tasks: a library against another, lesson by lesson, or left out.

Answers are drawn under a cap, with a journal until the command is done. A command that was killed
or reached its cap is repeated: the same model, settings, lessons and tasks use the same journal and
its answers. At the end it is removed.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from statistics import fmean

from zoo.gym.errors import InputError, InterruptedRunError
from zoo.gym.experience import store
from zoo.gym.experience.calls.budget import Budget, CapReachedError
from zoo.gym.experience.calls.caller import Caller
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.learning.answers import Answers, Pairs
from zoo.gym.experience.learning.learn import Tested, compared, tokens_added
from zoo.gym.experience.learning.retire import near_tasks
from zoo.gym.experience.learning.signflip import LEVEL, sign_flip_p, tasks_needed
from zoo.gym.experience.learning.split import Split, source_of
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.models import cap_of, named_models, open_models
from zoo.gym.experience.rewards import load_reward, reward_files
from zoo.gym.experience.session import CAPS
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.experience.tasks import task_line
from zoo.gym.files import remove_file, storage_errors
from zoo.gym.files.lock import locked
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rewards.reward import Task

_REPEAT = "repeat the command: all answers are kept"


@dataclass(frozen=True)
class Measured:
    """The result of a comparison.

    Attributes:
        verdict: `accepted`, `rejected`, or `not enough` for a gain that is not clear. Nothing is
            accepted if more answers lack a reward with the second library than with the first.
        p: the probability of such a gain without an effect.
        needed: how many tasks would show a gain of this size; None without a gain.
        spent_usd: what the calls cost.
        tested: the effect, its interval, and both mean rewards.
    """

    verdict: str
    p: float
    needed: int | None
    spent_usd: float
    tested: Tested


@dataclass(frozen=True)
class Effect:
    """The result of leaving a lesson out.

    Attributes:
        item: the lesson.
        effect: the mean reward with it, less that without it.
        tasks: how many were compared.
        kept: whether it stays.
        reason: why nothing could be compared: it stays then.
    """

    item: Item
    effect: float
    tasks: int
    kept: bool
    reason: str = ""


@dataclass(frozen=True)
class Pruned:
    """A library with fewer lessons.

    Attributes:
        library: the lessons that stay.
        lessons: the result for each lesson.
        spent_usd: what the calls cost.
    """

    library: Library
    lessons: list[Effect]
    spent_usd: float


def measure(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    before: Library,
    after: Library,
    tell: Callable[[str], None],
) -> Measured:
    """Returns how much better answers are with one library than with another.

    One look at all tasks, so the level is 5 %.

    Raises:
        InputError: both libraries have the same lessons, or no task has rewards for both.
        GymError: see `answering`.
    """
    if before.text == after.text:
        raise InputError(
            "library: expected other lessons than it is compared with, got the same",
            code="experience.same_lessons",
        )
    with answering(config, tasks, {"gate": [before.text, after.text]}, tell) as answers:
        measured = _measured(answers, config, tasks, before, after, look=1)
        if measured is None:
            raise InputError(
                f"tasks: expected rewards for both libraries, got none: {answers.reason}",
                code="experience.unrewarded_tasks",
            )
        return measured


def store_evidence(
    stored: store.Stored, config: ExperienceConfig, measured: Measured
) -> store.Stored | None:
    """Stores what a gate showed of a version as a new one, the child of the measured one.

    The new version is used if the measured one was. Nothing is stored if it was no version but a
    file, or is proven for the model already and the gate shows less.

    Raises:
        StorageError: it cannot be written.
    """
    library = stored.library
    is_less = measured.tested.verdict != "proven" and library.evidence.get("verdict") == "proven"
    if not stored.version or (is_less and library.measured_with == config.model):
        return None
    evidence = measured.tested.as_evidence() | {"by": "gate", "model": config.model} | config.marks
    used = store.current(stored.name)
    saved = store.save(stored.name, replace(library, parent=stored.digest, evidence=evidence))
    if used != stored.version:
        store.use(stored.name, used)
    return saved


def measure_each(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    items: Sequence[Item],
    beside: Library,
    tell: Callable[[str], None],
) -> list[tuple[Item, Measured | None]]:
    """Returns what each lesson adds to a library; None if no pair of answers has rewards.

    The library's own answers are drawn once.

    Raises:
        InputError: there is no lesson, or the library with one would be too large.
        GymError: see `answering`.
    """
    if not items:
        raise InputError("library: expected lessons, got none", code="experience.no_lessons")
    arms: list[tuple[Library, Library]] = []
    for item in items:
        without = beside.changed([item.id], ())
        arms.append((without, without.changed((), [item])))
    what = {"each": [beside.text, *(item.text for item in items)]}
    with answering(config, tasks, what, tell) as answers:
        return [
            (item, _measured(answers, config, tasks, *arm, look))
            for look, (item, arm) in enumerate(zip(items, arms, strict=True), 1)
        ]


def _measured(
    answers: Answers,
    config: ExperienceConfig,
    tasks: Sequence[Task],
    before: Library,
    after: Library,
    look: int,
) -> Measured | None:
    """Compares two libraries; equal first ones are asked for once in all looks."""
    numbered, draws, sampling = dict(enumerate(tasks)), config.gate_draws, config.sampling_eval
    base = answers.draw(("gate", 0, 0), numbered, draws, before, sampling)
    learned = answers.draw(("gate", 0, look), numbered, draws, after, sampling)
    pairs = Pairs(tasks, base, learned)
    if not pairs.rewards:
        return None
    effect, p = fmean(pairs.differences), sign_flip_p(pairs.differences)
    is_clear = p <= LEVEL and pairs.unscored[1] <= pairs.unscored[0]
    verdict = "accepted" if is_clear else "not enough" if effect > 0 else "rejected"
    needed = tasks_needed(pairs.differences, LEVEL) if verdict == "not enough" else None
    tested = compared(pairs.means, tokens_added(base, learned, after), pairs.unscored)
    spent_usd = round(answers.caller.journal.spent.usd, 6)
    return Measured(verdict, p, needed, spent_usd, tested)


def prune(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    library: Library,
    near: int,
    tell: Callable[[str], None],
    origins: Sequence[Task] = (),
) -> Pruned:
    """Leaves each lesson out in turn and drops those without which answers are as good.

    Each is left out on the tasks nearest to those that it was learned from, as far as they are
    among the given ones, else to the lesson itself. A lesson that fits no task here may help
    elsewhere, so prune on tasks like those that the library is for. Pinned lessons stay,
    unmeasured. The tasks are among those that the library has `seen`.

    Each is compared on `near` tasks, with `gate_draws` answers to each. `origins` are tasks that
    taught the lessons: they are not answered.

    Raises:
        InputError: there is no lesson, or there are more tasks than a library remembers.
        GymError: see `answering`.
    """
    if not library.items:
        raise InputError("library: expected lessons, got none", code="experience.no_lessons")
    results: list[Effect] = []
    rest = replace(library, seen=(*library.seen, *map(source_of, tasks)))  # these decide
    with answering(config, tasks, {"prune": library.text, "near": near}, tell) as answers:
        for number, item in enumerate(library.items):
            if item.pinned:
                continue
            numbers = near_tasks(item, tasks, [*origins, *tasks], near)
            nearest = {n: tasks[n] for n in numbers}
            arms = [  # lessons that were dropped are left out in both
                answers.draw(
                    ("prune", number, look),
                    nearest,
                    config.gate_draws,
                    lessons,
                    config.sampling_eval,
                )
                for look, lessons in enumerate((rest.changed([item.id], ()), rest))
            ]
            gains = Pairs(nearest.values(), *arms).differences
            effect = round(sum(gains) / len(gains), 6) if gains else 0.0
            is_kept = effect > 0 or not gains
            reason = "" if gains else answers.reason
            results.append(Effect(item, effect, len(gains), is_kept, reason))
            if not is_kept:
                rest = rest.changed([item.id], ())
        spent_usd = round(answers.caller.journal.spent.usd, 6)
    gained = {r.item.id: {"gain": r.effect, "tasks": r.tasks} for r in results if r.tasks}
    items = [replace(i, evidence={**i.evidence, **gained.get(i.id, {})}) for i in rest.items]
    return Pruned(rest.changed([item.id for item in items], items), results, spent_usd)


@contextmanager
def answering(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    what: Mapping[str, object],
    tell: Callable[[str], None],
) -> Generator[Answers]:
    """Yields what draws and scores answers, for the duration of a command.

    `what` is the command and its lessons: with the settings and tasks it names the journal.

    Raises:
        InputError: the same command is running, or the reward cannot be loaded.
        InterruptedRunError: the cap is reached, or a server is; answers are kept.
        GymError: see `Caller.ask`.
    """
    models = named_models(config)
    with load_reward(config, Split(tuple(tasks))) as reward:
        # caps change no answer; other files of the reward give other rewards
        settings = {k: v for k, v in config.model_dump(mode="json").items() if k not in CAPS}
        lines = [task_line("", task) for task in tasks]
        named = [dict(what), settings, sorted(reward_files(config, reward).values()), lines]
        digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
        path = ensure_folder(folders().data / "measuring") / f"{digest[:32]}.jsonl"
        lock = path.with_suffix(".lock")
        with locked(lock) as is_locked:
            if not is_locked:
                raise InputError(
                    "expected one such command at a time, got a second one",
                    code="experience.already_running",
                )
            journal = Journal(path)
            if journal.spent.calls:
                tell(f"continues after {journal.spent.calls:,} calls of an earlier time")
            try:
                caller = Caller(journal, Budget(cap_of(config, models), journal.spent), tell=tell)
                with open_models(models, caller.notices.put) as (model, _):
                    yield Answers(caller, model, reward, config.system, config.top_k)
            except CapReachedError as error:
                hint = f"repeat the command with a higher {error.option}: answers are kept"
                raise InterruptedRunError(error.message, hint=hint, code=error.code) from None
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_REPEAT) from None
            except InterruptedRunError as error:
                raise InterruptedRunError(error.message, hint=_REPEAT, code=error.code) from None
            finally:
                journal.close()
            with storage_errors(path):
                remove_file(path)
    with suppress(OSError):  # Windows keeps a file that another command has open
        lock.unlink()
