"""Prints results to stdout and everything else to stderr; with `--json` only the object to stdout.

No meaning depends on colour alone. There are no boxes or symbols that a screen reader would spell.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zoo.gym.terminal import json_line, rewrites_lines, visible


@dataclass
class Output:
    """The two streams of a command.

    Attributes:
        as_json: print JSON; nothing else may go to stdout.
    """

    as_json: bool = False
    _unfinished: bool = False

    @property
    def colour(self) -> bool:
        """Whether answers may use bright and dim text: on a terminal without `NO_COLOR`."""
        plain = self.as_json or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return not plain and sys.stdout.isatty()

    def say(self, text: str) -> None:
        """Prints a note for people to stderr."""
        self._end_line()
        print(visible(text), file=sys.stderr, flush=True)

    def answer(self, text: str) -> None:
        """Prints the result: to stdout, or to stderr if stdout is for JSON."""
        self.styled(visible(text))

    def stream(self, parts: Iterable[str]) -> None:
        """Prints a result in parts as they arrive, on lines of its own; see `answer`."""
        self._end_line()
        file, begun = sys.stderr if self.as_json else sys.stdout, False
        try:
            for part in parts:
                print(visible(part), end="", file=file, flush=True)
                begun = True
            begun = True  # an empty one has a line, too
        finally:
            if begun:
                print(file=file, flush=True)

    def styled(self, text: str) -> None:
        """Prints a result with style codes; text from data must be escaped already."""
        self._end_line()
        print(text, file=sys.stderr if self.as_json else sys.stdout, flush=True)

    def result(self, value: Mapping[str, object]) -> None:
        """Prints the result as one line of JSON if `--json` was given."""
        self._end_line()
        if self.as_json:
            print(json_line(value), flush=True)

    def progress(self, text: str, *, keep: bool = False) -> None:
        """Shows progress: a line that is overwritten, or a permanent one if `keep`."""
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
