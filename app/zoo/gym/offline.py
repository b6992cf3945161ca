"""Keeps other libraries from using the hub, once the models are on disk.

Only `hub.fetch` downloads, after consent. Later requests that a library makes by itself, such as
for native code or a template, are refused by the hub's client.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""Environment variables that disable network access in the hub's libraries and child processes."""


def go_offline() -> None:
    """Disables the hub for every library in this process and its children from now on."""
    os.environ.update(OFFLINE)
    _set_client(dict.fromkeys(OFFLINE, True))


@contextmanager
def offline() -> Generator[None]:
    """Does the same for the duration of a `with` block."""
    environment = {name: os.environ.get(name) for name in OFFLINE}
    os.environ.update(OFFLINE)
    client = _set_client(dict.fromkeys(OFFLINE, True))
    try:
        yield
    finally:
        _set_client(client)
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _set_client(values: dict[str, bool]) -> dict[str, bool]:
    """Sets the values that the hub's client read at import, and returns the previous ones."""
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is None:
        return {}
    previous = {name: bool(getattr(constants, name)) for name in values}
    for name, value in values.items():
        setattr(constants, name, value)
    return previous
