"""`zoo-gym experience gate, prune`: lessons measured on tasks of the user's."""

import math
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.lessons import Model
from zoo.gym.cli.libraries import say_held_back, verdict
from zoo.gym.cli.options import Json, Switch, Yes, confirmed, output_path
from zoo.gym.cli.output import Output
from zoo.gym.config.items import existing
from zoo.gym.errors import EXIT_CODES, GymError, InputError
from zoo.gym.experience import store
from zoo.gym.humanize import counted

LEAST_MEASURED = 6
"""With fewer tasks there is no interval."""

if TYPE_CHECKING:
    from zoo.gym.experience.library.item import Item
    from zoo.gym.experience.library.library import Library
    from zoo.gym.experience.measure import Measured
    from zoo.gym.experience.settings import ExperienceConfig
    from zoo.gym.experience.sharing.measurement import Measurement
    from zoo.gym.rewards.reward import Task


def gate(
    library: str,
    /,
    *tasks: str,
    model: Model,
    against: str | None = None,
    each: Switch = False,
    out: Annotated[str | None, Parameter(name="--out")] = None,
    reward: str = "auto",
    draws: int = 2,
    top_k: int | None = None,
    temperature: float = 0.3,
    max_new_tokens: int = 1024,
    max_usd: float | None = None,
    max_tokens: int | None = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Measures a library on tasks: with it against without it, or against another one.

    Args:
        library: its name, NAME@VERSION, or a file
        tasks: files of tasks that the lessons were not learned from
        model: the model that answers, as of experience train
        against: compare with this library instead of none
        each: measure each lesson by itself, beside those of --against, and sign what is found
        out: the new file of signed measurements, with --each; by default NAME.measured.jsonl
        reward: what scores answers
        draws: answers to each task, with either
        top_k: lessons in a prompt at most: those that share most words with the task
        temperature: the temperature of answers
        max_new_tokens: tokens of an answer at most
        max_usd: the cap on all calls, in USD
        max_tokens: the cap on all calls, in tokens
        yes: send tasks to hosts that are new without asking
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.experience.library.library import Library
    from zoo.gym.experience.tasks import seen_by

    screen = Output(as_json)
    config = config_of(
        {"model": model, "reward": reward, "gate_draws": draws, "temperature_eval": temperature},
        {"max_new_tokens": max_new_tokens, "max_usd": max_usd, "max_tokens": max_tokens},
        {"top_k": top_k},
    )
    if out is not None and not each:
        raise InputError("--out: has no effect without --each", code="cli.no_effect")
    if top_k is not None and each and against is None:
        raise InputError(
            "--top-k: has no effect with --each: a prompt has one lesson, or none",
            code="cli.no_effect",
        )
    candidate = store.load_given(library)
    say_held_back(screen, candidate)
    other = None if against is None else store.load_given(against)
    say_held_back(screen, other)
    base = Library() if other is None else other.library
    seen = seen_by(candidate.library.items, candidate.library.seen)
    if each:
        file = _new_file(out, f"{candidate.name}.measured.jsonl")
        arms = (1 + len(candidate.library.items), base)
        read, _ = tasks_of(screen, config, tasks, arms, seen=seen, yes=yes)
        return _each(screen, config, read, candidate.library, base, file)
    longest = max(base, candidate.library, key=lambda lessons: lessons.tokens)
    read, _ = tasks_of(screen, config, tasks, (2, longest), seen=seen, yes=yes)
    return _whole(screen, config, read, base, candidate)


def _whole(
    screen: Output,
    config: "ExperienceConfig",
    read: "Sequence[Task]",
    base: "Library",
    candidate: store.Stored,
) -> int:
    """Measures all lessons together; what is accepted against none becomes evidence."""
    from zoo.gym.experience.measure import measure, store_evidence

    measured = measure(config, read, base, candidate.library, screen.say)
    tested = measured.tested
    answer = _figures(measured) | {
        "verdict": measured.verdict,
        "unscored": [tested.unscored_base, tested.unscored_learned],
        "spent_usd": measured.spent_usd,
        "library": None,
    }
    if tested.unscored_base or tested.unscored_learned:
        screen.say(
            f"answers without a reward: {tested.unscored_base} before, "
            f"{tested.unscored_learned} with it"
        )
    sentence = f"{candidate.name}: {measured.verdict}: {_points(measured)}"
    if measured.verdict != "accepted":
        screen.answer(sentence)
        if measured.needed:
            screen.say(f"about {measured.needed:,} tasks would show a gain of this size")
        screen.result(answer)
        return EXIT_CODES[GymError]
    screen.answer(sentence)
    saved = None if base.items else store_evidence(candidate, config, measured)
    if saved is not None:
        screen.say(f"{saved.name}@{saved.version} has it as evidence: {verdict(saved)}")
        answer["library"] = f"{saved.name}@{saved.version}"
    screen.result(answer)
    return 0


def _each(
    screen: Output,
    config: "ExperienceConfig",
    read: "Sequence[Task]",
    library: "Library",
    beside: "Library",
    file: Path,
) -> int:
    """Measures each lesson and writes what has an interval, signed."""
    from zoo.gym.experience.sharing.measurement import write_measurements
    from zoo.gym.signing import own_key

    key = own_key()
    records, entries, spent = measured_each(screen, config, read, library.items, beside)
    write_measurements(file, records, key)
    screen.answer(f"{file}: {counted(len(records), 'measurement')}, signed")
    screen.result({"file": str(file), "lessons": entries, "spent_usd": spent})
    return 0


def measured_each(
    screen: Output,
    config: "ExperienceConfig",
    read: "Sequence[Task]",
    items: "Sequence[Item]",
    beside: "Library",
) -> "tuple[list[Measurement], list[dict[str, object]], float]":
    """Measures each lesson and shows what it adds.

    Returns:
        What has an interval, all figures for programs, and what the calls cost in USD.

    Raises:
        InputError: nothing has an interval.
        GymError: see `experience.measure.answering`.
    """
    from zoo.gym.experience.measure import measure_each
    from zoo.gym.experience.sharing.measurement import Measurement

    results = measure_each(config, read, items, beside, screen.say)
    records: list[Measurement] = []
    entries: list[dict[str, object]] = []
    for item, measured in results:
        if measured is None:
            screen.say(f"no rewards to compare: {item.text}")
            continue
        entries.append({"id": item.id, "text": item.text, **_figures(measured)})
        screen.answer(f"{_points(measured)}  {item.text}")
        tested = measured.tested
        low, high = tested.interval
        if math.isfinite(low):
            figures = (tested.tasks, tested.effect, low, high)
            records.append(Measurement(item.text, config.model, *figures))
    if not records:
        raise InputError(
            f"tasks: expected at least 6 different ones with rewards, which an interval needs, got "
            f"{len(read)}: nothing is signed",
            code="cli.too_few_tasks",
        )
    spent = (measured.spent_usd for _, measured in results if measured is not None)
    return records, entries, max(spent, default=0.0)


def prune(
    library: str,
    /,
    *tasks: str,
    model: Model,
    reward: str = "auto",
    near: int = 8,
    draws: int = 4,
    temperature: float = 0.3,
    max_new_tokens: int = 1024,
    max_usd: float | None = None,
    max_tokens: int | None = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Drops the lessons without which answers are as good, and stores the rest as a new version.

    Args:
        library: its name
        tasks: files of tasks like those that the library is for
        model: the model that answers, as of experience train
        reward: what scores answers
        near: the tasks that each lesson is left out on: those nearest to it
        draws: answers to each of them, with the lesson and without
        temperature: the temperature of answers
        max_new_tokens: tokens of an answer at most
        max_usd: the cap on all calls, in USD
        max_tokens: the cap on all calls, in tokens
        yes: send tasks to hosts that are new without asking
        as_json: print one JSON object as stdout's last line
    """
    from dataclasses import replace

    from zoo.gym.experience.measure import prune as leave_out
    from zoo.gym.experience.tasks import seen_by

    screen = Output(as_json)
    if near < 1:
        raise InputError(f"--near: expected at least 1, got {near}", code="cli.bad_value")
    config = config_of(
        {"model": model, "reward": reward, "gate_draws": draws, "temperature_eval": temperature},
        {"max_new_tokens": max_new_tokens, "max_usd": max_usd, "max_tokens": max_tokens},
    )
    stored = store.load(library)
    arms = (2 * len(stored.library.items), stored.library)
    seen = seen_by(stored.library.items, stored.library.seen)
    read, taught = tasks_of(screen, config, tasks, arms, near, seen=seen, yes=yes)
    result = leave_out(config, read, stored.library, near, screen.say, taught)
    for left in result.lessons:
        word = "kept" if left.kept else "dropped"
        points = f"{100 * left.effect:+6.1f} points" if left.tasks else "not compared"
        screen.answer(f"{word:<8} {points}  {left.item.text}")
        if left.reason:
            screen.say(f"  kept, because there is no reward: {left.reason}")
    saved = stored
    if all(left.kept for left in result.lessons):
        screen.say(f"nothing was dropped: {library}@{saved.version} stays as it is")
    else:
        saved = store.save(library, replace(result.library, parent=stored.digest))
        screen.say(f"{library}@{saved.version}: {counted(len(result.library.items), 'lesson')}")
        if stored.library.evidence:
            screen.say("it is unproven: what was measured is of the lessons with the dropped ones")
    lessons = [
        {"id": left.item.id, "effect": left.effect, "tasks": left.tasks, "kept": left.kept}
        for left in result.lessons
    ]
    screen.result(saved.facts | {"left_out": lessons, "spent_usd": result.spent_usd})
    return 0


def _figures(measured: "Measured") -> dict[str, object]:
    low, high = measured.tested.interval
    return {
        "effect": measured.tested.effect,
        "interval": [low, high] if math.isfinite(low) else None,
        "p": measured.p,
        "tasks": measured.tested.tasks,
    }


def _points(measured: "Measured") -> str:
    tested, (low, high) = measured.tested, measured.tested.interval
    points = f"{100 * tested.effect:+.1f} points, 95 % {100 * low:+.1f} to {100 * high:+.1f}"
    return f"{points} (p {measured.p:.2g}, {tested.tasks} tasks)"


def _new_file(name: str | None, default: str) -> Path:
    path = output_path(name, default)
    if path.exists():
        raise InputError(
            f"{path}: expected a new file, got one that exists",
            hint="--out FILE",
            code="cli.output_exists",
        )
    return path


def config_of(*settings: dict[str, object]) -> "ExperienceConfig":
    """Returns the settings of a measurement from options of a command."""
    from zoo.gym.experience.settings import ExperienceConfig

    return ExperienceConfig.model_validate({k: v for part in settings for k, v in part.items()})


def tasks_of(
    screen: Output,
    config: "ExperienceConfig",
    tasks: tuple[str, ...],
    arms: "tuple[int, Library]",
    near: int | None = None,
    *,
    seen: Set[str],
    yes: bool,
) -> "tuple[list[Task], list[Task]]":
    """Returns the tasks in files, after the estimate and consent to send them.

    The second list has those that the lessons were learned from, which measure nothing.

    Args:
        screen: shows the estimate.
        config: the settings.
        tasks: the files.
        arms: how often the tasks are answered, and the longest lessons in a prompt.
        near: how many tasks of each arm are answered at most; None for all.
        seen: hashes of the tasks that made the lessons what they are.
        yes: whether consent is given.
    """
    from zoo.gym.experience.estimate import estimate_answers
    from zoo.gym.experience.models import cap_of, named_models
    from zoo.gym.experience.providers.names import require_consent
    from zoo.gym.experience.tasks import read_tasks, unread, without_seen

    if not tasks:
        raise InputError(
            "TASKS: expected at least one file of tasks, got none", code="cli.missing_argument"
        )
    every, notes = read_tasks([Path(existing(task)) for task in tasks])
    read, left_out = without_seen(every, seen, 1 if near else LEAST_MEASURED)
    unread_columns = unread(every, config.reward_kinds)
    for note in (*notes, *unread_columns, *([left_out] if left_out else [])):
        screen.say(note)
    models, (times, lessons) = named_models(config), arms
    count = len(read) if near is None else min(near, len(read))
    answers = times * count * config.gate_draws
    need = estimate_answers(config, read, models, answers, lessons.tokens)
    screen.say(f"calls, at most: {answers:,}; tokens, low / expected / high: {need.tokens}")
    cap = cap_of(config, models)
    if need.usd.high:
        screen.say(f"USD: {need.usd}; cap: {cap}")
    if need.visible_effect is not None and near is None:
        points = f"{100 * need.visible_effect:.0f} points of 100"
        screen.say(f"a gain of {points} is found four times of five, if answers vary as is usual")
    leaves = f"Tasks and lessons leave this machine; cap: {cap}."
    require_consent(models.on_servers, leaves, lambda text: confirmed(text, yes=yes))
    return read, [task for task in every if task not in read]
