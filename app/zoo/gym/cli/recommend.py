"""`zoo-gym recommend`: from rows, model and memory to the command that trains."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.options import Json, Model
from zoo.gym.cli.output import Output
from zoo.gym.config.items import existing, value_text
from zoo.gym.humanize import human_bytes
from zoo.gym.recommend.rules import USES, Want, rules_of

if TYPE_CHECKING:
    from zoo.gym.recommend.advise import Advice

Wanted = Annotated[Want | None, Parameter(name="--want", show_default=False)]

_SOURCES = {
    "formula": "estimated",
    "measured": "measured by an earlier run",
    "shape": "estimated from the model's shape, 2,048 tokens at a time",
}


def recommend(*files: str, model: Model = None, want: Wanted = None, as_json: Json = False) -> int:
    """Recommends method, recipe and settings for your rows, and prints the command.

    It reads the files and this machine's memory, and starts and downloads nothing. Without files it
    lists which rows each aim needs.

    Args:
        files: files of examples
        model: the model to train (default zen-nano)
        want: what to train for; by default what such rows are usually made for
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    if not files:
        return _list_rows(out, want)
    from zoo.gym.data.reading.files import data_files
    from zoo.gym.offline import go_offline
    from zoo.gym.recommend.advise import advise
    from zoo.gym.recommend.settings import MODEL

    go_offline()
    paths = data_files([existing(file) for file in files]).train
    advice = advise(paths, model or MODEL, want)
    for line in _lines(advice):
        out.answer(line)
    out.result(advice.as_json())
    return 0


def _list_rows(out: Output, want: str | None) -> int:
    """Prints the rows that methods learn from, by what the user wants."""
    rules = [rule for rule in rules_of("method") if want is None or want in rule.wants]
    for rule in rules:
        out.answer(f"{', '.join(rule.wants):<14} {rule.condition}: {rule.method}")
    out.say("next: zoo-gym recommend FILE, with a file of such rows (docs/reference/data.md)")
    wants = [
        {"wants": r.wants, "rows": [USES[u] for u in r.uses], "method": r.method} for r in rules
    ]
    out.result({"methods": wants})
    return 0


def _lines(advice: "Advice") -> Iterator[str]:
    rows = ", ".join(f"{count:,} {USES[use]}" for use, count in advice.uses.items())
    tokens = "" if advice.tokens is None else f"; {advice.tokens:,} tokens"
    yield f"you have   {rows}{tokens}"
    yield f"you want   {advice.want}"
    yield f"method     {advice.method}: {advice.reason}"
    if advice.recipe is not None:
        yield f"recipe     {advice.recipe}"
    yield f"model      {advice.model}"
    if (memory := advice.memory) is not None and memory.needs_bytes is not None:
        free = f"{human_bytes(memory.free_bytes)} are free on {memory.device}"
        needs = f"{human_bytes(memory.needs_bytes)}, {_SOURCES[memory.source]}; {free}"
        yield f"memory     {needs}: it fits"
    else:
        yield "memory     not estimated"
    for setting in advice.settings:
        yield f"set        {setting.key}={value_text(setting.value)}: {setting.reason}"
    if advice.choices:
        yield f"chosen     {len(advice.choices)} more, by the run itself:"
        yield from (
            f"  {each.key}={value_text(each.value)}: {each.reason}" for each in advice.choices
        )
    for note in advice.notes:
        yield f"note       {note}"
    yield "run        " + shlex.join(advice.command)
