"""The parts of an answer that can be shown while it grows: what later tokens cannot take back."""

from collections.abc import Callable, Sequence

from zoo.backends.detokenizer import Detokenizer
from zoo.backends.sampling import before_stop

LINE_END = "\n"
"""An answer neither begins nor ends with it."""


class Parts:
    """The parts of one answer.

    Args:
        decode: ids to text.
        stop_strings: the texts that end it; held back as soon as it ends with a beginning of one.
        stripped: whether line ends at its beginning and end are left out.
    """

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        stop_strings: Sequence[str],
        *,
        stripped: bool = True,
    ) -> None:
        self._tokens = Detokenizer(decode)
        self._stops, self._stripped = stop_strings, LINE_END if stripped else ""
        self._text = ""
        self._shown = 0

    def add(self, token: int) -> str:
        """Appends a token; returns what can be shown of the answer since the last call."""
        self._text += self._tokens.add(token)
        text = before_stop(self._text, self._stops)
        begun = (k for stop in self._stops for k in range(len(stop)) if text.endswith(stop[:k]))
        ready = text[: len(text) - max(begun, default=0)].strip(self._stripped)
        part = ready[self._shown :]
        self._shown += len(part)
        return part

    def rest(self, answer: str) -> str:
        """Returns what is left to show of the whole answer."""
        return answer[self._shown :]
