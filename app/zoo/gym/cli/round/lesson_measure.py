"""`zoo-gym round measure` in a round of lessons: what each adds, on tasks of the user's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.cli.ending import fail
from zoo.gym.cli.gates import config_of, measured_each, tasks_of
from zoo.gym.cli.options import confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.next_step import to_measure
from zoo.gym.cli.round.opened import command
from zoo.gym.cli.round.options import MeasureOptions, given_of, refuse_given
from zoo.gym.config.items import existing
from zoo.gym.errors import EXIT_CODES, InputError, NotAvailableError
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.gym.experience.settings import ExperienceConfig
    from zoo.gym.rounds.lessons.measuring import LessonMeasuring
    from zoo.gym.rounds.life.opening import Opened

_CALLING = ("reward", "draws", "temperature", "max_new_tokens", "max_usd", "max_tokens")


def measure_lessons(
    opened: "Opened", tasks: tuple[str, ...], given: MeasureOptions, out: Output, *, yes: bool
) -> int:
    """Measures the lessons of a round, or takes what was measured, and sends the signed records."""
    from zoo.gym.rounds.lessons.measuring import LessonMeasuring
    from zoo.gym.signing import load_key

    config = _config(opened, given, tasks)
    making = LessonMeasuring(opened, load_key())
    for item in making.own:
        out.say(f"not measured, it is yours: {item.text}")
    for file in given.measured:
        count = making.add(Path(existing(file, "a file of measurements")))
        out.say(f"{file}: {counted(count, 'measurement')} of the round's lessons")
    lessons: Sequence[dict[str, object]] = ()
    spent = 0.0
    if config is not None and making.left:
        lessons, spent = _measured(making, config, tasks, out, yes=yes)
    elif config is not None and making.items:
        where = f": {making.kept_file}" if making.kept_file.exists() else ", and sent"
        out.say(f"all lessons were measured before{where}")
    return _sent(opened, making, given, out, yes=yes, lessons=lessons, spent=spent)


def _config(
    opened: "Opened", given: MeasureOptions, tasks: tuple[str, ...]
) -> "ExperienceConfig | None":
    """Returns how lessons are measured; None if they were measured before."""
    if given.model is None:
        where = "a round of lessons without --model"
        refuse_given({"tasks": tasks} | _calling(given), where)
        if not given.measured:
            raise InputError(
                "measure: expected tasks and a model, or what was measured, got neither",
                hint=f"{to_measure(opened)}, or --measured FILE in place of both",
            )
        return None
    return config_of(
        {
            "model": given.model,
            "reward": "auto" if given.reward is None else given.reward,
            "gate_draws": 2 if given.draws is None else given.draws,
            "temperature_eval": 0.3 if given.temperature is None else given.temperature,
            "max_new_tokens": 1024 if given.max_new_tokens is None else given.max_new_tokens,
            "max_usd": given.max_usd,
            "max_tokens": given.max_tokens,
        }
    )


def _calling(given: MeasureOptions) -> dict[str, object]:
    return {name: value for name, value in given_of(given).items() if name in _CALLING}


def _measured(
    making: "LessonMeasuring",
    config: "ExperienceConfig",
    tasks: tuple[str, ...],
    out: Output,
    *,
    yes: bool,
) -> tuple[list[dict[str, object]], float]:
    """Measures what is left and keeps it, and returns the figures and what they cost in USD."""
    from zoo.gym.experience.library.library import Library
    from zoo.gym.experience.tasks import seen_by

    items = making.left
    longest = max(items, key=lambda item: len(item.text.encode()))
    arms = (1 + len(items), Library((longest,)))
    read, _ = tasks_of(out, config, tasks, arms, seen=seen_by(items), yes=yes)
    records, entries, spent = measured_each(out, config, read, items, Library())
    making.keep(records)
    return entries, spent


def _sent(
    opened: "Opened",
    making: "LessonMeasuring",
    given: MeasureOptions,
    out: Output,
    *,
    yes: bool,
    lessons: Sequence[dict[str, object]],
    spent: float,
) -> int:
    """Sends the records that are not in the round yet, after consent; without it fails."""
    entries = making.entries()
    left = len(making.left)
    if left:
        out.say(f"not measured: {counted(left, 'lesson')}")
    goes = "go" if len(entries) > 1 else "goes"
    what = (
        f"{counted(len(entries), 'signed record')} (lesson, model, number of tasks, effect and "
        f"interval; no task) {goes} to {opened.storage.address}, where anybody can read it"
    )
    agreed = given.send or not entries or confirmed(f"{what}. Send? [y/N] ", yes=yes)
    answer = {
        "round": opened.state.id,
        "records": len(entries),
        "sent": agreed and bool(entries),
        "left": left,
        "lessons": list(lessons),
        "spent_usd": spent,
    }
    if not agreed:
        message = f"round {opened.manifest.name}: expected your consent, because {what}"
        hint = "nothing was sent, and what was measured is kept; agree with --send"
        return fail(out, answer, message, hint, EXIT_CODES[NotAvailableError])
    if entries:
        making.send(entries)
        taking = f"{command('aggregate', opened)} takes them"
        out.answer(f"sent {counted(len(entries), 'record')}: {taking}")
    elif making.items:
        out.say("nothing to send: what was measured is in the round")
    else:
        said = "every lesson is yours" if making.own else "the round has no lesson that counts"
        out.say(f"{said}: nothing to measure")
    out.result(answer)
    return 0
