"""Help as plain text in two columns: the same in a terminal, a pipe and a screen reader."""

import shutil
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from zoo.gym.cli.verbs import FURTHER, GROUPS, ROOT, VERBS

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_COLUMN = 30
"""Where the second column starts, in characters."""


def root_help() -> str:
    """Returns the text of bare `zoo-gym`."""
    alone = {verb.words: verb for verb in VERBS if " " not in verb.words}
    rows = [
        (f"{name} {alone[name].usage}".strip(), alone[name].summary)
        if name in alone
        else (f"{name} ...", GROUPS[name])
        for name in ROOT
    ]
    return "\n".join(
        [
            "Usage: zoo-gym COMMAND ...",
            "",
            "Train, personalise and share small language models on your own machine.",
            "Your data stays here; nothing is downloaded without your consent.",
            "",
            "Commands:",
            *columns(rows),
            f"  and {', '.join(FURTHER)}",
            "",
            "Options:",
            *columns(
                [
                    ("COMMAND --help", "its options, or its subcommands"),
                    ("--json", "any command: one JSON object as the last line"),
                    ("--plain, --version", "the app by line, without a screen; the version"),
                ]
            ),
            "",
            "A first try that needs no download: zoo-gym demo",
        ]
    )


def group_help(group: str) -> str:
    """Returns the help of a group, such as `zoo-gym runs`."""
    verbs = [verb for verb in VERBS if verb.words.startswith(f"{group} ")]
    rows = [(f"{verb.words} {verb.usage}".strip(), verb.summary) for verb in verbs]
    head = [f"Usage: zoo-gym {group} COMMAND ...", "", GROUPS[group], "", "Commands:"]
    return "\n".join([*head, *columns(rows)])


def columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Returns two-column lines: names on the left, wrapped texts on the right."""
    width = max(60, min(100, shutil.get_terminal_size().columns))
    lines: list[str] = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, width - _COLUMN) or [""]
        if len(name) > _COLUMN - 4:
            lines.append(f"  {name}")
        else:
            lines.append(f"  {name:<{_COLUMN - 2}}{wrapped.pop(0)}".rstrip())
        lines += [" " * _COLUMN + line for line in wrapped]
    return lines


class PlainFormatter:
    """Prints a command's help; cyclopts calls the methods in this order."""

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: object) -> None:
        """Prints how the command is called."""
        del options
        _print(console, f"{str(usage).strip()}\n")

    def render_description(
        self, console: "Console", options: "ConsoleOptions", description: object
    ) -> None:
        """Prints what the command does."""
        del options
        _print(console, f"{_plain(description)}\n")

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Prints the arguments or options of the command."""
        del options
        if panel.entries:
            rows = [(_labels(entry), _text(entry)) for entry in panel.entries]
            _print(console, "\n".join([f"{panel.title}:", *columns(rows), ""]))


def _print(console: "Console", text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _labels(entry: "HelpEntry") -> str:
    if entry.positional_label:
        return entry.positional_label
    names = ", ".join(entry.positive_names + entry.positive_shorts)
    return f"{names} {entry.metavar}" if entry.metavar else names


def _text(entry: "HelpEntry") -> str:
    notes = [f"one of {', '.join(entry.choices)}"] if entry.choices else []
    notes += [f"default {entry.default}"] if entry.default not in (None, "", '""') else []
    notes += ["must be given"] if entry.required else []
    text = _plain(entry.description)
    return f"{text} ({'; '.join(notes)})".strip() if notes else text


def _plain(text: object) -> str:
    """Returns the plain text of a docstring that cyclopts parsed."""
    inner = getattr(text, "primary_renderable", text)
    return str(getattr(inner, "plain", inner) or "").strip()
