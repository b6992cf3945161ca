"""The server of the page: every request needs the token or the cookie that it was traded for."""

import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import NotAvailableError
from zoo.gym.http_guard.config import HttpConfig
from zoo.gym.http_guard.gate import Gate, RefusedError, problem
from zoo.gym.http_guard.run import listen_at, stored_token
from zoo.gym.paths import folders

if TYPE_CHECKING:
    import socket

    from aiohttp import web

COOKIE = "zoo-gym-webui"
GRACE_S = 2.0
"""How long open pages have to close when the server ends."""
PAGE = Path(__file__).parent / "page.html"
OWNER = "owner"

_APP = shlex.join([sys.executable, "-P", "-m", "zoo.gym.tui"])

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


class WebServer:
    """Shows the app to browsers of this machine: `listen`, `await start()`, `await stop()`.

    Args:
        port: 0 takes any free one.

    Attributes:
        url: the address with the token in it, once it listens.
        token_file: where the token is kept.
    """

    def __init__(self, port: int) -> None:
        self.config = HttpConfig(port=port)
        self.token_file = folders().data / "webui.token"
        self.url = ""
        self._session = secrets.token_urlsafe(32)
        self._socket: socket.socket | None = None
        self._runner: web.AppRunner | None = None

    def listen(self) -> None:
        """Takes the address.

        Raises:
            NotAvailableError: the extra `web` is not installed.
            InputError: the address is in use.
            StorageError: the token cannot be kept.
        """
        token = stored_token(self.token_file)
        try:
            from aiohttp import web

            self._runner = web.AppRunner(self._application(token), shutdown_timeout=GRACE_S)
        except ModuleNotFoundError as error:
            raise NotAvailableError(
                f"zoo-gym webui: expected the package {error.name}, got nothing",
                hint=install_command("web"),
                code="webui.missing_package",
            ) from None
        self._socket = listen_at(self.config)
        self.url = f"{self.config.url(int(self._socket.getsockname()[1]))}/?token={token}"

    async def start(self) -> None:
        """Returns when pages are answered."""
        from aiohttp import web

        assert self._runner is not None, "listen comes first"
        assert self._socket is not None
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket).start()

    async def stop(self) -> None:
        """Ends the apps of all pages, and listens no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _application(self, token: str) -> "web.Application":
        from aiohttp import web
        from textual_serve.server import Server

        served = Server(_APP)
        tokens = {OWNER: token, "session": self._session}
        gate = Gate(self.config.host_names, frozenset(), tokens)

        @web.middleware
        async def guarded(request: "web.Request", handler: Handler) -> "web.StreamResponse":
            try:
                role = gate_for(gate, request).role_of(_headers(request))
            except RefusedError as error:
                return web.json_response(problem(error.message, error.hint), status=error.status)
            if role == OWNER and request.method == "GET" and "token" in request.query:
                return self._admitted(request)
            return await handler(request)

        async def page(_: "web.Request") -> "web.StreamResponse":
            return web.FileResponse(PAGE)

        app = web.Application(middlewares=[guarded])
        app.add_routes(
            [
                web.get("/", page),
                web.get("/ws", served.handle_websocket),
                web.get("/download/{key}", served.handle_download),
                web.static("/static", served.statics_path),
            ]
        )
        return app

    def _admitted(self, request: "web.Request") -> "web.StreamResponse":
        """Trades the token in an address for a cookie, so that it leaves the address."""
        from aiohttp import web

        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/"})
        answer.set_cookie(COOKIE, self._session, httponly=True, samesite="Strict", path="/")
        return answer


def gate_for(gate: Gate[Any], request: "web.Request") -> Gate[Any]:
    """Returns the gate for a request: the only page that may ask is one of the same address."""
    return replace(gate, origins=frozenset({f"http://{request.headers.get('Host', '')}"}))


def _headers(request: "web.Request") -> dict[bytes, bytes]:
    """Returns the headers as the gate reads them, with the token of address or cookie."""
    headers = {
        name.lower().encode(): value.encode("utf-8", "surrogateescape")
        for name, value in request.headers.items()
    }
    given = request.query.get("token") or request.cookies.get(COOKIE)
    if given:
        headers.setdefault(b"authorization", b"Bearer " + given.encode("utf-8", "surrogateescape"))
    return headers
