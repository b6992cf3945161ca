"""A real model, smollm2: LoRA beside transformers with peft and TRL, chat beside `generate`.

usage: python -m bench real [--model FOLDER]      fifteen minutes of two cores, 4 GB

LoRA, on one thread and two: steps of ours and of the plain loop in turns in one process, those of
TRL's trainer in another, as `bench.real_steps` says: all in float32, and ours also in the number
format that a run chooses here. All have the default settings of the allocator. Chat: see
`bench.real_chat`.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import Case, Skipped
from bench.real_steps import SHARED
from bench.step import own_process

MODEL = "smollm2"
"""A name, or a folder as text."""

THREADS = (1, 2)
PEAK_STEPS = "4"


def run() -> Iterator[Case | Skipped]:
    """Yields the cases; none without the model or the rows."""
    from zoo.core.errors import NotAvailableError
    from zoo.models import resolve

    try:
        folder = resolve(MODEL, offline=True).folder
    except NotAvailableError as error:
        yield Skipped("real", str(error).partition("\n")[0])
        return
    if SHARED.exists():
        for threads in THREADS:
            yield from lora(folder, threads)
    else:
        yield Skipped("LoRA", f"expected {SHARED}")
    yield from chat(own_process("bench.real_chat", str(folder), joined=False))


def lora(folder: Path, threads: int) -> Iterator[Case | Skipped]:
    """Yields speed, losses and memory of LoRA against a plain loop and TRL."""
    title = f"LoRA, {threads} thread{'s' * (threads > 1)}"

    def steps(way: str, *options: str) -> dict[str, Any]:
        words = (way, str(folder), "--threads", str(threads), *options)
        return own_process("bench.real_steps", *words, joined=False)

    turns = steps("turns")
    alone = {way: steps(way, "--steps", PEAK_STEPS)[way] for way in ("ours", "plain")}
    name, mine, plain = "transformers and peft", turns["ours"], turns["plain"]
    yield faster(title, mine, plain, name, ">= 1.3")
    yield same_losses(title, mine, plain, name)
    yield faster(f"{title}, format chosen here", turns["chosen"], plain, name, "")
    yield peak(title, alone["ours"], alone["plain"], name)
    if find_spec("trl") is None:
        yield Skipped(title, "trl is not installed")
        return
    theirs = steps("trl")["trl"]
    yield faster(title, mine, theirs, "TRL", "")
    yield same_losses(title, mine, theirs, "TRL")
    yield peak(title, alone["ours"], theirs, "TRL")


def faster(title: str, mine: dict[str, Any], theirs: dict[str, Any], name: str, bar: str) -> Case:
    """Returns our speed, and the median over the steps of how many times that of the other."""
    pairs = list(zip(mine["step_s"], theirs["step_s"], strict=True))[1:]
    ratio = median(theirs_s / mine_s for mine_s, theirs_s in pairs)
    return Case(f"{title}: speed", mine["tokens_per_cpu_s"], "tokens/s", name, ratio, bar)


def same_losses(title: str, mine: dict[str, Any], theirs: dict[str, Any], name: str) -> Case:
    """Returns our last loss, and the largest difference of those of ten steps."""
    pairs = zip(mine["losses"], theirs["losses"], strict=True)
    error = max(abs(a - b) for a, b in pairs)
    return Case(f"{title}: losses", mine["losses"][-1], "nats", name, error, "<= 0.001")


def peak(title: str, mine: dict[str, Any], theirs: dict[str, Any], name: str) -> Case:
    """Returns our peak memory, and its share of the other."""
    share = mine["peak_bytes"] / theirs["peak_bytes"]
    return Case(f"{title}: peak", mine["peak_bytes"] / 1e9, "GB", name, share, "")


def chat(ways: dict[str, dict[str, Any]]) -> Iterator[Case]:
    """Yields our answers against those of transformers."""
    mine = ways["ours"]
    for way, name in (("f32", "generate, float32"), ("stored", "generate, as stored")):
        theirs = ways[way]
        faster = mine["tokens_per_cpu_s"] / theirs["tokens_per_cpu_s"]
        yield Case("chat: speed", mine["tokens_per_cpu_s"], "tokens/s", name, faster, ">= 1")
        sooner = mine["first_s"] / theirs["first_s"]
        yield Case("chat: first token", mine["first_s"], "CPU-s", name, sooner, "")
        pairs = zip(mine["answer"], theirs["answer"], strict=True)
        same = sum(a == b for a, b in pairs) / len(mine["answer"])
        bar = ">= 1" if way == "f32" else ""
        yield Case("chat: same tokens", same, "share", name, same, bar)
