"""A small hub on this machine that takes uploads: repositories, stored files, commits."""

import base64
import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_" + "a" * 34


@dataclass
class Repo:
    """A repository: its files and how often it changed."""

    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    commits: int = 0


@dataclass
class Hub:
    """What the hub has, and what it was sent."""

    repos: dict[str, Repo] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    """Cleared: an upload waits. Set: it goes on."""
    waiting: threading.Event = field(default_factory=threading.Event)
    makes_public: bool = False
    ignores: bool = False

    def __post_init__(self) -> None:
        self.hold.set()

    def uploads(self) -> list[str]:
        """Returns the digests of the files that were uploaded, in order."""
        return [path.rpartition("/")[2] for method, path in self.asked if method == "PUT"]


@contextmanager
def serving(hub: Hub) -> Generator[str]:
    """Serves a hub and yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        hub.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self._body()
            path = self.path.partition("?")[0]
            hub.asked.append((self.command, path))
            hub.received.append(body)
            allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}" or "/put/" in path
            host = f"http://{self.headers['Host']}"
            status, answer = _reply(hub, path, body, host) if allowed else (401, {})
            content = json.dumps(answer).encode()
            self.send_response(status)
            if status == 404:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts: list[bytes] = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Keeps the test's output clean."""

    return Handler


def _reply(hub: Hub, path: str, body: bytes, host: str) -> tuple[int, Any]:
    if path == "/api/whoami-v2":
        return 200, {"name": "me", "orgs": [{"name": "club"}], "type": "user"}
    if path == "/api/validate-yaml":
        return 200, {"errors": [], "warnings": []}
    if path.startswith("/put/"):
        return _stored(hub, body)
    if path == "/api/repos/create":
        return _created(hub, json.loads(body), host)
    if path.endswith("/info/lfs/objects/batch"):
        return 200, {"objects": [_object(hub, each, host) for each in json.loads(body)["objects"]]}
    return _of_repo(hub, path, body, host)


def _stored(hub: Hub, body: bytes) -> tuple[int, Any]:
    if not hub.hold.is_set():
        hub.waiting.set()
        hub.hold.wait(60)
    hub.stored[hashlib.sha256(body).hexdigest()] = body
    return 200, {}


def _of_repo(hub: Hub, path: str, body: bytes, host: str) -> tuple[int, Any]:
    name, action = _split(path)
    repo = hub.repos.get(name)
    if repo is None:
        return 404, {"error": "Repository not found"}
    if action == "preupload":
        files = json.loads(body)["files"]
        modes = [_mode(file["path"]) for file in files]
        return 200, {"files": [mode | {"shouldIgnore": hub.ignores} for mode in modes]}
    if action == "commit":
        return _committed(hub, repo, name, body, host)
    return 200, _info(repo, name)


def _split(path: str) -> tuple[str, str]:
    parts = path.removeprefix("/api/models/").split("/")
    return "/".join(parts[:2]), parts[2] if len(parts) > 2 else ""


def _created(hub: Hub, wish: dict[str, Any], host: str) -> tuple[int, Any]:
    name = f"{wish['organization'] or 'me'}/{wish['name']}"
    if name in hub.repos:
        return 409, {"error": "You already created this model repo"}
    private = wish.get("visibility") == "private" or bool(wish.get("private"))
    hub.repos[name] = Repo(private=private and not hub.makes_public)
    return 200, {"url": f"{host}/{name}", "id": name}


def _mode(path: str) -> dict[str, Any]:
    lfs = path.endswith((".safetensors", ".zdelta"))
    return {"path": path, "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}


def _object(hub: Hub, wish: dict[str, Any], host: str) -> dict[str, Any]:
    known = {"oid": wish["oid"], "size": wish["size"]}
    if wish["oid"] in hub.stored:
        return known
    return known | {"actions": {"upload": {"href": f"{host}/put/{wish['oid']}"}}}


def _committed(hub: Hub, repo: Repo, name: str, body: bytes, host: str) -> tuple[int, Any]:
    for line in map(json.loads, body.splitlines()):
        value = line["value"]
        if line["key"] == "header" and value.get("parentCommit", _oid(repo)) != _oid(repo):
            return 412, {"error": "stale"}
        if line["key"] == "file":
            repo.files[value["path"]] = base64.b64decode(value["content"])
        elif line["key"] == "lfsFile":
            repo.files[value["path"]] = hub.stored[value["oid"]]
        elif line["key"] == "deletedFile":
            del repo.files[value["path"]]
    repo.commits += 1
    oid = _oid(repo)
    return 200, {"commitUrl": f"{host}/{name}/commit/{oid}", "commitOid": oid, "success": True}


def _oid(repo: Repo) -> str:
    return hashlib.sha1(str(repo.commits).encode()).hexdigest()


def _info(repo: Repo, name: str) -> dict[str, Any]:
    siblings = [_sibling(path, content) for path, content in repo.files.items()]
    return {"id": name, "sha": _oid(repo), "private": repo.private, "siblings": siblings}


def _sibling(path: str, content: bytes) -> dict[str, Any]:
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry: dict[str, Any] = {"rfilename": path, "size": len(content), "blobId": git}
    if _mode(path)["uploadMode"] == "lfs":
        digest = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
    return entry
