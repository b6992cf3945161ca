"""The client of one model on one server: `chat(messages, sampling)` and nothing else.

A key is sent to its own server alone: no redirect is followed, and plain HTTP is for this machine.
Parameters that a server refuses are left out from then on, and listed in `dropped`.
"""

import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from zoo.backends.openai.body import Body
from zoo.backends.openai.failure import RefusedParameterError, TryAgainError, failure, has_version
from zoo.backends.openai.reply import ErrorInside, Reply, is_page, read_stream, read_whole
from zoo.backends.openai.retry import NOT_RUNNING, with_retries
from zoo.backends.openai.secrets import NO_KEY, Secret
from zoo.backends.openai.text import well_formed
from zoo.backends.sampling import Sampling
from zoo.core.errors import InputError, NotAvailableError

if TYPE_CHECKING:
    from httpx2 import Client, Response

MOST_BYTES = 16_000_000
"""The largest response that is read."""

MOST_LIST_BYTES = 4_000_000
"""The largest list of models that is read."""

STALL_S = 180.0
"""How long a server may send nothing, or nothing of an answer that has begun."""

QUEUE_S = 600.0
"""How long a server may send only signs of life before an answer begins: busy ones keep a request
so long in a queue."""

TOKEN_S = 2.0
"""How long a token of the limit may take, for the limit of a whole answer."""

CONNECT_S = 20.0

PARTS_A_TOKEN, MORE_PARTS = 4, 64
"""How many parts of a stream a token of the limit may take, and how many more are read."""

Messages = Sequence[Mapping[str, str]]
"""Turns with `role` and `content`."""

_OTHER_NAME = {"max_tokens": "max_completion_tokens"}
"""Parameters that newer servers know by another name."""


@dataclass(frozen=True)
class Endpoint:
    """A model on a server.

    Attributes:
        name: what the user calls it: `deepseek/v3.1-terminus`.
        url: the address before `/chat/completions`.
        model: the model's name on the server.
        stream: whether answers are sent as they are written; a stall is then seen early.
        stall_s: how long the server may send nothing, in seconds; comments and empty events of an
            answer that has begun are nothing.
        queue_s: how long it may send only these before an answer begins.
    """

    name: str
    url: str
    model: str
    stream: bool = True
    stall_s: float = STALL_S
    queue_s: float = QUEUE_S

    def __post_init__(self) -> None:
        """Checks the address.

        Raises:
            InputError: it is no address of a server, contains a password, or is plain HTTP to
                another machine.
        """
        check_url(self.url)


def check_url(url: str) -> None:
    """Refuses an address that a key must not be sent to.

    Raises:
        InputError: see `Endpoint`.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        raise InputError(
            f"url: expected https://HOST/v1, got {url.partition('@')[2] or url!r}",
            code="openai.bad_url",
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(
            f"url: expected an address without user, password, query or fragment: {host}",
            hint="a key is read from the environment variable that the provider names",
            code="openai.bad_url",
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise InputError(
            f"url: http://{host}: expected https, got plain HTTP to another machine",
            hint="anyone on the way could read the key and the tasks",
            code="openai.plain_http",
        )


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine; a name other than localhost is not looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class ChatModel:
    """A model behind a `/v1/chat/completions`. Thread-safe.

    Args:
        endpoint: the model and its server.
        key: what the server knows the user by.
        tell: called with a sentence when a parameter is left out.
        pause: waits between attempts.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: Secret = NO_KEY,
        *,
        tell: Callable[[str], None] | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.endpoint = endpoint
        self.dropped: set[str] = set()
        self._key, self._tell, self._pause = key, tell, pause
        self._where = f"{endpoint.name} at {urlsplit(endpoint.url).netloc}"
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._bodies: set[Body] = set()
        self._client: Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            self._client.close()

    def abandon(self) -> None:
        """Ends answers that are on their way, in any thread: one that has not begun, later."""
        with self._lock:
            self._is_abandoned = True
            for body in self._bodies:
                body.abandon()

    def chat(
        self, messages: Messages, sampling: Sampling, *, schema: Mapping[str, object] | None = None
    ) -> Reply:
        """Returns the answer to messages, after as many attempts as it takes.

        Args:
            messages: the turns.
            sampling: how the answer is drawn; `stop_ids` are not used.
            schema: a JSON schema that the answer should have, where the server supports it.

        Raises:
            NotAvailableError: there is no server, or it refuses the key or the model.
            InterruptedRunError: the quota is spent, or the server does not answer as it should: an
                answer that goes on beyond its limit is not read to its end.
            InputError: the server refuses the request.
        """
        return with_retries(
            lambda _: self.attempt(messages, sampling, schema=schema), pause=self._pause
        )

    def attempt(
        self,
        messages: Messages,
        sampling: Sampling,
        *,
        schema: Mapping[str, object] | None = None,
        seed: int | None = None,
    ) -> Reply:
        """Returns the answer to messages with one call, or a few if parameters are refused.

        Args:
            messages: see `chat`.
            sampling: see `chat`.
            schema: see `chat`.
            seed: a number for servers that can draw the same answer again.

        Raises:
            TryAgainError: it failed in a way that may pass.
            GymError: see `chat`.
        """
        while True:
            body = self._body(messages, sampling, schema, seed)
            try:
                return self._clean(self._call(body, sampling.max_new_tokens))
            except RefusedParameterError as error:
                self._drop(error)

    def listed_models(self) -> list[str] | None:
        """Returns the models that the server lists, None if it lists none; no answer is drawn.

        Raises:
            NotAvailableError: there is no server.
        """
        import httpx2

        url = f"{self.endpoint.url.rstrip('/')}/models"
        limit = min(CONNECT_S, self.endpoint.stall_s)
        headers = self._key.headers()
        try:
            with self._open().stream("GET", url, headers=headers, timeout=limit) as response:
                if response.status_code != 200:
                    return None
                body = Body(response, self._where, MOST_LIST_BYTES, limit)
                listed = json.loads(b"".join(body.chunks()))
        except httpx2.ConnectError as error:
            text = self._key.clean(str(error))
            raise NotAvailableError(
                f"{self._where}: cannot be reached: {text}",
                hint=NOT_RUNNING,
                code="openai.unreachable",
            ) from None
        except (httpx2.HTTPError, TryAgainError, ValueError, RecursionError):
            return None
        try:
            return [self._shown(str(entry["id"])) for entry in listed["data"]] if listed else None
        except (TypeError, KeyError):
            return None

    def _shown(self, name: str) -> str:
        """Returns what a server calls a model, fit for a message."""
        return "".join(
            character if character.isprintable() else " " for character in self._key.clean(name)
        )

    def _body(
        self,
        messages: Messages,
        sampling: Sampling,
        schema: Mapping[str, object] | None,
        seed: int | None,
    ) -> dict[str, object]:
        body: dict[str, object] = {
            "model": self.endpoint.model,
            "messages": [
                {key: well_formed(text) for key, text in message.items()} for message in messages
            ],
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_new_tokens,
        }
        if sampling.top_p != 1:
            body["top_p"] = sampling.top_p
        if sampling.top_k:
            body["top_k"] = sampling.top_k
        if sampling.stop_strings:
            body["stop"] = list(sampling.stop_strings)
        if seed is not None:
            body["seed"] = seed
        if schema is not None:
            form = {"name": "answer", "schema": dict(schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if is_loopback(urlsplit(self.endpoint.url).hostname or ""):
            body["cache_prompt"] = True  # llama.cpp: a prefix is read once; others ignore it
        if self.endpoint.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        for name in self.dropped & body.keys():
            value = body.pop(name)
            if name in _OTHER_NAME:
                body[_OTHER_NAME[name]] = value
        return body

    def _drop(self, error: RefusedParameterError) -> None:
        """Leaves a parameter out from now on; the limit of an answer cannot be left out."""
        if error.name in _OTHER_NAME.values():
            raise InputError(
                f"{error.message}: expected a server that limits the length of answers",
                code="openai.parameter_refused",
            ) from None
        with self._lock:
            is_new = error.name not in self.dropped
            self.dropped.add(error.name)
        if is_new and self._tell is not None:
            instead = _OTHER_NAME.get(error.name)
            what = f"sent as {instead}" if instead else "left out from now on, without effect"
            self._tell(f"{self._where}: {error.name} is not accepted: it is {what}")

    def _call(self, body: Mapping[str, object], most_tokens: int) -> Reply:
        import httpx2

        sent = frozenset(body) - {"model", "messages", "stream"}
        headers = {"Accept-Encoding": "gzip, deflate", **self._key.headers()}
        url = f"{self.endpoint.url.rstrip('/')}/chat/completions"
        try:
            with self._open().stream("POST", url, json=body, headers=headers) as response:
                return self._read(response, sent, most_tokens)
        except httpx2.TimeoutException as error:
            reached = not isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout)
            message = f"{self._where}: no answer within {self.endpoint.stall_s:g} s"
            raise TryAgainError(message, billed=reached, reached=reached) from None
        except httpx2.ConnectError as error:
            text = self._key.clean(str(error))
            raise TryAgainError(
                f"{self._where}: cannot be reached: {text}", reached=False
            ) from None
        except httpx2.TransportError as error:
            text = self._key.clean(str(error)) or type(error).__name__
            raise TryAgainError(
                f"{self._where}: the connection broke: {text}", billed=True
            ) from None
        except httpx2.HTTPError as error:
            text = self._key.clean(str(error))
            raise TryAgainError(f"{self._where}: not readable: {text}", billed=True) from None

    def _read(self, response: "Response", sent: frozenset[str], most_tokens: int) -> Reply:
        headers = {key.lower(): value for key, value in response.headers.items()}
        status = response.status_code
        is_stream = status == 200 and "event-stream" in headers.get("content-type", "")
        most_parts = PARTS_A_TOKEN * most_tokens + MORE_PARTS
        try:
            with self._body_of(response, most_tokens, is_stream=is_stream) as body:
                if is_stream:
                    lines = body.lines()
                    progressed = partial(body.progressed, self.endpoint.stall_s)
                    reply = read_stream(lines, self._where, most_parts, progressed)
                    body.drain(lines)
                    return reply
                text = b"".join(body.chunks()).decode("utf-8", "replace")
            if status == 200 and is_page(text) and not has_version(self.endpoint.url):
                status = 404  # the page of a program, not one of a proxy that is shown for a while
            if status == 200:
                return read_whole(text, self._where)
        except ErrorInside as error:
            status, text = error.status, error.body
        request = (sent, self._key.clean, self.endpoint.url)
        raise failure(status, headers, text, self._where, *request) from None

    @contextmanager
    def _body_of(
        self, response: "Response", most_tokens: int, *, is_stream: bool
    ) -> Generator[Body]:
        """Yields the body of a response, which `abandon` can end."""
        queue_s = max(self.endpoint.queue_s, self.endpoint.stall_s)
        ends_s = queue_s + TOKEN_S * most_tokens
        body = Body(response, self._where, MOST_BYTES, ends_s, queue_s if is_stream else None)
        with self._lock:
            self._bodies.add(body)
            if self._is_abandoned:
                body.abandon()
        try:
            yield body
        finally:
            with self._lock:
                self._bodies.remove(body)

    def _clean(self, reply: Reply) -> Reply:
        clean = self._key.clean
        return replace(
            reply,
            text=clean(reply.text),
            reasoning=clean(reply.reasoning),
            finish=clean(reply.finish),
            model=clean(reply.model),
        )

    def _open(self) -> "Client":
        with self._lock:
            if self._client is None:
                self._client = _client(self.endpoint)
            return self._client


def _client(endpoint: Endpoint) -> "Client":
    import httpx2

    local = is_loopback(urlsplit(endpoint.url).hostname or "")
    # a proxy of the environment must not see what is for this machine
    options: dict[str, Any] = {"trust_env": not local, "follow_redirects": False}
    if endpoint.url.startswith("http:"):
        options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loads no certificates
    timeout = httpx2.Timeout(endpoint.stall_s, connect=min(CONNECT_S, endpoint.stall_s))
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32)
    return httpx2.Client(timeout=timeout, limits=limits, **options)
