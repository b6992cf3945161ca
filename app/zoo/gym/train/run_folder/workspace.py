"""The folder of a run and its log of events, as training needs them: two protocols."""

from pathlib import Path
from typing import Any, Protocol


class Events(Protocol):
    """Where a run tells what happens; see docs/reference/runs.md."""

    def emit(self, kind: Any, /, **fields: object) -> object:  # noqa: ANN401
        """Tells one event."""
        ...


class Workspace(Protocol):
    """The folder of a run, as the training sees it."""

    @property
    def events(self) -> Events:
        """Where events are told."""
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
