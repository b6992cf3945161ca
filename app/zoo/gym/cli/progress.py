"""Prints the progress of a run: a line that is overwritten, or occasional plain lines."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from zoo.gym.cli.output import Output
from zoo.gym.humanize import counted, duration, figure, human_bytes
from zoo.gym.jobs import Event
from zoo.gym.jobs.lines import is_step, metric_words, number, step_line
from zoo.gym.retention.compare import LOST_KEYS, Lost, lost_lines, short
from zoo.models.registry import CANNOT_CONVERSE, PICO

if TYPE_CHECKING:
    from zoo.gym.delta import Passed, Watch

PLAIN_LINES = 20
"""Number of step lines of a whole run if a line cannot be overwritten."""

PURPOSES = {"reserve": "Python and libraries"}
"""Words for purposes of memory whose name says too little."""


class Progress:
    """Prints a run's events; the instance is called once for each, in order.

    Args:
        out: the streams of the command.
        as_log: print every step, and each change of state, as a line on stdout.
    """

    def __init__(self, out: Output, *, as_log: bool = False) -> None:
        self.out, self.as_log = out, as_log
        self._held_out, self._held_out_step = "", 0
        self._step_event: Event = {}
        self._is_starting = self._is_waiting = False

    def __call__(self, event: Event) -> None:
        """Prints an event, if it contains anything new for people."""
        say = self.out.answer if self.as_log else self.out.say
        match event["kind"]:
            case "step" if is_step(event):
                self._step(event)
            case "eval" if type(event.get("step")) is int:
                self._evaluation(event)
            case "state" | "end":
                for line in self._state(event):
                    say(line)
            case "plan" | "warn" | "retention" | "answers":
                for line in note_lines(event):
                    say(line)
            case _:
                pass

    def stopping(self) -> None:
        """Says that the run was requested to stop: a step may take long."""
        self.out.say("stopping: the run is saved after this step, even if this window is closed")

    def _state(self, event: Event) -> Iterator[str]:
        """Yields a change of state in a log, a wait for the device, and what a new worker does."""
        state = event.get("state")
        if self.as_log or (state == "queued" and event.get("message")):
            yield state_line(event)
        if self._is_starting and state == "running":
            yield "loading the libraries and reading the data"
        if self._is_waiting and state == "running" and not self.as_log:
            yield "the device is free: the run is now running"
        self._is_waiting = state == "queued" and bool(event.get("message"))
        self._is_starting = state == "queued" and not event.get("message")

    def _step(self, event: Event) -> None:
        if event["step"] <= self._held_out_step:  # a resume discarded the evaluated step
            self._held_out, self._held_out_step = "", 0
        self._step_event = event
        line = step_line(event) + self._held_out
        if self.as_log:
            self.out.answer(line)
        else:
            self.out.progress(line, keep=self._is_kept(event))

    def _evaluation(self, event: Event) -> None:
        step, loss = event["step"], "  ".join([*_loss_words(event), *metric_words(event)])
        self._held_out_step = step
        self._held_out = f"  held-out {loss} {f'at step {step}' if step else 'before training'}"
        when = f"at step {step}" if step else "before training"
        if self.as_log or not step:
            noun = "held-out loss" if "loss" in event else "held-out rows"
            tie = "" if step or not _is_tied(event) else "  (the margins are all 0)"
            (self.out.answer if self.as_log else self.out.say)(f"{noun} {when}: {loss}{tie}")
        elif step == self._step_event.get("step"):
            line = step_line(self._step_event) + self._held_out
            self.out.progress(line, keep=step == self._step_event.get("steps"))

    def _is_kept(self, event: Event) -> bool:
        step, steps = event["step"], number(event, "steps") or 0
        if step == steps and self._held_out:
            return False  # its evaluation follows, and then the line is printed again
        return step in (1, steps) or step % max(1, int(-(-steps // PLAIN_LINES))) == 0


def note_lines(event: Event) -> Iterator[str]:
    """Yields the lines of a plan, a warning, what a run has kept, or how its result answers."""
    if event["kind"] == "warn":
        yield f"warning: {event.get('message')}"
        return
    if event["kind"] == "answers":
        yield from _answer_lines(event)
        return
    if event["kind"] == "retention":
        yield f"{event.get('message')}"
        entries = _objects(event.get("lost"))
        lost = [Lost(*(str(entry.get(key)) for key in LOST_KEYS)) for entry in entries]
        yield from (f"  lost: {line}" for line in lost_lines(lost))
        return
    left_out = int(number(event, "left_out_rows") or 0)
    yield (
        f"{counted(int(number(event, 'rows') or 0), 'row')} to learn, "
        f"{event.get('held_out_rows')} held out{f', {left_out:,} left out' if left_out else ''}; "
        f"{event.get('truncated_rows')} cut at {event.get('cutoff_len')} tokens"
    )
    for choice in _objects(event.get("choices")):
        value = choice.get("value")
        text = f"{value:g}" if isinstance(value, float) else value
        yield f"  {choice.get('key')} = {text}: {choice.get('reason')}"
    if (processes := int(number(event, "processes") or 1)) > 1:
        yield f"{processes} processes divide the rows of each step; the memory is that of each"
    for memory in _objects([event.get("memory")]):
        yield memory_line(memory)
    if event.get("held_out_rows") and event.get("decides", "loss") != "loss":
        best = "highest" if event.get("better") == "higher" else "lowest"
        yield f"the step with the {best} {event['decides']} on held-out rows is kept"
    steps = counted(int(number(event, "steps") or 0), "step")
    yield f"{steps}; Ctrl-C saves and stops the run, closing this window does not"
    device = event.get("device")
    yield f"loading {event.get('model')}" + (f" on {device}" if device else "")
    if event.get("model") == PICO:
        yield f"{PICO} {CANNOT_CONVERSE}"


def _answer_lines(event: Event) -> Iterator[str]:
    """Yields the answers of a run's result; those of earlier steps are for the app."""
    if "message" not in event:
        return
    yield f"{event['message']}; for example:"
    for entry in _objects(event.get("answers")):
        whose = "a held-out prompt" if entry.get("held_out") else "a learned prompt"
        yield f"  {whose}: {short(str(entry.get('prompt')))}"
        for name, key in (("data", "expected"), ("before", "before"), ("now", "now")):
            if entry.get(key) or key != "expected":
                yield f"    {name:<7} {short(str(entry.get(key)))}"


def state_line(event: Event) -> str:
    """Returns a change of state with its reason: `failed: no such file`, the hint below."""
    message, hint, model = (event.get(key) for key in ("message", "hint", "model"))
    state = message if event.get("state") == "queued" and message else event.get("state")
    reason = model if model is not None else message
    line = f"{state}" if reason in {None, state} else f"{state}: {reason}"
    return f"{line}\nhint: {hint}" if hint else line


def show_pass(out: Output) -> "Watch":
    """Returns a function that shows the progress of a pass over a model's tensors."""

    def show(passed: "Passed") -> None:
        rate = passed.done_bytes / passed.seconds if passed.seconds else 0.0
        out.progress(
            f"{passed.done_bytes / max(1, passed.total_bytes):4.0%} of "
            f"{human_bytes(passed.total_bytes)}, {human_bytes(int(rate))}/s, "
            f"{duration(passed.eta_s)} left"
        )

    return show


def memory_line(memory: dict[str, Any]) -> str:
    """Returns the estimate in one line: `memory 2.68 GB: weights 1.19, adapter 0.04, ...`."""
    totals = {"total", "source", "calculated"}
    shares = {PURPOSES.get(k, k): number(memory, k) for k in memory if k not in totals}
    listed = ", ".join(f"{name} {value / 1e9:.2g}" for name, value in shares.items() if value)
    measured = "measured earlier; " if memory.get("source") == "measured" else ""
    return f"  memory {(number(memory, 'total') or 0) / 1e9:.2f} GB: {measured}{listed}"


def _is_tied(event: Event) -> bool:
    """Returns whether no margin of an evaluation differs from 0; see `Method.is_tied`."""
    stated = event.get("metrics")
    metrics: dict[str, Any] = stated if isinstance(stated, dict) else {}
    return metrics.get("accuracy") == metrics.get("margin") == 0


def _loss_words(event: Event) -> list[str]:
    """Returns the loss of an evaluation; nothing for a method that measures none."""
    return [figure(event["loss"])] if "loss" in event else []


def _objects(value: object) -> list[dict[str, Any]]:
    entries: list[Any] = value if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]
