"""Removes an API key from texts, in every form in which a server may echo it."""

import base64
import re
from collections.abc import Iterator

from zoo.core.errors import InputError

SHORTEST = 8
"""A shorter key would be found in ordinary text."""

PLACEHOLDERS = frozenset(("empty", "none", "ollama", "lm-studio", "no-key", "dummy", "test"))
"""What programs are given for a server that wants some key: no secrets, and words of texts."""

MARK = "[key]"


class Secret:
    """A key, which no `repr` shows.

    Args:
        value: the key; empty for a server without one.
        source: where it is from, such as the name of its variable.

    Raises:
        InputError: it is shorter than 8 characters and no placeholder, or cannot be a header.
    """

    def __init__(self, value: str, source: str = "") -> None:
        value = value.strip()
        is_secret = bool(value) and value.lower() not in PLACEHOLDERS
        if is_secret:
            _check(value, source or "key")
        self._value = value
        forms = sorted(set(_forms(value)), key=len, reverse=True) if is_secret else []
        self._forms = re.compile("|".join(map(_escaped, forms)), re.IGNORECASE) if forms else None

    def __repr__(self) -> str:
        return "Secret()"

    def __bool__(self) -> bool:
        return bool(self._value)

    def headers(self) -> dict[str, str]:
        """Returns the header that sends the key; none for a server without one."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def clean(self, text: str) -> str:
        """Returns a text with the key replaced: plain, base64 or hex, any character escaped."""
        return self._forms.sub(MARK, text) if self._forms else text


NO_KEY = Secret("")


def _escaped(value: str) -> str:
    """Returns a pattern of a text whose characters may be escaped for JSON, addresses or HTML."""
    # few escapes of escapes: a server must not be able to make this slow
    return "".join(
        rf"(?:\\{{0,8}}{re.escape(character)}|\\{{1,8}}u00{ord(character):02x}|%(?:25){{0,3}}{ord(character):02x}"
        rf"|&(?:amp;){{0,3}}\#(?:0{{0,4}}{ord(character)}|x0{{0,4}}{ord(character):x});)"
        for character in value
    )


def _check(value: str, source: str) -> None:
    if not value.isascii() or not value.isprintable():
        raise InputError(
            f"{source}: expected an API key of ASCII letters, digits and signs, got one with other "
            "characters",
            code="openai.bad_key",
        )
    if len(value) < SHORTEST:
        raise InputError(
            f"{source}: expected an API key of at least {SHORTEST} characters, got {len(value)}",
            hint=f"a server without keys takes {', '.join(sorted(PLACEHOLDERS))}",
            code="openai.bad_key",
        )


def _forms(value: str) -> Iterator[str]:
    raw = value.encode()
    yield value
    yield raw.hex()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):  # the key may stand at any place of the encoded text
            coded = encode(b"\0" * offset + raw + b"\0\0").decode()
            # the characters all of whose bits are the key's
            yield coded[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6]
