"""What the address of a round may be: a folder, a server or a bucket."""

import re
from urllib.parse import unquote, urlsplit

from zoo.gym.errors import InputError
from zoo.gym.http_guard.gate import is_loopback


def is_address(given: str) -> bool:
    """Says whether a text is an address rather than a path or a name."""
    return "://" in given


def checked_address(address: str) -> str:
    """Returns an address of a round on a server, without a last slash.

    Raises:
        InputError: it is none, has a password in it, or is neither https nor of this machine.
    """
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(f"{address!r}: expected https://HOST/rounds/NAME or s3://BUCKET/PREFIX")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InputError(
            f"address of {parts.hostname}: expected no password, query or fragment in it",
            hint=f"zoo-gym round token {parts.scheme}://HOST keeps a token",
        )
    if any(part in {".", ".."} for part in re.split(r"[/\\]", unquote(parts.path))):
        raise InputError(f"{address}: expected the path of a round, got one with '.' or '..'")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise InputError(
            f"{address}: expected https for another machine, got http: the token and the weights "
            "would be readable on the way"
        )
    return address.rstrip("/")
