"""A hub on this machine that serves one model, and a cache of our own."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

MODEL_ID = "org/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"model_type": "qwen3"}',
    "tokenizer.json": b"{}",
    "model.safetensors": b"\x02\0\0\0\0\0\0\0{}" + bytes(5_000),
    "README.md": b"not wanted",
    "modeling_tiny.py": b"not wanted either",
}


PutInCache = Callable[..., Path]


@dataclass
class FakeHub:
    """What the server holds and what it was asked: method, path, and the bytes' range."""

    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    sent: dict[str, bytes] = field(default_factory=dict[str, bytes])
    knows_ranges: bool = True
    cut_at: int | None = None
    error_code: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def fetched(self) -> list[str]:
        """Returns the names of the files that were sent."""
        return [
            path.rpartition("/")[2]
            for method, path, _ in self.asked
            if method == "GET" and "/resolve/" in path
        ]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hugging Face cache that the environment points at."""
    for variable in (
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path / "hf" / "hub"


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A running hub that `HF_ENDPOINT` points at."""
    state = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def put_in_cache(cache: Path) -> PutInCache:
    """Writes a snapshot as any tool of the field would have left it; returns its folder."""

    def put(model_id: str = MODEL_ID, leave_out: str = "") -> Path:
        storage = cache / ("models--" + model_id.replace("/", "--"))
        snapshot = storage / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        (storage / "refs").mkdir()
        (storage / "refs" / "main").write_text(COMMIT)
        for name, content in FILES.items():
            if name != leave_out:
                (snapshot / name).write_bytes(content)
        return snapshot

    return put


def _handler(state: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._send(*_answer(state, "HEAD", self.path, self.headers.get("Range", "")))

        def do_GET(self) -> None:
            self._send(*_answer(state, "GET", self.path, self.headers.get("Range", "")))

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body[: state.cut_at])

        def log_message(self, *args: object) -> None:
            """Keeps the test's output clean."""

    return Handler


def _answer(
    state: FakeHub, method: str, address: str, byte_range: str
) -> tuple[int, bytes, dict[str, str]]:
    path = address.partition("?")[0]
    state.asked.append((method, path, byte_range))
    if state.error_code:
        return 403, b"{}", {"X-Error-Code": state.error_code}
    if f"/{MODEL_ID}" not in path:
        return 404, b"{}", {"X-Error-Code": "RepoNotFound"}
    if path.startswith("/api/"):
        reply = _tree(state) if "/tree/" in path else _info(state)
        return 200, json.dumps(reply).encode(), {}
    name = path.rpartition("/")[2]
    digest = hashlib.sha256 if name.endswith(".safetensors") else hashlib.sha1
    headers = {"ETag": f'"{digest(state.files[name]).hexdigest()}"', "X-Repo-Commit": COMMIT}
    start = int(byte_range[6:-1] or 0) if state.knows_ranges else 0
    status = 206 if byte_range and state.knows_ranges else 200
    return status, state.sent.get(name, state.files[name])[start:], headers


def _info(state: FakeHub) -> dict[str, object]:
    siblings = [
        {"rfilename": name, "size": len(content)} | _lfs(name, content, key="sha256")
        for name, content in state.files.items()
    ]
    return {"id": MODEL_ID, "modelId": MODEL_ID, "sha": COMMIT, "siblings": siblings}


def _tree(state: FakeHub) -> list[dict[str, object]]:
    return [
        {
            "type": "file",
            "path": name,
            "size": len(content),
            "oid": hashlib.sha1(content).hexdigest(),
        }
        | _lfs(name, content, key="oid")
        for name, content in state.files.items()
    ]


def _lfs(name: str, content: bytes, key: str) -> dict[str, object]:
    if not name.endswith(".safetensors"):
        return {}
    digest = hashlib.sha256(content).hexdigest()
    return {"lfs": {key: digest, "size": len(content), "pointerSize": 130}}
