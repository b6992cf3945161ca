"""`zoo-gym experience train, estimate, replay`: lessons from a model's own answers."""

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.cli.ending import fail, fail_run, how_to_continue
from zoo.gym.cli.flags import read_flags, with_model_flags
from zoo.gym.cli.options import Json, Offline, Switch, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.config.items import existing
from zoo.gym.errors import GymError, InputError
from zoo.gym.experience.learning.learn import batches
from zoo.gym.experience.settings import MAJORITY, ExperienceConfig
from zoo.gym.experience.tasks import read_split
from zoo.gym.humanize import counted, figure, money
from zoo.gym.jobs import Event, Run, Status, follow, launch, open_run, read_status, state_name

MOST_SHOWN, MOST_CHARACTERS = 3, 120
"""Answers that are shown if nothing was kept, and the characters of each."""

if TYPE_CHECKING:
    from zoo.gym.experience.start import Prepared


@with_model_flags(ExperienceConfig)
def train(
    *tasks: str,
    yes: Yes = False,
    detach: Switch = False,
    offline: Offline = False,
    as_json: Json = False,
    **settings: object,
) -> int:
    """Learns lessons from a model's good and bad answers to tasks; no weights change.

    Args:
        tasks: files of tasks: rows with a prompt, and an answer if the reward needs one
        yes: send tasks to hosts that are new without asking
        detach: return as soon as the run has started
        offline: only models on servers of this machine
        as_json: print one JSON object as stdout's last line
        **settings: how lessons are learned
    """
    out = Output(as_json)
    resolve_local(settings, yes=yes, offline=offline)
    prepared = _prepare(tasks, settings, offline=offline)
    return begin(out, prepared, yes=yes, detach=detach)


def begin(out: Output, prepared: "Prepared", *, yes: bool, detach: bool = False) -> int:
    """Shows what a run will need, asks about new hosts, starts it, and follows it to its end."""
    from zoo.gym.experience.models import check_servers
    from zoo.gym.experience.providers.names import require_consent
    from zoo.gym.experience.start import make_run

    _say_prepared(out, prepared)
    leaves = f"Tasks and answers leave this machine; cap: {prepared.cap}."
    require_consent(prepared.models.on_servers, leaves, lambda text: confirmed(text, yes=yes))
    for doubt in check_servers(prepared.models):
        out.say(f"warning: {doubt}")
    run = make_run(prepared)
    out.say(f"run {run.id}: {prepared.config.model} in {run.folder}")
    launch(run)
    if detach:
        out.say(f"it continues in the background; follow it: zoo-gym runs tail {run.id}")
        out.result(_answer(run, read_status(run)))
        return 0
    return finish(run, follow(run, lambda event: show_event(out, event)), out)


@with_model_flags(ExperienceConfig)
def estimate(*tasks: str, as_json: Json = False, **settings: object) -> int:
    """Shows what a run would need, and the effect that its gate could see; makes no call.

    Args:
        tasks: files of tasks, as of experience train
        as_json: print one JSON object as stdout's last line
        **settings: as of experience train
    """
    out = Output(as_json)
    prepared = _prepare(tasks, settings, will_run=False)
    _say_prepared(out, prepared)
    out.result(asdict(prepared.estimate))
    return 0


def replay(run: str, /, *, as_json: Json = False) -> int:
    """Repeats a finished run from its journal, without any server, and compares the library.

    Args:
        run: a run's id such as r0001, its name, or last
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.experience.session import replay as repeat

    out = Output(as_json)
    replayed = repeat(open_run(run))
    answer = {
        "digest": replayed.digest or None,
        "same": replayed.same,
        "first_difference": replayed.first_difference,
        "other_method": replayed.other_method or None,
    }
    if replayed.other_method:
        error = GymError(
            f"{replayed.other_method}: {replayed.first_difference}",
            hint="that version repeats it; the library of the run is as it was",
            code="cli.other_method",
        )
        return fail(out, answer, error)
    if not replayed.same:
        message = f"the replay differs: {replayed.first_difference}"
        return fail(out, answer, GymError(message, code="cli.replay_differs"))
    out.answer(f"the same library: {replayed.digest}")
    out.result(answer)
    return 0


def resolve_local(settings: Mapping[str, object], *, yes: bool, offline: bool) -> None:
    """Finds the models of this machine, downloading them after consent."""
    from zoo.gym.cli.sources import resolve_models
    from zoo.gym.experience.providers.names import hosted

    names = [str(settings[key]) for key in ("model", "teacher") if settings.get(key)]
    local = [name for name in dict.fromkeys(names) if hosted(name) is None]
    if local:
        resolve_models(local, yes=yes, offline=offline)


def _prepare(
    tasks: tuple[str, ...],
    settings: Mapping[str, object],
    *,
    will_run: bool = True,
    offline: bool = False,
) -> "Prepared":
    from zoo.gym.experience.models import named_models
    from zoo.gym.experience.providers.names import refuse_offline
    from zoo.gym.experience.start import prepare_files

    if not tasks:
        raise InputError(
            "TASKS: expected at least one file of tasks, got none", code="cli.missing_argument"
        )
    if settings.get("model") is None:
        raise InputError(
            "--model: expected the model that answers, got nothing",
            hint="--model deepseek/MODEL, or a local server: --model http://127.0.0.1:8080/v1#MODEL",
            code="cli.missing_argument",
        )
    stated = {key: value for key, value in settings.items() if value is not None}
    config = read_flags(ExperienceConfig, stated)
    if offline:  # before anything else that such a model lacks, such as its price
        refuse_offline(named_models(config).on_servers)
    return prepare_files(config, [Path(existing(task)) for task in tasks], will_run=will_run)


def _say_prepared(out: Output, prepared: "Prepared") -> None:
    split, need = prepared.split, prepared.estimate
    for note in prepared.notes:
        out.say(note)
    parts = f"{len(split.train)} teach, {len(split.gate)} gate, {len(split.test)} test"
    out.say(f"tasks: {parts}; reward: {prepared.reward}")
    out.say(f"calls, low / expected / high: {need.calls}; tokens: {need.tokens}")
    if need.usd.high:
        out.say(f"USD: {need.usd}; cap: {prepared.cap}")
    below = prepared.cap.usd is not None and prepared.cap.usd < need.usd.expected
    if below or (prepared.cap.tokens or need.tokens.high) < need.tokens.expected:
        out.say(
            "the cap is below what is expected, with answers of 30 % of --max-new-tokens: a run "
            "may park at it, to be resumed with a higher one"
        )
    if need.visible_effect is not None:
        points = 100 * need.visible_effect
        out.say(f"the gate would find a gain of {points:.0f} points of 100 four times of five")
    for host in need.leaves:
        out.say(f"tasks and answers are sent to {host}")


def show_event(out: Output, event: Event, *, as_log: bool = False) -> None:
    """Prints an event of a run for people, to stdout if it is the answer of a command."""
    kind, say = event["kind"], out.answer if as_log else out.say
    if kind == "warn":
        say(f"warning: {event.get('message')}")
    if kind != "step":
        return
    counts, gate = event.get("counts") or {}, event.get("gate")
    line = f"step {event.get('step')}/{event.get('steps')}: reward {figure(event.get('reward'))}"
    line += f", {counts.get('mixed groups', 0)} of {counts.get('groups', 0)} groups mixed"
    line += f", {len(event.get('edits') or ())} edits"
    if gate:
        line += f"; gate: {gate['verdict']}, {gate['effect']:+.3f} (p {gate['p']:.2g})"
        needed = gate.get("needed")
        line += f", about {needed:,} tasks would show it" if needed else ""
    say(f"{line}; {event.get('lessons')} lessons, {event.get('calls') or 0:,} calls")


def finish(run: Run, status: Status, out: Output) -> int:
    """Reports how a run of lessons ended and returns the exit code."""
    answer = _answer(run, status)
    if status.state != "done":
        message = status.message or f"run '{run.id}' is {status.state}"
        return fail_run(out, answer, status, message, status.hint or how_to_continue(run))
    for line in end_lines(run, status):
        out.answer(line)
    metrics = status.metrics or {}
    if metrics.get("library") is not None:
        out.say(f"  zoo-gym experience show {metrics['library']}    shows the lessons")
    else:
        _say_why(run, out)
    out.result(answer)
    return 0


def end_lines(run: Run, status: Status) -> Iterator[str]:
    """Yields the verdict of a run and what it spent; without them why it ended."""
    metrics = status.metrics
    if status.state != "done" or metrics is None:
        yield f"run {run.id} is {state_name(status.state, status.request)}" + (
            f": {status.message}" if status.message else ""
        )
        return
    if metrics.get("library") is None:
        yield f"run {run.id} is done: nothing was kept"
    elif metrics.get("low") is None:
        yield f"run {run.id} is done: {metrics['library']}, unproven"
    else:
        low, high = (100 * float(metrics[key]) for key in ("low", "high"))
        effect = f"{100 * float(metrics['effect']):+.1f} points, 95 % {low:+.1f} to {high:+.1f}"
        added = f"{metrics.get('tokens_added')} tokens added to each prompt"
        verdict = metrics["verdict"]
        yield f"run {run.id} is done: {metrics['library']} is {verdict}: {effect}; {added}"
    tokens = int(metrics.get("prompt_tokens") or 0) + int(metrics.get("completion_tokens") or 0)
    usd = money(float(metrics.get("spent_usd") or 0.0))
    yield f"spent: {counted(int(metrics.get('calls') or 0), 'call')}, {tokens:,} tokens, {usd}"


def _say_why(run: Run, out: Output) -> None:
    """Says why nothing was kept if all rewards are the same, with some answers to judge by."""
    from zoo.gym.experience.calls.journal import Journal
    from zoo.gym.experience.session import JOURNAL_FILE, read_settings

    with closing(Journal(run.folder / JOURNAL_FILE, is_kept=True)) as journal:
        answers = [
            answer for answer in journal.answers() if answer[0].startswith("rollout step 0 ")
        ]
    rewards = {score.value for _, _, score in answers if not score.failed}
    if len(rewards) != 1:
        return
    out.say(
        f"all answers have the reward {rewards.pop():g}: there was nothing to compare. Is the "
        "model able to do the tasks, and the reward right?"
    )
    config, tasks = read_settings(run), read_split(run.folder).train
    if config.reward == MAJORITY:  # tasks without one are left out: places are others
        return
    first_batch = batches(len(tasks), config.max_epochs, config.seed)[0]
    first_answers: dict[int, str] = {}  # by the place of the task in the batch
    for slot, text, _ in answers:
        first_answers.setdefault(int(slot.split()[6]), text)
    for index, text in list(first_answers.items())[:MOST_SHOWN]:
        task = tasks[first_batch[index]]
        expected = "" if task.answer is None else f"; expected: {_short(task.answer)}"
        out.say(f"  task: {_short(task.messages[-1].content)}")
        out.say(f"  answer: {_short(text) or '(nothing)'}{expected}")


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def _answer(run: Run, status: Status) -> dict[str, object]:
    metrics = status.metrics or {}
    low, high = metrics.get("low"), metrics.get("high")
    return {
        "run": run.id,
        "state": state_name(status.state, status.request),
        "folder": str(run.folder),
        "library": metrics.get("library"),
        "digest": metrics.get("digest"),
        "verdict": metrics.get("verdict"),
        "effect": metrics.get("effect"),
        "interval": None if low is None else [low, high],
        "spent_usd": metrics.get("spent_usd", _spent_usd(run, status)),
    }


def _spent_usd(run: Run, status: Status) -> float | None:
    """Returns what an unfinished run has spent by its journal, None if it cannot be read now."""
    from zoo.gym.experience.calls.journal import Journal
    from zoo.gym.experience.session import JOURNAL_FILE

    path = run.folder / JOURNAL_FILE
    if status.live or not path.is_file():
        return None
    with suppress(InputError), closing(Journal(path, is_kept=True)) as journal:
        return round(journal.spent.usd, 6)
    return None
