"""Protocols for the folder of a run and its event log, as far as training needs them."""

from pathlib import Path
from typing import Any, Protocol

ROWS_FILE = "dataset.jsonl"
"""In a run folder: the rows that Python gave."""


class Events(Protocol):
    """The event log of a run; see docs/reference/runs.md."""

    def emit(self, kind: Any, /, **fields: object) -> object:  # noqa: ANN401
        """Emits one event."""
        ...


class Workspace(Protocol):
    """The part of a run folder that training uses."""

    @property
    def events(self) -> Events:
        """The event log."""
        ...

    @property
    def config_file(self) -> Path:
        """The resolved settings."""
        ...

    @property
    def env_file(self) -> Path:
        """Versions, machine and threads."""
        ...

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        ...

    @property
    def result(self) -> Path:
        """The folder of the trained model."""
        ...
