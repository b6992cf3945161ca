"""Errors in the form of OpenAI's API."""

import sys
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from zoo.gym.config.report import shown, wanted
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.serving.engine import BusyError, FailedError
from zoo.gym.serving.wire import problem

REPORTED: tuple[type[Exception], ...] = (
    GymError,
    HTTPException,
    RequestValidationError,
    ValueError,
    Exception,  # a fault of ours: answered in the same form, and logged by the server
)
"""The errors that have a form."""

NO_ROUTE = "Not Found"
"""What Starlette says of a path that has no route."""

FAILED = "the answer could not be computed"
"""What a client reads of an error of ours; what it was goes to stderr."""


def answer_error(request: Request, error: Exception) -> Response:
    """Answers a request that is no success."""
    status, body = problem_of(error)
    if isinstance(error, HTTPException) and error.detail == NO_ROUTE:
        body = problem(_no_route(request), param=None, code=None)
    headers = {"Retry-After": "1"} if status == 429 else getattr(error, "headers", None)
    return JSONResponse(body, status, headers)


KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (BusyError, 429, "rate_limit_error"),
    (FailedError, 500, "server_error"),
    (NotAvailableError, 404, "invalid_request_error"),
    (InputError, 400, "invalid_request_error"),
    (GymError, 500, "server_error"),
)
"""The status and the type of each error of ours; the first that fits counts."""


def _no_route(request: Request) -> str:
    """Returns what is said of a path that has no route.

    A user reads the same of each path, those of the owner among them.
    """
    caller = request.state.role
    if caller is not None and caller.variant is not None:
        return NO_ROUTE.lower()
    path = request.scope["path"]
    beside = {**request.scope, "path": f"/v1{path}"}
    is_v1 = any(route.matches(beside)[0] != Match.NONE for route in request.app.routes)
    return f"no such route: {path:.100}" + ("; routes begin with /v1" if is_v1 else "")


def problem_of(error: Exception) -> tuple[int, dict[str, Any]]:
    """Returns the status and the body that say what was wrong."""
    if isinstance(error, HTTPException):
        return error.status_code, problem(str(error.detail).lower(), param=None, code=None)
    if isinstance(error, RequestValidationError):
        fault = error.errors()[0]
        name = str(fault["loc"][-1])
        message = f"{name}: expected {wanted(fault)}, got {shown(fault['input'])}"
        return 400, problem(message, param=name, code="serving.bad_request")
    if not isinstance(error, GymError):
        if not isinstance(error, ValueError):
            return 500, problem(FAILED, kind="server_error", param=None, code="serving.failed")
        wrong, colon, _ = str(error).partition(":")
        field = wrong if colon and wrong.isidentifier() else None
        return 400, problem(str(error), param=field, code="serving.bad_request")
    status, kind = next((s, k) for cls, s, k in KINDS if isinstance(error, cls))
    if isinstance(error, RefusedError):
        status, kind = error.status, "invalid_request_error"
    message = error.message if error.hint is None else f"{error.message}; {error.hint}"
    if status == 500:  # its message may name folders of ours
        print(f"zoo-gym: error: {message}", file=sys.stderr, flush=True)
        message = FAILED
    if status == 404 and error.code not in ("serving.no_such_file", "serving.no_such_job"):
        named = str(getattr(error, "param", "model"))
        return status, problem(message, kind=kind, param=named, code="model_not_found")
    param: str | None = getattr(error, "param", None)
    return status, problem(message, kind=kind, param=param, code=error.code)
