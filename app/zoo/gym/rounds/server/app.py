"""The requests of a server of rounds: names to bytes, by GET, HEAD and PUT.

The address of a round is `/rounds/NAME`; its files are below it under the names that they have in
every other storage, so that a plain web server with a round's folder can be read in the same way.
"""

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.http_guard.requests import answer_errors, failures, no_route, read_body
from zoo.gym.rounds.server.served import MOST_NAMES, Served
from zoo.gym.rounds.storage.base import NAMES

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


def build_app(served: Served, *, request_s: float) -> FastAPI:
    """Returns the application, with `request_s` seconds for a body; `Gate` decides who may ask."""
    app = FastAPI(
        title="zoo-gym rounds",
        version="1",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(HTTPBearer(auto_error=False))],
    )
    answer_errors(app, failed="the server cannot read its folder")
    app.add_exception_handler(HTTPException, _no_route)
    _add_reading(app, served)
    _add_writing(app, served, request_s)
    return app


def _add_reading(app: FastAPI, served: Served) -> None:
    @app.get("/rounds", responses=failures())
    async def rounds() -> Rounds:
        """Lists the rounds."""
        found = await run_in_threadpool(served.rounds)
        return Rounds(rounds=[OneRound(name=name, round=id_) for name, id_ in found])

    @app.get("/rounds/{round}/names", responses=failures(404))
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

    files: dict[int | str, dict[str, Any]] = {200: {"content": BYTES}, **failures(404)}

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
        **failures(404, 408, 409, 413, 507),
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
        content = await read_body(request, most, request_s)
        changed = await run_in_threadpool(served.write, role, round_, name, content)
        return Response(status_code=201 if changed else 204)


def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = no_route(request, error)
    is_file = request.url.path.count("/") > 2 and not request.url.path.endswith("/names")
    if error.status_code == 405 and is_file:
        answer.headers["Allow"] = "GET, HEAD, PUT"  # of all its routes, not of the first
    return answer
