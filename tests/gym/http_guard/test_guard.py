"""Who may ask a server, what one client can take of it, and how it starts and stops."""

import asyncio
import json
import socket
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.codes import raises
from tests.gym.http_guard.toy import MOST_BYTES, TOKENS, Toy, running
from zoo.gym.errors import InputError
from zoo.gym.http_guard import connections
from zoo.gym.http_guard.config import HttpConfig
from zoo.gym.http_guard.gate import Gate, Gated, RefusedError, is_loopback
from zoo.gym.http_guard.run import stored_token

Answer = tuple[int, dict[str, str], Any]


@pytest.fixture(scope="module")
def toy() -> Generator[Toy]:
    with running(Toy(origins=("https://example.org",))) as server:
        yield server


def ask(
    toy: Toy,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Returns status, headers and the decoded body."""
    status, answered, content = exchange(toy, method, path, body, headers)
    return status, answered, json.loads(content)


def exchange(
    toy: Toy,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and the body."""
    headers = {"Authorization": f"Bearer {TOKENS['reader']}", **(headers or {})}
    where = urlsplit(toy.http.url)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


WHO: dict[str, tuple[dict[str, str], int, str]] = {
    "no token": ({"Authorization": ""}, 401, "token: expected one of this server"),
    "another token": ({"Authorization": "Bearer x"}, 401, "got none or another"),
    "a part of a token": ({"Authorization": f"Bearer {'r' * 31}"}, 401, "got none or another"),
    "no bearer": ({"Authorization": f"Basic {'r' * 32}"}, 401, "got none or another"),
    "another host": ({"Host": "example.org"}, 421, "host: expected a name of this server"),
    "a host that begins with its address": ({"Host": "127.0.0.1.example.org"}, 421, "host: expect"),
    "a page": ({"Origin": "http://127.0.0.1"}, 403, "origin: expected no page of a browser"),
    "a page without an address": ({"Origin": "null"}, 403, "origin: expected no page"),
}


@pytest.mark.parametrize("case", WHO)
def test_who_may_not_ask_is_answered_before_the_application(case: str, toy: Toy) -> None:
    headers, status, message = WHO[case]
    before = len(toy.bodies)
    found, answered, body = ask(toy, "PUT", "/body", b"x", headers=headers)
    assert (found, message in body["error"]["message"]) == (status, True)
    assert answered.get("www-authenticate") == ("Bearer" if status == 401 else None)
    assert len(toy.bodies) == before


@pytest.mark.parametrize("role", TOKENS)
@pytest.mark.parametrize("host", ["localhost:{}", "127.0.0.1:{}", "LOCALHOST"])
def test_a_token_gives_its_role(role: str, host: str, toy: Toy) -> None:
    headers = {"Host": host.format(urlsplit(toy.http.url).port), "Origin": "https://example.org"}
    headers["Authorization"] = f"bearer {TOKENS[role]} "
    found = ask(toy, "GET", "/role", headers=headers)
    assert (found[0], found[2]) == (200, role)
    keyed = {"Authorization": "", "Ocp-Apim-Subscription-Key": TOKENS[role]}
    assert ask(toy, "GET", "/role", headers=keyed)[2] == role


PREFLIGHT = {
    "Authorization": "",
    "Access-Control-Request-Method": "PUT",
    "Access-Control-Request-Headers": "authorization,x-one",
}


def test_a_named_page_learns_that_it_may_ask_and_reads_answers_and_refusals(toy: Toy) -> None:
    page = {"Origin": "https://example.org"}
    allowed = exchange(toy, "OPTIONS", "/body", headers=page | PREFLIGHT)
    assert (allowed[0], allowed[2]) == (204, b"")
    assert allowed[1]["access-control-allow-headers"] == "authorization,x-one"
    assert "PUT" in allowed[1]["access-control-allow-methods"]
    for headers, status in ((page, 200), (page | {"Authorization": ""}, 401)):
        found = exchange(toy, "GET", "/role", headers=headers)
        assert (found[0], found[1]["access-control-allow-origin"]) == (status, page["Origin"])


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Origin": "https://evil.org"}, 403), ({"Host": "evil.org"}, 421)],
    ids=["page", "host"],
)
def test_no_other_page_learns_anything(headers: dict[str, str], status: int, toy: Toy) -> None:
    headers = {"Origin": "https://example.org", **headers}
    found = exchange(toy, "OPTIONS", "/body", headers=headers | PREFLIGHT)
    assert found[0] == status
    assert "access-control-allow-methods" not in found[1]


def test_other_than_requests_do_not_reach_the_application() -> None:
    seen: list[str] = []

    async def app(scope: Any, _receive: object, _send: object) -> None:
        seen.append(scope["type"])

    async def nothing(*_: object) -> Any:
        raise AssertionError

    gated = Gated(app, Gate(frozenset(), frozenset(), TOKENS))
    for kind in ("websocket", "lifespan"):
        asyncio.run(gated({"type": kind}, nothing, nothing))
    assert seen == ["lifespan"]


ERRORS = {
    "/refused": (409, "a fork", "a spoon"),
    "/broken": (500, "the toy is broken", None),
    "/number/x": (422, "path.number: expected another value", None),
    "/nowhere": (404, "not found", None),
}


@pytest.mark.parametrize("path", ERRORS)
def test_errors_have_one_form_and_name_no_folder(path: str, toy: Toy) -> None:
    status, message, hint = ERRORS[path]
    found = ask(toy, "GET", path)
    assert (found[0], found[2]) == (status, {"error": {"message": message, "hint": hint}})


def test_a_body_of_the_limit_is_read_and_a_longer_one_refused(toy: Toy) -> None:
    assert ask(toy, "PUT", "/body", b"x" * MOST_BYTES)[0] == 200
    assert toy.bodies[-1] == b"x" * MOST_BYTES
    status, _, body = ask(toy, "PUT", "/body", b"x" * (MOST_BYTES + 1))
    assert (status, body["error"]["message"]) == (413, "body: expected at most 10 bytes, got 11")


def test_a_body_without_a_length_has_the_same_limit(toy: Toy) -> None:
    with connected(toy) as connection:
        start = head(toy, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        connection.sendall(start + b"b\r\n" + b"x" * 11 + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Generator[Toy]:
    """A server that waits 0.3 s for anything, and takes three connections."""
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    with running(Toy(request_s=0.3, concurrency=3)) as server:
        yield server


def connected(toy: Toy) -> socket.socket:
    where = urlsplit(toy.http.url)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=10)


def head(toy: Toy, length: int) -> bytes:
    lines = ["PUT /body HTTP/1.1", f"Host: {urlsplit(toy.http.url).netloc}"]
    lines += [f"Authorization: Bearer {TOKENS['reader']}", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.slow
def test_a_connection_without_a_request_is_closed(hasty: Toy) -> None:
    with connected(hasty) as connection, suppress(ConnectionResetError):
        assert connection.recv(1000) == b""


@pytest.mark.slow
def test_a_request_whose_head_never_ends_is_closed(hasty: Toy) -> None:
    with connected(hasty) as connection:
        connection.sendall(head(hasty, 10)[:40])
        start = time.monotonic()
        while time.monotonic() - start < 10:
            try:
                connection.sendall(b"x")
            except OSError:
                break
            time.sleep(0.05)
        assert time.monotonic() - start < 10


@pytest.mark.slow
def test_a_body_that_never_ends_is_refused(hasty: Toy) -> None:
    with connected(hasty) as connection:
        connection.sendall(head(hasty, 10) + b"some")
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert hasty.bodies == []


@pytest.mark.slow
def test_more_connections_than_it_takes_are_sent_away(hasty: Toy) -> None:
    others = [connected(hasty) for _ in range(3)]
    with connected(hasty) as connection:
        connection.sendall(head(hasty, 0))
        assert connection.recv(1000).startswith(b"HTTP/1.1 503 ")
    for other in others:
        other.close()


SETTINGS: dict[str, tuple[dict[str, object], str]] = {
    "another host without TLS": ({"host": "0.0.0.0"}, "expected TLS for other machines"),
    "another host without a name": (
        {"host": "0.0.0.0", "tls_cert": "c", "tls_key": "k"},
        "expected the names that others use for this machine",
    ),
    "half of TLS": ({"tls_cert": "c"}, "expected both or none"),
    "a name with a port": ({"names": ["a:1"]}, "expected a host name in small letters"),
    "every page": ({"origins": ["*"]}, "expected a page's address"),
    "a page with a path": ({"origins": ["https://a.org/b"]}, "expected a page's address"),
    "a page without an address": ({"origins": ["null"]}, "expected a page's address"),
    "a name in capitals": ({"names": ["A"]}, "expected a host name in small letters"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_would_not_be_safe_are_refused(case: str) -> None:
    fields, message = SETTINGS[case]
    with pytest.raises(ValueError, match=message):
        HttpConfig.model_validate({"port": 0, **fields})


def test_local_names_are_those_of_a_local_server_alone() -> None:
    assert "localhost" in HttpConfig(port=0).host_names
    pem = Path("c.pem")
    far = HttpConfig(host="0.0.0.0", port=0, names=("a.org",), tls_cert=pem, tls_key=pem)
    assert (far.host_names, far.url(443)) == (frozenset({"a.org"}), "https://a.org:443")
    assert HttpConfig(host="::1", port=0).url(80) == "http://[::1]:80"


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("localhost", True), ("127.0.0.9", True), ("[::1]", True), ("0.0.0.0", False), ("a", False)],
)
def test_a_loopback_address_is_this_machine(host: str, is_local: bool) -> None:
    assert is_loopback(host) is is_local


def test_an_address_in_use_and_a_missing_certificate_are_named(toy: Toy, tmp_path: Path) -> None:
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({"port": urlsplit(toy.http.url).port}, "expected an address of this machine that is free"),
        ({"tls_cert": tmp_path, "tls_key": tmp_path}, "expected a certificate and its key"),
    )
    for settings, message in cases:
        with pytest.raises(InputError, match=message), running(Toy(**settings)):
            pass


def test_a_stopped_server_frees_its_address_and_may_start_there_again() -> None:
    with running(Toy()) as first:
        assert first.http.has_started
        port = urlsplit(first.http.url).port
    assert not first.http.has_started
    with running(Toy(port=port)) as second:
        assert ask(second, "GET", "/role")[2] == "reader"


def test_a_missing_package_is_named_with_its_extra() -> None:
    def build() -> Any:
        raise ModuleNotFoundError(name="fastapi")

    toy = Toy()
    with raises("http_guard.missing_package", "toy: expected the package fastapi") as refused:
        toy.http.listen("toy", build, Gate(frozenset(), frozenset(), TOKENS))
    assert "serve" in str(refused.value.hint)


def test_a_token_is_made_once(tmp_path: Path) -> None:
    file = tmp_path / "tokens" / "reader.txt"
    token = stored_token(file)
    assert len(token) >= 32
    assert stored_token(file) == token
    assert stored_token(tmp_path / "other.txt") != token


def test_a_refusal_has_a_status() -> None:
    gate = Gate(frozenset({"a"}), frozenset(), TOKENS)
    with pytest.raises(RefusedError) as refused:
        gate.role_of({b"host": b"a"})
    assert (refused.value.status, refused.value.code) == (401, "http_guard.refused")
