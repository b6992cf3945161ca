"""The switch that keeps other libraries from the hub: set as soon as the models are on the disk.

A fetch happens only in `hub.fetch`, after a yes. Whatever a library wants later on its own account,
native code or a template, is refused by the hub's client itself.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""What tells the hub's libraries, and those of child processes, to call nobody."""


def go_offline() -> None:
    """Has every library in this process and its children leave the hub alone from now on."""
    os.environ.update(OFFLINE)
    _tell_client(dict.fromkeys(OFFLINE, True))


@contextmanager
def offline() -> Generator[None]:
    """Does the same for as long as the block lasts."""
    environment = {name: os.environ.get(name) for name in OFFLINE}
    os.environ.update(OFFLINE)
    client = _tell_client(dict.fromkeys(OFFLINE, True))
    try:
        yield
    finally:
        _tell_client(client)
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _tell_client(values: dict[str, bool]) -> dict[str, bool]:
    """Sets what the hub's client read from the environment when it was imported; returns it."""
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is None:
        return {}
    before = {name: bool(getattr(constants, name)) for name in values}
    for name, value in values.items():
        setattr(constants, name, value)
    return before
