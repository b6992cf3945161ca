"""A server of `/v1/chat/completions` on this machine, which answers and misbehaves as it is told.

Real sockets and the real HTTP of the standard library; nothing of the program under test is used.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass
class Odd:
    """A response that is no ordinary completion.

    Attributes:
        status: the HTTP status.
        body: the whole body; a completion of `text` if it is None.
        text: the text of the completion.
        headers: more headers.
        content_type: that of the body.
        cut: send only this many bytes, then close.
        stall_s: wait so long in the middle.
        reset: close without an answer.
        finish: the finish reason; None for none.
        usage: the counts; None for none, "true" for true ones.
        message: more fields of the message.
        endless: send parts of the text one after the other, until the client leaves.
        behind: send this for ever behind the body, with waits of `stall_s`.
    """

    status: int = 200
    body: str | None = None
    text: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"
    cut: int | None = None
    stall_s: float = 0.0
    reset: bool = False
    finish: str | None = "stop"
    usage: Any = "true"
    message: dict[str, Any] = field(default_factory=dict[str, Any])
    endless: bool = False
    behind: str = ""


Respond = Callable[[Body, int], "str | Odd"]
"""Answers the nth request: with a text, or with something odd."""


class ChatServer:
    """The server and what it has seen.

    Attributes:
        url: its address, up to `/v1`.
        requests: the body of each request, in order of arrival.
        headers: the headers of each request.
        models: the answer to a request for the list of models; None for 404.
    """

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.models: Odd | None = None
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"chat": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def chat_server(respond: Respond) -> Iterator[ChatServer]:
    """Runs a server for the duration of a `with` block."""
    server = ChatServer(respond)
    try:
        yield server
    finally:
        server.close()


def tokens(text: str) -> int:
    """Counts tokens as this server does: four bytes each."""
    return -(-len(text.encode()) // 4)


def usage_of(body: Body, text: str) -> dict[str, int]:
    """Returns true counts, without a cache."""
    prompt = sum(tokens(turn["content"]) for turn in body["messages"])
    counts = {"prompt_tokens": prompt, "completion_tokens": tokens(text)}
    return counts | {"total_tokens": sum(counts.values())}


_NAMED = {"id": "chatcmpl-1", "created": 0}
"""What clients expect besides."""


class _Handler(BaseHTTPRequestHandler):
    chat: ChatServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args: object) -> None:
        """Prints nothing."""

    def do_POST(self) -> None:
        body: Body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.chat.lock:
            number = len(self.chat.requests)
            self.chat.requests.append(body)
            self.chat.headers.append(dict(self.headers.items()))
        found = self.chat.respond(body, number)
        odd = Odd(text=found) if isinstance(found, str) else found
        if odd.reset:
            self.close_connection = True
            return
        if odd.endless:
            delta = {"content": odd.text}
            event = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            part = f"data: {json.dumps(event)}\n\n"
            self._send_for_ever(replace(odd, behind=part, content_type="text/event-stream"))
            return
        if odd.behind:
            self._send_for_ever(odd)
            return
        self._send(odd, body)

    def do_GET(self) -> None:
        odd = self.chat.models
        if odd is None:
            self.send_error(404)
        elif odd.behind:
            self._send_for_ever(odd)
        else:
            self._send(odd, {"model": "", "messages": []})

    def _send_for_ever(self, odd: Odd) -> None:
        self.send_response(200)
        self.send_header("Content-Type", odd.content_type)
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):
            self.wfile.write((odd.body or "").encode())
            while True:
                self.wfile.write(odd.behind.encode())
                time.sleep(odd.stall_s)

    def _send(self, odd: Odd, body: Body) -> None:
        text = odd.text or ""
        usage = usage_of(body, text) if odd.usage == "true" else odd.usage
        if odd.body is not None or not body.get("stream"):
            message = {"role": "assistant", "content": text} | odd.message
            choice = {"index": 0, "message": message, "finish_reason": odd.finish}
            named = {"object": "chat.completion", **_NAMED}
            whole = {**named, "model": body["model"], "choices": [choice], "usage": usage}
            data = (json.dumps(whole) if odd.body is None else odd.body).encode()
            kind = odd.content_type
        else:
            data = _events(odd, text, usage, body["model"]).encode()
            kind = "text/event-stream"
        self.send_response(odd.status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in odd.headers.items():
            self.send_header(name, value)
        self.end_headers()
        half = len(data) // 2 if odd.stall_s else 0
        self.wfile.write(data[:half])
        if odd.stall_s:
            self.wfile.flush()
            time.sleep(odd.stall_s)
        self.wfile.write(data[half : odd.cut])
        self.close_connection = self.close_connection or odd.cut is not None


def _events(odd: Odd, text: str, usage: Any, model: str) -> str:
    middle = len(text) // 2
    parts = [{"role": "assistant"}, {"content": text[:middle]}, {"content": text[middle:]}]
    parts += [odd.message] if odd.message else []
    events: list[Body] = [
        {"choices": [{"index": 0, "delta": part, "finish_reason": None}]} for part in parts
    ]
    if odd.finish is not None:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": odd.finish}]})
    if usage is not None:
        events.append({"choices": [], "usage": usage})
    kind = {"object": "chat.completion.chunk", **_NAMED, "model": model}
    lines = [f"data: {json.dumps(kind | event)}\n\n" for event in events]
    return "".join([": a comment\n\n", *lines, "data: [DONE]\n\n" if odd.finish else ""])
