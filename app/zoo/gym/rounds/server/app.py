"""The requests of a server of rounds: names to bytes, by GET, HEAD and PUT.

The address of a round is `/rounds/NAME`; its files are below it under the names that they have in
every other storage, so that a plain web server with a round's folder can be read in the same way.
"""

import asyncio
import sys
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from zoo.gym.errors import GymError, InputError
from zoo.gym.rounds.server.gate import problem
from zoo.gym.rounds.server.refused import RefusedError
from zoo.gym.rounds.server.served import MOST_NAMES, Served
from zoo.gym.rounds.storage.names import NAMES

BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
BODY = {"requestBody": {"required": True, "content": BYTES}}

Round = Annotated[str, InPath(alias="round", pattern="^[a-z0-9][a-z0-9._-]{0,63}$")]
Name = Annotated[str, InPath(pattern=f"^({NAMES})$", max_length=200)]
Folder = Annotated[str, Query(pattern="^(inbox|log|witness|chunks)$")]
After = Annotated[str, Query(max_length=200)]


class OneRound(BaseModel):
    """A round of this server."""

    name: str
    round: str


class Rounds(BaseModel):
    """The rounds of this server."""

    rounds: list[OneRound]


class Names(BaseModel):
    """Names of files, and whether there are more."""

    names: list[str]
    more: bool


class Problem(BaseModel):
    """What was wrong."""

    message: str
    hint: str | None


class Failure(BaseModel):
    """The body of every response that is no success."""

    error: Problem


def _fails(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Failure} for status in (401, 403, 421, 422, 500, 503, *statuses)}


def build_app(served: Served, *, request_s: float) -> FastAPI:
    """Returns the application; who may ask is decided before it.

    Args:
        served: the rounds.
        request_s: seconds for the body of a request.
    """
    app = FastAPI(
        title="zoo-gym rounds",
        version="1",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(HTTPBearer(auto_error=False))],
    )
    app.add_exception_handler(GymError, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_route)
    _add_reading(app, served)
    _add_writing(app, served, request_s)
    return app


def _add_reading(app: FastAPI, served: Served) -> None:
    @app.get("/rounds", responses=_fails())
    async def rounds() -> Rounds:
        """Lists the rounds."""
        found = await run_in_threadpool(served.rounds)
        return Rounds(rounds=[OneRound(name=name, round=id_) for name, id_ in found])

    @app.get("/rounds/{round}/names", responses=_fails(404))
    async def names(round_: Round, folder: Folder, after: After = "") -> Names:
        """Lists names below a folder of a round, in order, from the one after `after` on."""
        found = await run_in_threadpool(served.names, round_, folder, after)
        return Names(names=found, more=len(found) == MOST_NAMES)

    @app.api_route(
        "/rounds/{round}/names", methods=["HEAD", "PUT", "DELETE"], include_in_schema=False
    )
    async def no_file() -> None:
        """Keeps the list from being taken for a file."""
        raise HTTPException(405, headers={"Allow": "GET"})

    files: dict[int | str, dict[str, Any]] = {200: {"content": BYTES}, **_fails(404)}

    @app.get("/rounds/{round}/{name:path}", responses=files, response_class=Response)
    async def read(round_: Round, name: Name) -> Response:
        """Returns the bytes of a file."""
        found = await run_in_threadpool(served.read, round_, name)
        if found is None:
            raise RefusedError(404, f"{name}: expected a file of the round, got nothing")
        return Response(found, media_type="application/octet-stream")

    @app.head("/rounds/{round}/{name:path}", responses=files, response_class=Response)
    async def size(round_: Round, name: Name) -> Response:
        """Returns the size of a file."""
        found = await run_in_threadpool(served.size, round_, name)
        if found is None:
            raise RefusedError(404, f"{name}: expected a file of the round, got nothing")
        headers = {"content-length": str(found)}
        return Response(headers=headers, media_type="application/octet-stream")


def _add_writing(app: FastAPI, served: Served, request_s: float) -> None:
    stored: dict[int | str, dict[str, Any]] = {
        201: {"description": "stored"},
        204: {"description": "there already"},
        **_fails(404, 408, 409, 413, 507),
    }

    @app.put(
        "/rounds/{round}/{name:path}",
        status_code=201,
        responses=stored,
        response_class=Response,
        openapi_extra=BODY,
    )
    async def write(round_: Round, name: Name, request: Request) -> Response:
        """Stores a file, durably, before it answers."""
        role = request.state.role
        most = served.most(role, name)
        content = await _body(request, most, request_s)
        changed = await run_in_threadpool(served.write, role, round_, name, content)
        return Response(status_code=201 if changed else 204)


async def _body(request: Request, most: int, request_s: float) -> bytes:
    """Returns the body of a request."""
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > most:
        raise RefusedError(413, f"body: expected at most {most} bytes, got {length[:20]}")
    found = bytearray()
    try:
        async with asyncio.timeout(request_s):
            async for part in request.stream():
                found += part
                if len(found) > most:
                    raise RefusedError(413, f"body: expected at most {most} bytes, got more")
    except ClientDisconnect:  # nobody reads the answer
        raise RefusedError(400, "body: expected all of it, the connection ended") from None
    except TimeoutError:
        raise RefusedError(408, f"body: expected all of it within {request_s:g} s") from None
    return bytes(found)


def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, GymError)
    if isinstance(error, RefusedError):
        return _said(error.status, error.message, error.hint)
    if isinstance(error, InputError):
        return _said(422, error.message, error.hint)
    print(f"zoo-gym: error: {error.message}", file=sys.stderr, flush=True)  # names our folders
    return _said(500, "the server cannot read its folder")


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    where = ".".join(str(part) for part in error.errors()[0]["loc"])
    return _said(422, f"{where}: expected another value")


def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    found = _said(error.status_code, str(error.detail).lower())
    found.headers.update(error.headers or {})
    is_file = request.url.path.count("/") > 2 and not request.url.path.endswith("/names")
    if error.status_code == 405 and is_file:
        found.headers["Allow"] = "GET, HEAD, PUT"  # of all its routes, not of the first
    return found


def _said(status: int, message: str, hint: str | None = None) -> Response:
    return JSONResponse(problem(message, hint), status)
