"""Runs a server of rounds in this process, beside whatever else its event loop does."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from zoo.gym.config.report import first_fault, unknown
from zoo.gym.errors import InputError
from zoo.gym.http_guard.gate import Gate
from zoo.gym.http_guard.run import HttpServer, stored_token
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.server.config import Role, ServerConfig
from zoo.gym.rounds.server.served import Served
from zoo.gym.rounds.storage.http import keep_token

if TYPE_CHECKING:
    from fastapi import FastAPI


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
        StorageError: the tokens, which are made the first time, cannot be kept.
    """

    def __init__(self, base_model: str | None, config: ServerConfig | Mapping[str, object]) -> None:
        self.config = config if isinstance(config, ServerConfig) else server_config(config)
        self.base_model = base_model
        self.url = ""
        folder = self.config.folder
        self.tokens = {role: stored_token(token_file(folder, role)) for role in Role}
        self._http = HttpServer(self.config)

    async def start(self) -> None:
        """Listens, and returns when requests are answered.

        Raises:
            NotAvailableError: the extra `serve` is not installed.
            InputError: the address is in use or not of this machine, or a certificate is unusable.
            StorageError: the folder cannot be used.
        """
        if self._http.has_started:
            raise InputError(
                "server: expected one that has not started", code="rounds.server_started"
            )
        config = self.config
        ensure_folder(config.folder)
        served = Served(config.folder, base=self.base_model, most_bytes=config.most_bytes)
        gate = Gate(config.host_names, frozenset(config.origins), self.tokens)

        def build() -> "FastAPI":
            from zoo.gym.rounds.server.app import build_app

            return build_app(served, request_s=config.request_s)

        self._http.listen("server of rounds", build, gate)
        self.url = self._http.url
        keep_token(self.url, self.tokens[Role.MAKER])
        await self._http.start()

    async def stop(self) -> None:
        """Ends what is being answered, and listens no more."""
        await self._http.stop()


def server_config(fields: Mapping[str, object]) -> ServerConfig:
    """Returns settings from their fields.

    Raises:
        InputError: one is missing, unknown or wrong; identified.
    """
    for name in fields:
        if name not in ServerConfig.model_fields:
            said = unknown("setting", str(name), ServerConfig.model_fields)
            raise InputError(f"server.{name}: {said}", code="rounds.server_setting")
    try:
        return ServerConfig.model_validate(dict(fields))
    except ValidationError as error:
        where, said = first_fault(error)
        raise InputError(
            f"server{f'.{where}' if where else ''}: {said}", code="rounds.server_setting"
        ) from None


def token_file(folder: Path, role: Role) -> Path:
    """Returns the file of a token: in the data folder, so that the rounds' can be copied."""
    place = sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return folders().data / "rounds" / "tokens" / place / f"{role}.txt"
