"""The connections of a server: uvicorn, with time limits and without signal handlers."""

import asyncio
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from zoo.gym.errors import InputError
from zoo.gym.http_guard.config import HttpConfig
from zoo.gym.http_guard.gate import Gate, Gated

HEAD_S = 10.0
"""How long a connection may take for the head of a request."""


def server_of(app: ASGIApp, gate: Gate[Any], config: HttpConfig) -> uvicorn.Server:
    """Returns a server that has not started.

    Raises:
        InputError: a certificate is unusable.
    """
    return _Server(_settings(Gated(app, gate), config))


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leaves signals to the program."""
        yield


class TimedProtocol(H11Protocol):
    """A connection that is closed if a request's head, or a whole request, takes too long."""

    request_s = 300.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the time for the first head."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._restart(HEAD_S)

    def data_received(self, data: bytes) -> None:
        """Starts the time of a request with its first byte, and again with its head."""
        waits = self._waits()
        if waits and self._timer is None:
            self._restart(HEAD_S)
        super().data_received(data)
        if waits and not self._waits():
            self._restart(self.request_s)

    def on_response_complete(self) -> None:
        """Ends the time of a request."""
        self._stop()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the time."""
        self._stop()
        super().connection_lost(exc)

    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _restart(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _settings(app: Gated, config: HttpConfig) -> uvicorn.Config:
    protocol = type("Protocol", (TimedProtocol,), {"request_s": config.request_s + config.grace_s})
    settings = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=config.concurrency + 1,
        timeout_graceful_shutdown=5,
        ssl_certfile=config.tls_cert,
        ssl_keyfile=config.tls_key,
    )
    try:
        settings.load()
    except (ssl.SSLError, OSError) as error:
        raise InputError(
            f"tls_cert, tls_key: expected a certificate and its key: {error}",
            code="http_guard.bad_certificate",
        ) from None
    return settings
