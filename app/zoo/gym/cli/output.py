"""Where words go: answers to stdout, everything else to stderr; with `--json` the object alone.

Nothing is told by colour alone. There are no boxes and no signs that a screen reader would spell.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from zoo.gym.terminal import json_line, visible


@dataclass
class Output:
    """The two streams of a command.

    Attributes:
        as_json: the command was asked for JSON: nothing else may go to stdout.
    """

    as_json: bool = False
    _unfinished: bool = False

    @property
    def colour(self) -> bool:
        """Whether answers may be marked bright and dim: a terminal, and no `NO_COLOR`."""
        plain = self.as_json or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return not plain and sys.stdout.isatty()

    def say(self, text: str) -> None:
        """Prints a note for people to stderr."""
        self._end_line()
        print(visible(text), file=sys.stderr, flush=True)

    def answer(self, text: str) -> None:
        """Prints what was asked for: to stdout, or to stderr when stdout is for JSON."""
        self.styled(visible(text))

    def styled(self, text: str) -> None:
        """Prints an answer that has marks of style; what came from data in it is visible."""
        self._end_line()
        print(text, file=sys.stderr if self.as_json else sys.stdout, flush=True)

    def result(self, value: Mapping[str, object]) -> None:
        """Prints the machine's copy of the answer as one line, if it was asked for."""
        self._end_line()
        if self.as_json:
            print(json_line(value), flush=True)

    def progress(self, text: str, *, keep: bool = False) -> None:
        """Shows how far a run is: a line that rewrites itself, or a plain one when `keep`."""
        text = visible(text)
        if rewrites_lines():
            print(f"\r\x1b[K{text}", end="\n" if keep else "", file=sys.stderr, flush=True)
            self._unfinished = not keep
        elif keep:
            print(text, file=sys.stderr, flush=True)

    def _end_line(self) -> None:
        if self._unfinished:
            print(file=sys.stderr)
            self._unfinished = False


def rewrites_lines() -> bool:
    """Returns whether stderr is a terminal that can go back to the start of a line."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
