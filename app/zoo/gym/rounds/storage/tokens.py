"""The tokens of servers of rounds, by address, in a file that only the user can read."""

import json
from pathlib import Path
from urllib.parse import urlsplit

from zoo.gym.errors import InputError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.paths import ensure_folder, folders

_MOST = 4096


def token_for(address: str) -> str | None:
    """Returns the token of the server of an address, None if none was kept.

    Raises:
        InputError: the file of the tokens has something else for it.
    """
    found = _tokens().get(origin_of(address))
    return None if found is None else checked_token(found)


def keep_token(address: str, token: str) -> None:
    """Keeps the token of the server of an address.

    Raises:
        InputError: it is no token.
        StorageError: it cannot be written.
    """
    checked_token(token)
    path = tokens_file()
    ensure_folder(path.parent)
    kept = {**_tokens(), origin_of(address): token}
    write_beside(path, json.dumps(kept, indent=1, sort_keys=True) + "\n", sync=True)


def checked_token(token: str) -> str:
    """Returns a token that can be sent.

    Raises:
        InputError: it is none.
    """
    if (
        not 0 < len(token) <= _MOST
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise InputError("token: expected one word of letters, digits and signs")
    return token


def tokens_file() -> Path:
    """Returns the place of the tokens."""
    return folders().config / "round-tokens.json"


def origin_of(address: str) -> str:
    """Returns scheme, host and port of an address."""
    parts = urlsplit(address)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def _tokens() -> dict[str, str]:
    found = read_json_object(tokens_file()) or {}
    return {key: one for key, one in found.items() if isinstance(one, str)}
