"""The settings of a server of rounds, and the roles of its tokens."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from zoo.gym.http_guard.config import HttpConfig

PORT = 7870
GIB = 1 << 30


class Role(StrEnum):
    """What a token allows: a contributor reads and adds, the maker also writes the log."""

    MAKER = "maker"
    CONTRIBUTOR = "contributor"


class ServerConfig(HttpConfig):
    """Where a server listens, what it keeps, and how much of it anybody can use."""

    folder: Path = Field(description="has a folder for each round")
    port: int = Field(default=PORT, ge=0, le=65_535, description="0: any free one")
    most_bytes: int = Field(default=100 * GIB, ge=1, description="bytes of all rounds together")
