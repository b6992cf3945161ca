"""Requests and responses of a server: bodies with limits, and errors in one form."""

import asyncio
import sys
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from zoo.gym.errors import GymError, InputError
from zoo.gym.http_guard.gate import RefusedError, problem


class Problem(BaseModel):
    """What was wrong."""

    message: str
    hint: str | None


class Failure(BaseModel):
    """The body of every response that is no success."""

    error: Problem


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the responses of a route that are no success: those of all routes, and more."""
    return {status: {"model": Failure} for status in (401, 403, 421, 422, 500, 503, *statuses)}


async def read_body(request: Request, most_bytes: int, request_s: float) -> bytes:
    """Returns the body of a request.

    Raises:
        RefusedError: it is longer than `most_bytes`, or takes more than `request_s` seconds.
    """
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > most_bytes:
        raise RefusedError(413, f"body: expected at most {most_bytes} bytes, got {length[:20]}")
    body = bytearray()
    try:
        async with asyncio.timeout(request_s):
            async for part in request.stream():
                body += part
                if len(body) > most_bytes:
                    raise RefusedError(413, f"body: expected at most {most_bytes} bytes, got more")
    except ClientDisconnect:  # nobody reads the answer
        raise RefusedError(400, "body: expected all of it, the connection ended") from None
    except TimeoutError:
        raise RefusedError(408, f"body: expected all of it within {request_s:g} s") from None
    return bytes(body)


def answer_errors(app: FastAPI, *, failed: str) -> None:
    """Makes an application answer errors as `Failure`.

    Args:
        app: the application.
        failed: what a client reads of an error that is the server's own; its message may name our
            folders, and goes to stderr.
    """

    def refuse(_: Request, error: Exception) -> Response:
        assert isinstance(error, GymError)
        if isinstance(error, RefusedError):
            return failure(error.status, error.message, error.hint)
        if isinstance(error, InputError):
            return failure(422, error.message, error.hint)
        print(f"zoo-gym: error: {error.message}", file=sys.stderr, flush=True)
        return failure(500, failed)

    app.add_exception_handler(GymError, refuse)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, no_route)


def no_route(_: Request, error: Exception) -> Response:
    """Answers a request that fits no route."""
    assert isinstance(error, HTTPException)
    answer = failure(error.status_code, str(error.detail).lower())
    answer.headers.update(error.headers or {})
    return answer


def failure(status: int, message: str, hint: str | None = None) -> Response:
    """Returns a response that is no success."""
    return JSONResponse(problem(message, hint), status)


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    where = ".".join(str(part) for part in error.errors()[0]["loc"])
    return failure(422, f"{where}: expected another value")
