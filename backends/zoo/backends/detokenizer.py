"""Tokens to text one at a time, as vLLM and text-generation-inference do it.

A part of the text is complete if later tokens cannot change it: a character of several bytes may
be divided among tokens. Each token is decoded with the few before it, so the time of an answer
grows with its length, not with the square.
"""

from collections.abc import Callable

INCOMPLETE = "\ufffd"
"""What decodes from a part of a character."""


class Detokenizer:
    """The text of an answer that grows by a token at a time.

    Args:
        decode: ids to text, of the model's tokenizer.
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        # decoded parts begin at the last complete one, since a tokenizer may write the first token
        # of a text otherwise, such as without its space
        self._ids: list[int] = []
        self._complete = 0
        self.pending = ""
        """The text of the last tokens, which is not complete."""

    def add(self, token: int) -> str:
        """Appends a token; returns the text that became complete, or nothing."""
        earlier = self._decode(self._ids[: self._complete])
        self._ids.append(token)
        text = self._decode(self._ids)[len(earlier) :]
        if not text or text.endswith(INCOMPLETE):
            self.pending = text
            return ""
        del self._ids[: self._complete]
        self._complete, self.pending = len(self._ids), ""
        return text

    def peek(self, token: int) -> str:
        """Returns the text that a token would add if it came next."""
        earlier = self._decode(self._ids[: self._complete])
        return self._decode([*self._ids, token])[len(earlier) :]
