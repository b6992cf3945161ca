"""What Home says: the next steps, the newest runs, this machine; no widgets."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from textual.content import Content

from zoo.gym.humanize import figure, human_bytes
from zoo.gym.jobs import Run, RunRow, displayed_state, read_ended
from zoo.gym.terminal import visible
from zoo.gym.tui.machine import LOW_BATTERY, Machine
from zoo.gym.tui.states import colour_of
from zoo.gym.tui.widgets.meters import bar
from zoo.gym.tui.widgets.spark import spark

RECENT_S = 3 * 24 * 3600.0
"""How long after its end a run is offered for resuming; older ones are in Runs."""
MOST_RUNS = 3
"""How many runs of each kind are offered here; the rest is in Runs."""

NO_RUNS = "None yet. A run is one training.\nIt goes on when this window is closed."
OFFLINE = "offline: this app sends nothing"
_SPARK = 10
_BAR = 16
_SHOWN, _NAME = 12, 16


class Offer(NamedTuple):
    """A next step: its action, its title, and what it leads to."""

    action: str
    title: str
    about: str


ALWAYS = (
    Offer("app.start", "Train on my examples", "drop their file on this window, or press n"),
    Offer("app.recommend", "Find a way", "from what you have to method and settings"),
    Offer("app.go('models')", "Models", "what fits this machine; download another one"),
    Offer("app.go('data')", "Look at a file", "what it would teach, row by row"),
    Offer("app.go('chat')", "Chat and compare", "base and fine-tunes side by side, blind vote"),
    Offer("app.go('share')", "Share", "small files, rounds, lessons without training"),
    Offer("app.command('demo')", "Demo", "train, compress and test the built-in model"),
    Offer("app.command('doctor')", "Doctor", "test this machine, see what is missing"),
)
"""What can be done without a run."""


def offers(rows: Sequence[RunRow], names: Mapping[str, str], now: float) -> list[Offer]:
    """Returns the next steps, the likeliest first."""
    live = [row for row in rows if row.state in {"queued", "running"}][:MOST_RUNS]
    rest = [row for row in rows if _is_recent(row, now)][:MOST_RUNS]
    done = [row for row in rows if row.state == "done"][:1]
    offered = [Offer(_watch(row), f"Watch {_name(row, names)}", _about(row)) for row in live]
    offered += [
        Offer(f"resume('{row.id}')", f"Resume {_name(row, names)}", _about(row))
        if row.state == "paused" or read_ended(Path(row.folder)).resumable
        else Offer(_watch(row), f"Open {_name(row, names)}", _about(row))
        for row in rest
    ]
    offered += ALWAYS[:1]
    offered += [Offer(_watch(row), f"Open {_name(row, names)}", _about(row)) for row in done]
    if rows:
        offered.append(Offer("app.go('runs')", f"All runs ({len(rows)})", "newest first"))
    return [*offered, *ALWAYS[1:]]


def runs_content(
    rows: Sequence[RunRow], names: Mapping[str, str], losses: Mapping[str, Sequence[float]]
) -> Content:
    """Returns the newest runs: name, state, progress, and the curve of live ones.

    No markup: names are the user's own, and may have brackets.
    """
    if not rows:
        return Content(NO_RUNS).stylize("dim")
    newest = sorted(rows, key=lambda row: row.state not in {"queued", "running", "paused"})
    labels = {row.id: visible(_name(row, names))[:_NAME] for row in newest[:_SHOWN]}
    width = max(map(len, labels.values()))
    lines = [
        _line(row, labels[row.id].ljust(width), losses.get(row.id, ())) for row in newest[:_SHOWN]
    ]
    return Content("\n").join(lines)


def _line(row: RunRow, label: str, losses: Sequence[float]) -> Content:
    state = displayed_state(Run(Path(row.folder)), row.state, row.request)
    share = f"{row.step / row.steps:4.0%}" if row.steps else f"{row.step:>4}"
    head = f"{label} ", (f"{state:<11}", f"${colour_of(state)}"), f"{share}  "
    if losses:
        return Content.assemble(
            *head, (spark(losses, _SPARK), "$success"), f" {figure(losses[-1])}"
        )
    return Content.assemble(*head, (_day(row), "dim"))


def machine_content(machine: Machine, models: Sequence[str], missing: int) -> Content:
    """Returns the figures of this machine, a line each."""
    used = machine.memory - machine.memory_free, machine.disk - machine.disk_free
    lines = [
        Content(f"system   {visible(machine.system)}, {machine.cores} cores"),
        Content(f"memory   {bar(used[0], machine.memory, _BAR)}  {_free(machine.memory_free)}"),
        Content(f"disk     {bar(used[1], machine.disk, _BAR)}  {_free(machine.disk_free)}"),
    ]
    if machine.charge is not None:
        low = not machine.plugged and machine.charge < LOW_BATTERY
        charge = f"{machine.charge:.0f} %, {'charging' if machine.plugged else 'on battery'}"
        shown = (f"{charge}: low", "$warning") if low else charge
        lines.append(Content.assemble("battery  ", shown))
    more = (f" ({missing} more in Models)" if missing else "", "dim")
    lines.append(Content.assemble(f"models   {visible(', '.join(models))}", more))
    return Content("\n").join([*lines, Content(f"network  {OFFLINE}")])


def _free(size: int) -> str:
    return f"{human_bytes(size)} free"


def _watch(row: RunRow) -> str:
    return f"app.watch('{row.id}')"


def _is_recent(row: RunRow, now: float) -> bool:
    recent = row.updated > now - RECENT_S
    return row.state == "paused" or (row.state == "interrupted" and recent)


def _name(row: RunRow, names: Mapping[str, str]) -> str:
    return f"{row.id} {names.get(row.id, '')}".rstrip()


def _about(row: RunRow) -> str:
    model = (row.model or "?").partition("@")[0]
    state = displayed_state(Run(Path(row.folder)), row.state, row.request)
    return f"{model}, {state} at {_step(row, 'step ')}, {_day(row)}"


def _step(row: RunRow, word: str = "") -> str:
    return f"{word}{row.step} of {row.steps}" if row.steps else f"{word}{row.step}"


def _day(row: RunRow) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(row.updated))
