"""Who may ask: looks at Host, Origin and token before anything else of a request is read.

A page in a browser of this machine can send requests to it, under a name of its own (DNS rebinding)
too: hence the lists of hosts and origins beside the token.
"""

import hmac
import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zoo.gym.errors import GymError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

Role = TypeVar("Role")

KEY_HEADER = b"ocp-apim-subscription-key"
"""Where hanzoai's client sends its key, in place of `Authorization: Bearer`."""

UNKNOWN_CALLER = "token: expected one of this server, got none or another"
"""What a request without a token of the server is answered."""


class RefusedError(GymError):
    """A request that is not carried out.

    Attributes:
        status: of the response.
    """

    def __init__(self, status: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, code="http_guard.refused")
        self.status = status


def problem(message: str, hint: str | None = None) -> dict[str, object]:
    """Returns the body of a response that says why a request was refused."""
    return {"error": {"message": message, "hint": hint}}


def problem_response(error: RefusedError) -> tuple[int, bytes]:
    """Returns the status and the body of a refusal."""
    return error.status, json.dumps(problem(error.message, error.hint)).encode()


@dataclass(frozen=True)
class Gate(Generic[Role]):
    """Who may ask.

    Attributes:
        names: of this server, as in the header Host, without a port.
        origins: as in the header Origin.
        tokens: the token of each role; what a role allows is the application's matter.
        anybody: the role of a request without a token, if such requests are let in.
        open_paths: paths that need no token, such as that of a health check.
        refusal: returns the status and the body of a refusal.
    """

    names: frozenset[str]
    origins: frozenset[str]
    tokens: Mapping[Role, str]
    anybody: Role | None = None
    open_paths: frozenset[str] = frozenset()
    refusal: Callable[[RefusedError], tuple[int, bytes]] = problem_response

    def role_of(self, headers: Mapping[bytes, bytes], path: str = "") -> Role | None:
        """Returns the role of a request; None if its path is open.

        Raises:
            RefusedError: it may not ask.
        """
        self.check_names(headers)
        if path in self.open_paths:
            return None
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        given = given if scheme.lower() == b"bearer" else headers.get(KEY_HEADER, b"")
        if given:
            for role, token in self.tokens.items():
                if hmac.compare_digest(_digest(token.encode()), _digest(given.strip())):
                    return role
        if self.anybody is not None:
            return self.anybody
        raise RefusedError(401, UNKNOWN_CALLER)

    def check_names(self, headers: Mapping[bytes, bytes]) -> None:
        """Checks what a request calls this server, and the page that it comes from.

        Raises:
            RefusedError: it is another server's, or of a page that may not ask.
        """
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name, colon, port = host.rpartition(":")
        if (name if colon and port.isdigit() else host) not in self.names:
            raise RefusedError(421, f"host: expected a name of this server, got {host[:80]!r}")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1") not in self.origins:
            raise RefusedError(403, "origin: expected no page of a browser, got one")


class Gated:
    """An application behind a gate; `scope["state"]["role"]` is then the role."""

    def __init__(self, app: "ASGIApp", gate: Gate[Any]) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Lets a request in, or answers why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        try:
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                self._gate.check_names(headers)  # a browser sends no token with it
                await _permit(headers, send)
                return
            if headers.get(b"origin", b"").decode("latin-1") in self._gate.origins:
                send = _readable_by(headers[b"origin"], send)
            role = self._gate.role_of(headers, scope["path"])
        except RefusedError as error:
            await _answer(*self._gate.refusal(error), send)
            return
        scope.setdefault("state", {})["role"] = role
        await self._app(scope, receive, send)


def _readable_by(origin: bytes, send: "Send") -> "Send":
    """Returns a `send` whose responses the scripts of a page can read."""

    async def send_readable(message: "Message") -> None:
        if message["type"] == "http.response.start":
            headers = [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return send_readable


async def _permit(headers: Mapping[bytes, bytes], send: "Send") -> None:
    """Answers the question of a browser whether a page may ask (CORS preflight)."""
    answer = [
        (b"access-control-allow-origin", headers.get(b"origin", b"")),
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, DELETE"),
        (b"access-control-allow-headers", headers.get(b"access-control-request-headers", b"")),
        (b"access-control-max-age", b"600"),
        (b"vary", b"Origin"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": answer})
    await send({"type": "http.response.body", "body": b""})


async def _answer(status: int, body: bytes, send: "Send") -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    if body:
        headers.append((b"content-type", b"application/json"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine, reachable from it alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _digest(token: bytes) -> bytes:
    return sha256(token).digest()
