"""API keys: from the environment, else from the system's keyring; never from options or files.

The keyring is read through the optional package keyring; keys are put there with its own program.
"""

import os
from importlib.util import find_spec
from typing import Any

from zoo.backends.openai.secrets import NO_KEY, Secret
from zoo.gym.errors import NotAvailableError

SERVICE = "zoo-gym"
"""The name under which the keyring has keys, each as the user of its variable's name."""

ENVIRONMENT, KEYRING = "environment", "keyring"
"""The places."""

_PACKAGE = "keyring"


def read_key(variable: str) -> Secret:
    """Returns the key that a variable names, `NO_KEY` if neither place has one.

    Raises:
        NotAvailableError: the keyring cannot be read.
        InputError: it cannot be a key.
    """
    value, place = _find(variable)
    source = variable if place == ENVIRONMENT else f"{variable} of the keyring"
    return Secret(value, source) if value else NO_KEY


def key_place(variable: str) -> str | None:
    """Returns where a key is: `environment`, `keyring`, or nowhere.

    Raises:
        NotAvailableError: the keyring cannot be read.
    """
    return _find(variable)[1]


def how_to_set(variable: str) -> str:
    """Returns how a user gives a key, in words."""
    first = f"export {variable}=..."
    if find_spec(_PACKAGE) is None:
        return f"{first}; keys are never stored"
    return f"{first}, or: keyring set {SERVICE} {variable}"


def _find(variable: str) -> tuple[str, str | None]:
    """Returns a key and its place."""
    if value := os.environ.get(variable, "").strip():
        return value, ENVIRONMENT
    value = _kept(variable).strip()
    return value, KEYRING if value else None


def _kept(variable: str) -> str:
    """Returns the key in the keyring, empty without one or without a keyring."""
    if find_spec(_PACKAGE) is None:
        return ""
    import keyring  # pyright: ignore[reportMissingImports]
    from keyring import errors  # pyright: ignore[reportMissingImports]

    module: Any = keyring
    faults: Any = errors
    try:
        return str(module.get_password(SERVICE, variable) or "")
    except faults.NoKeyringError:
        return ""
    except (
        faults.KeyringError
    ) as error:  # its words are those of another program: they may have the key
        raise NotAvailableError(
            f"{variable}: expected a key in the keyring, which cannot be read: "
            f"{type(error).__name__}",
            hint=f"unlock it, or: export {variable}=...",
        ) from None
