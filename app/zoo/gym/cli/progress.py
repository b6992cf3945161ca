"""Tells people how a run goes on: a line that rewrites itself, or now and then a plain one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zoo.gym.cli.output import Output
from zoo.gym.humanize import duration, figure, human_bytes
from zoo.gym.jobs import Event

if TYPE_CHECKING:
    from zoo.gym.delta import Passed, Watch

PLAIN_LINES = 20
"""Step lines of a whole run where a line cannot rewrite itself."""


class Progress:
    """Prints a run's events; the instance is called once for each, in order."""

    def __init__(self, out: Output) -> None:
        self.out = out
        self._held_out = ""

    def __call__(self, event: Event) -> None:
        """Prints an event, or nothing when it says nothing new to people."""
        match event["kind"]:
            case "plan":
                self._plan(event)
            case "step" if is_step(event):
                self.out.progress(step_line(event) + self._held_out, keep=self._is_kept(event))
            case "eval":
                step = event.get("step")
                self._held_out = f"  held-out {figure(event.get('loss'))} at step {step}"
                if not event.get("step"):
                    self.out.say(f"held-out loss before training: {figure(event.get('loss'))}")
            case "state" if event.get("state") == "queued" and event.get("message"):
                self.out.say(f"{event['message']}\nhint: {event.get('hint')}")
            case "warn":
                self.out.say(f"warning: {event.get('message')}")
            case _:
                pass

    def _plan(self, event: Event) -> None:
        self.out.say(
            f"{event.get('rows')} rows to learn, {event.get('held_out_rows')} held out; "
            f"{event.get('truncated_rows')} cut at {event.get('cutoff_len')} tokens"
        )
        for choice in _objects(event.get("choices")):
            value = choice.get("value")
            shown = f"{value:g}" if isinstance(value, float) else value
            self.out.say(f"  {choice.get('key')} = {shown}: {choice.get('reason')}")
        for memory in _objects([event.get("memory")]):
            self.out.say(memory_line(memory))
        self.out.say(f"{event.get('steps')} steps; closing this window would not stop them")

    def _is_kept(self, event: Event) -> bool:
        step, steps = event["step"], _number(event, "steps") or 0
        return step in (1, steps) or step % max(1, int(-(-steps // PLAIN_LINES))) == 0


def tell_pass(out: Output) -> "Watch":
    """Returns what shows how far a pass over a model's tensors is, a line that rewrites itself."""

    def tell(passed: "Passed") -> None:
        rate = passed.done_bytes / passed.seconds if passed.seconds else 0.0
        out.progress(
            f"{passed.done_bytes / max(1, passed.total_bytes):4.0%} of "
            f"{human_bytes(passed.total_bytes)}, {human_bytes(int(rate))}/s, "
            f"{duration(passed.eta_s)} left"
        )

    return tell


def memory_line(memory: dict[str, Any]) -> str:
    """Returns the estimate in one line: `memory 2.68 GB: weights 1.19, adapter 0.04, ...`."""
    totals = {"total", "source", "calculated"}
    shares = {k: _number(memory, k) for k in memory if k not in totals}
    listed = ", ".join(f"{name} {value / 1e9:.2g}" for name, value in shares.items() if value)
    measured = "measured before; " if memory.get("source") == "measured" else ""
    return f"  memory {(_number(memory, 'total') or 0) / 1e9:.2f} GB: {measured}{listed}"


def is_step(event: Event) -> bool:
    """Says whether an event is a step with its number, and no damaged one."""
    return event["kind"] == "step" and type(event.get("step")) is int


def step_line(event: Event) -> str:
    """Returns a step in one line: `step 120/330  loss 0.412  12,300 tokens/s  8 s left`."""
    parts = [f"step {event['step']}/{event.get('steps', '?')}", f"loss {figure(event.get('loss'))}"]
    if (speed := _number(event, "tokens_per_s")) is not None:
        parts.append(f"{speed:,.0f} tokens/s")
    if left_s := _number(event, "eta_s"):
        parts.append(f"{duration(left_s)} left")
    return "  ".join(parts)


def event_line(event: Event) -> str:
    """Returns any event in one line, for following a run as a log."""
    if is_step(event):
        return step_line(event)
    fields = {key: value for key, value in event.items() if key not in {"v", "seq", "t", "kind"}}
    if event["kind"] == "plan":
        fields = {"steps": event.get("steps")}
    words = [f"{key} {figure(value)}" for key, value in fields.items() if value is not None]
    return "  ".join([event["kind"], *words])


def _number(fields: Mapping[str, Any], key: str) -> float | None:
    """Returns a finite number among the fields, or None: a log may have been damaged."""
    value = fields.get(key)
    if type(value) is not int and type(value) is not float:
        return None
    return value if abs(value) < 2**63 else None


def _objects(value: object) -> list[dict[str, Any]]:
    entries: list[Any] = value if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]
