"""The cost of reading a run's log of 100,000 events, first all of it and then only new events.

Compared, in the same process, with `json.loads` of the log's lines, the least that a reader must
do.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from bench.measure import Case
from zoo.gym.jobs.events import EventLog, EventReader
from zoo.gym.jobs.state import Status, fold
from zoo.gym.tui.runs.history import History

EVENTS, NEW, REPEATS = 100_000, 10, 7


def write_log(path: Path) -> None:
    """Writes a log of steps, with occasional evaluations and checkpoints."""
    log = EventLog(path)
    log.emit("state", state="running")
    log.emit("plan", steps=EVENTS)
    lines = [path.read_text(encoding="utf-8")]
    for seq in range(2, EVENTS):
        head = {"v": 1, "seq": seq, "t": 1.7e9 + seq / 10}
        lines.append(json.dumps(head | _fields(seq)) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


def run() -> Iterator[Case]:
    """Yields the cases."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "events.jsonl"
        write_log(path)
        lines = path.read_text(encoding="utf-8").splitlines()
        plain: list[float] = []
        folded: list[float] = []
        shown: list[float] = []
        for _ in range(REPEATS):  # alternately, so that a drift of the clock affects all equally
            plain.append(cpu_s(lambda: [json.loads(line) for line in lines]))
            folded.append(cpu_s(lambda: fold(Status(), EventReader(path).read())))
            shown.append(cpu_s(lambda: History().take(EventReader(path).read())))
        against = f"json.loads of {EVENTS:,} lines"
        base = median(plain)
        ratios = [median(times) / base for times in (folded, shown)]
        yield Case("status of a log", median(folded), "CPU-s", against, ratios[0], "<= 1.3")
        yield Case("history of a log", median(shown), "CPU-s", against, ratios[1], "<= 1.3")
        yield from _new_only(path, base)


def _new_only(path: Path, base: float) -> Iterator[Case]:
    """Yields the cost of the next read, after a few new events."""
    reader, history, log = EventReader(path), History(), EventLog(path)
    history.take(reader.read())
    for seq in range(EVENTS, EVENTS + NEW):
        log.emit("step", step=seq, steps=EVENTS + NEW, loss=0.5)
    spent = cpu_s(lambda: history.take(reader.read()))
    against = f"json.loads of {EVENTS:,} lines"
    yield Case(f"the next {NEW} events", spent, "CPU-s", against, spent / base, "<= 0.01")


def _fields(seq: int) -> dict[str, object]:
    if seq % 50 == 0:
        return {"kind": "eval", "step": seq, "loss": 1 / seq, "tokens": 900, "best": True}
    if seq % 75 == 0:
        return {"kind": "checkpoint", "step": seq, "folder": f"step-{seq:08}"}
    fields = {"kind": "step", "step": seq, "steps": EVENTS, "loss": 1.2345678 / seq, "lr": 0.002}
    figures = {"grad_norm": 0.7123456, "skipped": False, "tokens": 512 * seq}
    return fields | figures | {"tokens_per_s": 2134.56789, "eta_s": (EVENTS - seq) * 0.4}


def cpu_s(work: Callable[[], object]) -> float:
    """Returns the CPU seconds of a call."""
    started = time.process_time()
    work()
    return time.process_time() - started
