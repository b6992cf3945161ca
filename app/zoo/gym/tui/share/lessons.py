"""The words for lessons: libraries, what was measured of them, what learning needs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zoo.gym.humanize import counted, money
from zoo.gym.tui.share.rounds import Json
from zoo.gym.tui.share.words import Part, facts, note, problem, title

NOTHING_LEAVES = "nothing: all calls stay on this machine"


def library_parts(shown: Json) -> list[Part]:
    """Returns what is known of a library and its lessons, of what `experience show` answers."""
    known = [
        ("for model", str(shown.get("model") or "")),
        ("teacher", str(shown.get("teacher") or "")),
        ("about", str(shown.get("domain") or "")),
        ("size", f"{counted(shown['lessons'], 'lesson')}, {shown['tokens']:,} tokens in a prompt"),
        ("signed by", str(shown.get("signer") or "")),
        *gate_figures(shown.get("evidence") or {}),
    ]
    lessons = [
        (f"{i}", lesson["text"] + (" (pinned)" if lesson["pinned"] else ""))
        for i, lesson in enumerate(shown.get("items", ()), 1)
    ]
    more = "c opens it in Chat, m measures it on other tasks, p drops lessons of no help, w makes "
    more += "weights of it, e writes it to a file, b goes back a version."
    return [facts(known), title("Lessons, as the model reads them"), facts(lessons), note(more)]


def verdict_of(evidence: Mapping[str, Any]) -> str:
    """Returns the verdict of a library's test."""
    return str(evidence.get("verdict") or "unproven")


def gate_figures(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns verdict and figures of a library's test."""
    pairs = [("verdict", verdict_of(evidence))]
    effect, low, high = (evidence.get(key) for key in ("effect", "low", "high"))
    if isinstance(effect, int | float):
        text = f"{100 * effect:+.1f} points of 100"
        if isinstance(low, int | float) and isinstance(high, int | float):
            text += f", 95 % {100 * low:+.1f} to {100 * high:+.1f}"
        pairs.append(("effect", text))
    if isinstance(evidence.get("tasks"), int):
        pairs.append(("tested on", counted(evidence["tasks"], "task")))
    return pairs


def diff_parts(answer: Mapping[str, Any]) -> list[str]:
    """Returns two versions line by line: what went, what came."""
    if answer["same"]:
        return ["The lessons are the same."]
    removed = [f"- {text}" for text in answer["removed"]]
    return removed + [f"+ {text}" for text in answer["added"]]


def estimate_parts(answer: Mapping[str, Any], cap: str, lines: Sequence[str]) -> list[Part]:
    """Returns what learning would need, and what would leave this machine."""
    usd = answer["usd"]
    free = not usd["high"]
    unpriced = any("no price" in line for line in lines)
    cost = "unknown: no price is known" if unpriced else "0 USD" if free else _span(usd, money)
    hosts = ", ".join(answer["leaves"])
    leaves = f"tasks and answers, to {hosts}" if hosts else NOTHING_LEAVES
    known = [
        ("leaves", leaves),
        ("calls", _span(answer["calls"], _number)),
        ("tokens", _span(answer["tokens"], _number)),
        ("money", cost),
        ("cap", cap),
    ]
    parts = [
        facts(known),
        note("Low to high, the expected figure between. A run stops at its cap."),
    ]
    needs = [line.removeprefix("a run needs more: ") for line in lines if "needs more" in line]
    return parts + [problem(line) for line in needs]


def _span(figures: Mapping[str, Any], shown: Callable[[float], str]) -> str:
    low, expected, high = (shown(figures[key]) for key in ("low", "expected", "high"))
    return f"{expected}  ({low} to {high})"


def _number(count: float) -> str:
    return f"{round(count):,}"
