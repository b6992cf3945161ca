"""The server of the chat screen: `zoo-gym serve` in a process of its own, and answers from it.

The process listens on 127.0.0.1 alone, and ends with this app: its stdin is a pipe from here.
Threads fill `ChatServer` and `Answer`, and the screen reads them some times a second: nothing here
waits in the event loop.
"""

import json
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from zoo.gym.errors import GymError, NotAvailableError
from zoo.gym.jobs.command import Command, end_command, start_command
from zoo.gym.paths import folders

ServerState: TypeAlias = Literal["off", "loading", "ready", "failed"]
Message: TypeAlias = Mapping[str, str]

CONNECT_S = 600.0
"""Seconds without a byte after which an answer has failed; a queue may be before it."""

MOST_NOTES = 20

FEWEST_TIMED = 8
"""Some tokens may come in one piece: a speed of fewer would say little."""


class ChatServer:
    """A server of a base and its fine-tunes: `start()`, `end()`.

    Args:
        base: the base's name.
        variants: what is served besides runs and stored variants of the base: sources by name.

    Attributes:
        state: whether it loads or answers; `failed` has an `error`.
        url: the address, once it is ready.
        name: what requests call the base, once it is ready.
        error: why it has ended.
        warnings: what it warned of.
    """

    def __init__(self, base: str, variants: Mapping[str, str]) -> None:
        self.base, self.variants = base, dict(variants)
        self.state: ServerState = "off"
        self.url = self.name = ""
        self.error: GymError | None = None
        self.warnings: list[str] = []
        self._process: Command | None = None
        self._ended = False
        self._lock = threading.Lock()

    @property
    def words(self) -> list[str]:
        """The command that a user would start it with, without `zoo-gym`."""
        named = [f"--variant={name}={source}" for name, source in self.variants.items()]
        return ["serve", "--model", self.base, *named, "--port", "0", "--offline"]

    @property
    def command(self) -> str:
        """The whole command, as a user would type it."""
        return shlex.join(["zoo-gym", *self.words])

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Starts it, and returns at once."""
        self.state = "loading"
        threading.Thread(target=self._run, daemon=True).start()

    def end(self) -> None:
        """Ends it at once; it has nothing to lose."""
        with self._lock:
            self._ended, process = True, self._process
        if process is not None:
            end_command(process)
        self.state = "off"

    def _run(self) -> None:
        """Starts the process, reads what it prints, and notes its end."""
        try:
            with self._lock:
                if self._ended:
                    return
                process = self._process = start_command(
                    [*self.words, "--end-with-input", "--json"],
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.PIPE,
                )
        except GymError as error:
            self._fail(error)
            return
        last = "no output"
        with suppress(OSError, ValueError):  # closed by `end`
            for raw in cast("Iterator[bytes]", process.stdout):
                line = raw.decode("utf-8", "replace").strip()
                last = line or last
                self.read_line(line)
        if not self._ended:
            words = f"zoo-gym serve ended: {last}"
            self._fail(self.error or NotAvailableError(words, code="tui.server_ended"))

    def _fail(self, error: GymError) -> None:
        self.error = error
        self.state = "failed"

    def read_line(self, line: str) -> None:
        """Reads a line that the process printed; those with the token in them are not kept."""
        if line.startswith("warning:"):
            del self.warnings[:-MOST_NOTES]
            self.warnings.append(line.removeprefix("warning:").strip())
        if not line.startswith("{"):
            return
        with suppress(ValueError, KeyError, TypeError):
            value: dict[str, Any] = json.loads(line)
            if error := value.get("error"):
                self.error = GymError(error["message"], hint=error["hint"], code=error["code"])
            else:
                self.url, self.name = str(value["url"]), str(value["model"])
                self.state = "ready"


@dataclass
class Answer:
    """An answer, which a thread fills: `ask`, and `stop` from any thread.

    Attributes:
        text: the answer so far.
        reasoning: what the model thought before it, so far.
        tokens: how many tokens it has, or pieces until it is complete.
        first_s: seconds to the first token; None before it.
        last_s: seconds to the last one so far.
        finish: why it has ended: `stop`, `length`, `stopped` by the user, `error`; None before.
        error: what went wrong.
    """

    text: str = ""
    reasoning: str = ""
    tokens: int = 0
    first_s: float | None = None
    last_s: float = 0.0
    finish: str | None = None
    error: GymError | None = None
    _socket: socket.socket | None = field(default=None, repr=False)
    _reason: str | None = None
    _stopped: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether it ended by itself, and can be compared."""
        return self.finish in {"stop", "length"}

    @property
    def tokens_per_s(self) -> float | None:
        """The speed behind the first token; None with too few tokens to say."""
        passed = self.last_s - (self.first_s or 0.0)
        return (self.tokens - 1) / passed if self.tokens >= FEWEST_TIMED and passed > 0 else None

    def ask(self, server: ChatServer, body: Mapping[str, object]) -> None:
        """Starts to ask, and returns at once."""
        threading.Thread(target=self._ask, args=(server.url, body), daemon=True).start()

    def stop(self) -> None:
        """Closes the request, so that the server computes nothing more for it."""
        if self.finish is not None:
            return
        self._stopped = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # a thread is reading: it gets the end
        self.finish = "stopped"

    def fail(self, error: GymError) -> None:
        """Ends it with an error."""
        self.error = error
        self.finish = "error"

    def _ask(self, url: str, body: Mapping[str, object]) -> None:
        begun = time.monotonic()
        try:
            for piece in self._pieces(url, body):
                if self._stopped:
                    return
                self._add(piece, time.monotonic() - begun)
            if not self._stopped:
                self._end()
        except GymError as error:
            self._end_badly(error)
        except (OSError, HTTPException, ValueError) as error:
            reason = str(error) or type(error).__name__
            self._end_badly(NotAvailableError(f"no answer: {reason}", code="tui.no_answer"))

    def _end(self) -> None:
        if self._reason is None:
            raise NotAvailableError("expected a whole answer, got a part of it", code="tui.cut")
        self.finish = self._reason

    def _end_badly(self, error: GymError) -> None:
        if not self._stopped:
            self.fail(error)

    def _pieces(self, url: str, body: Mapping[str, object]) -> "Iterator[dict[str, Any]]":
        """Yields the parts of a stream.

        Raises:
            GymError: the server refused the request, or failed.
        """
        where = urlsplit(url)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=CONNECT_S)
        connection.connect()
        self._socket = connection.sock
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {_token()}"}
        more = {"stream": True, "stream_options": {"include_usage": True}}
        path = f"{where.path}/chat/completions"
        with closing(connection):
            connection.request("POST", path, json.dumps({**body, **more}).encode(), headers)
            with connection.getresponse() as response:
                if response.status != 200:
                    raise _error_of(response.read(100_000))
                yield from _events(response)

    def _add(self, piece: Mapping[str, Any], at_s: float) -> None:
        if "error" in piece:
            raise _error_of(json.dumps(piece).encode())
        if usage := piece.get("usage"):
            self.tokens = int(usage["completion_tokens"])
        for choice in piece.get("choices", ()):
            part = choice.get("delta", {})
            added, thought = part.get("content") or "", part.get("reasoning_content") or ""
            if added or thought:
                self.first_s = at_s if self.first_s is None else self.first_s
                self.last_s = at_s
                self.tokens += 1
                self.text += added
                self.reasoning += thought
            self._reason = choice.get("finish_reason") or self._reason


def request_body(
    model: str, messages: Sequence[Message], *, seed: int, temperature: float, max_tokens: int
) -> dict[str, object]:
    """Returns what is asked of a model."""
    return {
        "model": model,
        "messages": list(messages),
        "seed": seed,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }


def _token() -> str:
    """Returns the token of this user's servers; empty where it cannot be read."""
    try:
        return (folders().data / "serve.token").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _events(response: HTTPResponse) -> "Iterator[dict[str, Any]]":
    """Yields the JSON objects of server-sent events."""
    while line := response.readline():
        name, _, data = line.decode("utf-8", "replace").strip().partition(":")
        if data.strip() == "[DONE]":
            return
        if name == "data":  # nothing before the colon is a comment
            yield json.loads(data)


def _error_of(content: bytes) -> GymError:
    """Returns the error in a response in the form of OpenAI's API."""
    try:
        error = json.loads(content)["error"]
        message, hint = str(error["message"]), error.get("hint")
    except (ValueError, KeyError, TypeError):
        message, hint = content.decode("utf-8", "replace")[:300].strip() or "no reason", None
    return NotAvailableError(message, hint=hint, code="tui.request_refused")
