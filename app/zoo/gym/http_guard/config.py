"""The settings of a server: where it listens, and who may ask how long."""

import re
from pathlib import Path
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from zoo.gym.http_guard.gate import is_loopback

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@*\s]+")
"""What a browser writes into the header Origin; not `null`, which many pages are."""


class HttpConfig(BaseModel):
    """Where a server listens, and what one client can take of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    needs_tls: ClassVar[bool] = True
    """Whether connections from other machines have to be encrypted."""

    grace_s: ClassVar[float] = 10.0
    """How much later than after `request_s` a connection is closed: it may say why before."""

    host: str = Field(default="127.0.0.1", description="address of this machine to listen at")
    port: int = Field(ge=0, le=65_535, description="0: any free one")
    names: tuple[str, ...] = Field(
        default=(), description="what others call this machine, for addresses beyond this one"
    )
    origins: tuple[str, ...] = Field(
        default=(),
        description="pages whose scripts may ask, as https://example.org; by default no page",
    )
    tls_cert: Path | None = Field(default=None, description="certificates, PEM")
    tls_key: Path | None = Field(default=None, description="private key, PEM")
    request_s: float = Field(default=300.0, gt=0, le=3600, description="seconds for a request")
    concurrency: int = Field(default=32, ge=1, le=10_000, description="connections at a time")

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine can connect."""
        return is_loopback(self.host)

    @property
    def host_names(self) -> frozenset[str]:
        """What the header Host may say, without a port."""
        return frozenset((*self.names, *(LOCAL_NAMES if self.is_local else ())))

    def url(self, port: int) -> str:
        """Returns the address at a port."""
        scheme = "https" if self.tls_cert else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host if self.is_local else self.names[0]}:{port}"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert, tls_key: expected both or none")
        if self.needs_tls and not self.is_local and self.tls_cert is None:
            raise ValueError(
                f"host {self.host}: expected TLS for other machines, got no tls_cert: tokens and "
                "weights would be readable on the way"
            )
        if not self.is_local and not self.names:
            raise ValueError(
                f"host {self.host}: expected the names that others use for this machine, got none"
            )
        for name in self.names:
            if not name or any(char in name for char in "/:@ ") or name != name.lower():
                raise ValueError(f"names: expected a host name in small letters, got {name!r}")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin) or origin != origin.lower():
                raise ValueError(
                    f"origins: expected a page's address without its path, as "
                    f"https://example.org, got {origin!r}"
                )
        return self
