"""The settings of a server of rounds."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from zoo.gym.rounds.storage.address import is_loopback

PORT = 7870
GIB = 1 << 30


class ServerConfig(BaseModel):
    """Where a server listens, what it keeps, and how much of it anybody can use."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path = Field(description="has a folder for each round")
    host: str = Field(default="127.0.0.1", description="address of this machine to listen at")
    port: int = Field(default=PORT, ge=0, le=65_535, description="0: any free one")
    names: tuple[str, ...] = Field(
        default=(), description="what others call this machine, for addresses beyond this one"
    )
    origins: tuple[str, ...] = Field(
        default=(), description="pages whose scripts may ask, as https://example.org; none else"
    )
    tls_cert: Path | None = Field(default=None, description="certificates, PEM")
    tls_key: Path | None = Field(default=None, description="private key, PEM")
    most_bytes: int = Field(default=100 * GIB, ge=1, description="bytes of all rounds together")
    request_s: float = Field(default=300.0, gt=0, le=3600, description="seconds for a request")
    concurrency: int = Field(default=32, ge=1, le=10_000, description="connections at a time")

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine can connect."""
        return is_loopback(self.host)

    @property
    def scheme(self) -> str:
        """`https` with a certificate, else `http`."""
        return "https" if self.tls_cert else "http"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert, tls_key: expected both or none")
        if not self.is_local and self.tls_cert is None:
            raise ValueError(
                f"host {self.host}: expected TLS for other machines, got no tls_cert: tokens and "
                "weights would be readable on the way"
            )
        if not self.is_local and not self.names:
            raise ValueError(f"host {self.host}: expected what others call it in names, got none")
        for name in self.names:
            if not name or any(char in name for char in "/:@ ") or name != name.lower():
                raise ValueError(f"names: expected a host name in small letters, got {name!r}")
        return self
