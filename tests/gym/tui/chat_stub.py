"""A server that answers as the one behind Chat does, with what a test says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast


class Stub(ThreadingHTTPServer):
    """Answers as the server of models does; `replies` by the name of the model."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: dict[str, list[str]] = {}
        self.asked: list[dict[str, Any]] = []
        self.hold = threading.Event()
        self.hold.set()
        self.gone = threading.Event()
        self.breaks = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_POST(self) -> None:
        stub = cast("Stub", self.server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stub.asked.append(body)
        pieces = stub.replies.get(body["model"])
        if pieces is None:
            error = {"message": "model: no such one", "type": "x", "param": None, "code": None}
            self._reply(404, json.dumps({"error": error}).encode())
            return
        self._reply(200, b"")
        try:
            for i, piece in enumerate(pieces):
                self._send({"choices": [{"delta": {"content": piece}, "finish_reason": None}]})
                if i == 0 and not stub.hold.wait(0):
                    while not stub.hold.wait(0.02):
                        self.wfile.write(b": still here\n\n")
            if stub.breaks:
                return
            self._send({"choices": [{"delta": {}, "finish_reason": "stop"}]})
            self._send({"choices": [], "usage": {"completion_tokens": len(pieces)}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            stub.gone.set()

    def _reply(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def _send(self, event: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Is silent."""
