"""Runs a server of rounds in this process, beside whatever else its event loop does."""

import asyncio
import os
import secrets
import socket
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from zoo.backends.machine.installing import install_command
from zoo.gym.config.report import first_fault, unknown
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_errors, read_small, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.server.config import ServerConfig
from zoo.gym.rounds.server.gate import Gate, Role
from zoo.gym.rounds.server.served import Served
from zoo.gym.rounds.storage.tokens import keep_token

if TYPE_CHECKING:
    import uvicorn

_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


class CommunityLearningServer:
    """Keeps community rounds about a base for others: `await start()`, `await stop()`.

    It is storage with checks: the log of a round is still written by its maker's key, on any
    machine, and nobody has to trust the server.

    Args:
        base_model: the only model that rounds may be about; any if None.
        config: the folder of the rounds and how to listen; or its fields.

    Attributes:
        url: the address, once it has started.

    Raises:
        InputError: a setting is wrong.
    """

    def __init__(self, base_model: str | None, config: ServerConfig | Mapping[str, object]) -> None:
        self.config = config if isinstance(config, ServerConfig) else server_config(config)
        self.base_model = base_model
        self.url = ""
        self.tokens = tokens_of(self.config.folder)
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listens, and returns when requests are answered.

        Raises:
            NotAvailableError: the extra `serve` is not installed.
            InputError: the address is in use or not of this machine, or a certificate is unusable.
            StorageError: the folder cannot be used.
        """
        if self._task is not None:
            raise InputError("server: expected one that has not started")
        config = self.config
        ensure_folder(config.folder)
        served = Served(config.folder, base=self.base_model, most_bytes=config.most_bytes)
        names = (*config.names, *(_LOCAL_NAMES if config.is_local else ()))
        gate = Gate(frozenset(names), frozenset(config.origins), self.tokens)
        self._server = _server_of(served, gate, config)
        listening = _listen(config)
        port = int(listening.getsockname()[1])
        self.url = f"{config.scheme}://{_shown(config)}:{port}"
        keep_token(self.url, self.tokens[Role.MAKER])
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.005)
        if self._task.done():
            await self.stop()
            raise NotAvailableError(f"{self.url}: expected to start, got an error")

    async def stop(self) -> None:
        """Ends what is being answered, and listens no more."""
        if self._server is None or self._task is None:
            return
        self._server.should_exit = True
        task, self._task = self._task, None
        await task


def server_config(fields: Mapping[str, object]) -> ServerConfig:
    """Returns settings from their fields.

    Raises:
        InputError: one is missing, unknown or wrong; identified.
    """
    for name in fields:
        if name not in ServerConfig.model_fields:
            said = unknown("setting", str(name), ServerConfig.model_fields)
            raise InputError(f"server.{name}: {said}")
    try:
        return ServerConfig.model_validate(dict(fields))
    except ValidationError as error:
        where, said = first_fault(error)
        raise InputError(f"server{f'.{where}' if where else ''}: {said}") from None


def tokens_of(folder: Path) -> dict[Role, str]:
    """Returns the tokens for the rounds in a folder, which are made the first time.

    Raises:
        StorageError: they cannot be kept.
    """
    return {role: _token(token_file(folder, role)) for role in Role}


def token_file(folder: Path, role: Role) -> Path:
    """Returns the file of a token: in the data folder, so that the rounds' can be copied."""
    place = sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return folders().data / "rounds" / "tokens" / place / f"{role}.txt"


def _token(path: Path) -> str:
    with read_errors(path):
        try:
            found = read_small(path, most_bytes=1000).decode().strip()
        except FileNotFoundError:
            found = ""
    if not found:
        found = secrets.token_urlsafe(32)
        ensure_folder(path.parent)
        write_beside(path, f"{found}\n", sync=True)
    return found


def _server_of(served: Served, gate: Gate, config: ServerConfig) -> "uvicorn.Server":
    try:
        from zoo.gym.rounds.server.connections import server_of
    except ModuleNotFoundError as error:
        raise NotAvailableError(
            f"server of rounds: expected the package {error.name}, got nothing",
            hint=install_command("serve"),
        ) from None
    return server_of(served, gate, config)


def _listen(config: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # asyncio sends small answers at once only on sockets that say their protocol
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((config.host, config.port))
        found.listen(128)
    except OSError as error:
        found.close()
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"{config.host}:{config.port}: expected an address of this machine that is free, got: "
            f"{reason}",
            hint="--port 0 takes any free port",
        ) from None
    return found


def _shown(config: ServerConfig) -> str:
    if not config.is_local:
        return config.names[0]
    return f"[{config.host}]" if ":" in config.host else config.host
