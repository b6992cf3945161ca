"""A small server behind the guard, and how tests run any server."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from zoo.gym.errors import StorageError
from zoo.gym.http_guard.config import HttpConfig
from zoo.gym.http_guard.gate import Gate, RefusedError
from zoo.gym.http_guard.run import HttpServer

if TYPE_CHECKING:
    from fastapi import FastAPI

TOKENS = {"reader": "r" * 32, "writer": "w" * 32}
MOST_BYTES = 10


class Server(Protocol):
    """What starts and stops."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


S = TypeVar("S", bound=Server)


@contextmanager
def running(server: S) -> Generator[S]:
    """Runs a server in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def done(act: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(act(), loop).result(30)

    try:
        done(server.start)
        yield server
        done(server.stop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Toy:
    """Says which role asked, takes small bodies, and fails when it is asked to."""

    def __init__(self, **settings: Any) -> None:
        self.config = HttpConfig(**{"port": 0, **settings})
        self.http = HttpServer(self.config)
        self.bodies: list[bytes] = []

    async def start(self) -> None:
        origins = frozenset(self.config.origins)
        self.http.listen("toy", self.app, Gate(self.config.host_names, origins, TOKENS))
        await self.http.start()

    async def stop(self) -> None:
        await self.http.stop()

    def app(self) -> "FastAPI":
        from fastapi import FastAPI, Request

        from zoo.gym.http_guard.requests import answer_errors, read_body

        app = FastAPI()
        answer_errors(app, failed="the toy is broken")

        @app.get("/role")
        async def role(request: Request) -> str:
            return str(request.state.role)

        @app.put("/body")
        async def body(request: Request) -> None:
            self.bodies.append(await read_body(request, MOST_BYTES, self.config.request_s))

        @app.get("/refused")
        async def refused() -> None:
            raise RefusedError(409, "a fork", hint="a spoon")

        @app.get("/broken")
        async def broken() -> None:
            raise StorageError("/secret/folder is full")

        @app.get("/number/{number}")
        async def number(number: int) -> int:
            return number

        return app
