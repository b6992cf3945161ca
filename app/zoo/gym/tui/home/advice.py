"""A recommendation in words, from the objects of `zoo-gym recommend --json`; no widgets."""

from collections.abc import Iterator, Sequence
from typing import Any

from textual.content import Content

from zoo.gym.config.stages import DEFAULT
from zoo.gym.humanize import human_bytes
from zoo.gym.terminal import visible
from zoo.gym.tui.widgets.meters import bar

_LABEL, _BAR = 9, 20


def methods_content(methods: Sequence[dict[str, Any]]) -> Content:
    """Returns which rows lead to which method, what there is before a file is named."""
    lines = [Content("Drop a file: its rows decide the way. What leads where:\n").stylize("dim")]
    for each in methods:
        rows = ", ".join(each["rows"]) or "any rows"
        aims = " or ".join(each["wants"])
        head = Content.assemble((each["method"], "bold"), f"  for {aims}")
        lines += [head, Content(f"  {visible(rows)}").stylize("dim")]
    return Content("\n").join(lines)


def advice_content(advice: dict[str, Any]) -> Content:
    """Returns method, model, memory, settings with reasons, notes, and the command."""
    return Content("\n").join(_lines(advice))


def _lines(advice: dict[str, Any]) -> Iterator[Content]:
    rows = ", ".join(f"{count:,} {use}" for use, count in advice["uses"].items())
    tokens = "" if advice["tokens"] is None else f"; {advice['tokens']:,} tokens"
    yield _line("you have", f"{rows}{tokens}")
    yield _line("you want", str(advice["want"]))
    yield _line("method", str(advice["method"]), style="bold")
    yield _line("", str(advice["reason"]), style="dim")
    yield _line("model", str(advice["model"]))
    if memory := advice.get("memory"):
        needs, free = memory["needs_bytes"], memory["free_bytes"]
        if needs is not None:
            word = "fits" if memory["fits"] else "does not fit"
            yield _line("memory", f"{bar(needs, free, _BAR)}  {human_bytes(needs)}: {word}")
    yield _line("command", str(advice["command"]))
    yield Content("")
    for title, settings in (("set", advice["settings"]), ("chosen", advice["choices"])):
        for each in settings:
            yield _line(title, f"{each['key']}={_plain(each['value'])}")
            yield _line("", str(each["reason"]), style="dim")
    for note in advice["notes"]:
        yield _line("note", str(note))


def _line(label: str, text: str, style: str = "") -> Content:
    return Content.assemble((label.ljust(_LABEL), "dim"), (visible(text), style))


def pairs_of(advice: dict[str, Any]) -> list[str]:
    """Returns the settings that the recommendation makes, KEY=VALUE each, the method first."""
    pairs = [f"{each['key']}={_plain(each['value'])}" for each in advice["settings"]]
    return pairs if advice["method"] == DEFAULT else [f"stage={advice['method']}", *pairs]


def _plain(value: object) -> str:
    """Returns a value as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)
