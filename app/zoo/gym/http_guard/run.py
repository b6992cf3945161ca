"""Runs a server in this process, beside whatever else its event loop does; and its tokens."""

import asyncio
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_errors, read_small, write_beside
from zoo.gym.files.lock import locked
from zoo.gym.http_guard.config import HttpConfig
from zoo.gym.http_guard.gate import Gate
from zoo.gym.paths import ensure_folder

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp


class HttpServer:
    """A server of one application behind a gate: `listen`, `await start()`, `await stop()`.

    Attributes:
        config: how it listens.
        url: the address, once it listens.
    """

    def __init__(self, config: HttpConfig) -> None:
        self.config = config
        self.url = ""
        self._server: uvicorn.Server | None = None
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def has_started(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._task is not None

    def listen(self, name: str, build: "Callable[[], ASGIApp]", gate: Gate[Any]) -> None:
        """Takes the address; requests wait there until it is started.

        Args:
            name: what the server is, for messages.
            build: returns the application; imports of the extra `serve` belong into it.
            gate: decides who may ask.

        Raises:
            NotAvailableError: the extra `serve` is not installed.
            InputError: the address is in use or not of this machine, or a certificate is unusable.
        """
        try:
            from zoo.gym.http_guard.connections import server_of

            self._server = server_of(build(), gate, self.config)
        except ModuleNotFoundError as error:
            raise NotAvailableError(
                f"{name}: expected the package {error.name}, got nothing",
                hint=install_command("serve"),
                code="http_guard.missing_package",
            ) from None
        self._socket = listen_at(self.config)
        self.url = self.config.url(int(self._socket.getsockname()[1]))

    async def start(self) -> None:
        """Returns when requests are answered.

        Raises:
            NotAvailableError: it ended at once.
        """
        assert self._server is not None, "listen comes first"
        assert self._socket is not None
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.005)
        if self._task.done():
            await self.stop()
            raise NotAvailableError(
                f"{self.url}: expected to start, got an error", code="http_guard.not_started"
            )

    async def stop(self) -> None:
        """Ends what is being answered, and listens no more."""
        if self._server is None or self._task is None:
            return
        self._server.should_exit = True
        task, self._task = self._task, None
        await task


def stored_token(path: Path) -> str:
    """Returns the token in a file, which is made the first time.

    Raises:
        StorageError: it cannot be kept.
    """
    ensure_folder(path.parent)
    with locked(path.with_name(f".{path.name}.lock"), wait_s=10):  # two servers may start at once
        return _stored_token(path)


def _stored_token(path: Path) -> str:
    with read_errors(path):
        try:
            token = read_small(path, most_bytes=1000).decode().strip()
        except FileNotFoundError:
            token = ""
    if not token:
        token = secrets.token_urlsafe(32)
        write_beside(path, f"{token}\n", sync=True)
    return token


def listen_at(config: HttpConfig) -> socket.socket:
    """Takes an address; whoever connects waits until it is accepted.

    Raises:
        InputError: the address is in use or not of this machine.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # asyncio sends small answers at once only on sockets that say their protocol
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"{config.host}:{config.port}: expected an address of this machine that is free, got: "
            f"{reason}",
            hint="--port 0 takes any free port",
            code="http_guard.bad_address",
        ) from None
    return listening


class Startable(Protocol):
    """A server that listens between two calls."""

    async def start(self) -> None:
        """Returns when it listens."""
        ...

    async def stop(self) -> None:
        """Ends it."""
        ...


async def until_stopped(
    server: Startable, started: Callable[[], None], *, end_with_input: bool = False
) -> None:
    """Runs a server until SIGINT or SIGTERM.

    Args:
        server: what is started and stopped.
        started: is called when it listens.
        end_with_input: also end when stdin does, which is when the process at the other end of a
            pipe closes it or is gone, killed or not.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if end_with_input:
        threading.Thread(target=_wait_for_end, args=(loop, stop), daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: Ctrl-C ends asyncio.run
            loop.add_signal_handler(number, stop.set)
    await server.start()
    try:
        started()
        await stop.wait()
    finally:
        await server.stop()


def _wait_for_end(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Sets `stop` at the end of stdin; reads without a buffer, whose lock would outlive the end."""
    with suppress(OSError):  # closed from the start
        while os.read(0, 1024):
            pass
    with suppress(RuntimeError):  # the loop is closed: it has ended already
        loop.call_soon_threadsafe(stop.set)
