"""Who may open the page, and what the page asks for."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.codes import raises
from zoo.gym.webui.server import COOKIE, PAGE, WebServer

Visit = Callable[[WebServer, aiohttp.ClientSession, str], Awaitable[None]]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))


def visit(body: Visit) -> None:
    """Starts a server, lets a client use it, and stops it."""

    async def run() -> None:
        server = WebServer(0)
        server.listen()
        await server.start()
        jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address without a name, too
        try:
            async with aiohttp.ClientSession(cookie_jar=jar) as client:
                await body(server, client, server.url.partition("/?")[0])
        finally:
            await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js", "/download/1", "/?token=x"])
def test_nothing_is_shown_without_the_token(path: str) -> None:
    async def body(_: WebServer, client: aiohttp.ClientSession, base: str) -> None:
        async with client.get(base + path) as answer:
            assert answer.status == 401

    visit(body)


def test_bytes_that_are_no_text_are_no_token() -> None:
    async def body(server: WebServer, _: aiohttp.ClientSession, base: str) -> None:
        reader, writer = await asyncio.open_connection(*base.removeprefix("http://").split(":"))
        host = base.removeprefix("http://").encode()
        writer.write(b"GET / HTTP/1.1\r\nHost: %s\r\nX-Name: \xff\r\n\r\n" % host)
        assert b" 401 " in await reader.readline()
        writer.close()

    visit(body)


def test_a_token_in_an_address_leads_to_the_page_alone() -> None:
    async def body(server: WebServer, client: aiohttp.ClientSession, base: str) -> None:
        token = server.url.partition("?")[2]
        async with client.get(f"{base}//other.example/?{token}", allow_redirects=False) as answer:
            assert answer.headers["Location"] == "/"

    visit(body)


def test_the_token_is_traded_for_a_cookie_and_leaves_the_address() -> None:
    async def body(server: WebServer, client: aiohttp.ClientSession, base: str) -> None:
        async with client.get(server.url) as answer:
            assert answer.status == 200
            assert str(answer.url) == f"{base}/"
            assert await answer.text() == PAGE.read_text()
        cookie: Any = {each.key: each for each in client.cookie_jar}[COOKIE]
        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"
        assert cookie.value not in server.url  # another server of this machine gets it, too

    visit(body)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 200),
    ],
)
def test_only_the_page_itself_may_ask(headers: dict[str, str], status: int) -> None:
    async def body(server: WebServer, client: aiohttp.ClientSession, base: str) -> None:
        async with client.get(server.url):
            pass
        async with client.get(f"{base}/", headers=headers) as answer:
            assert answer.status == status

    visit(body)


def test_the_page_names_no_other_host() -> None:
    assert not re.search(r"https?://(?!\$)", PAGE.read_text())


def test_a_port_in_use_is_refused_in_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with raises("http_guard.bad_address"):
            WebServer(taken.getsockname()[1]).listen()


def test_without_the_extra_the_command_to_install_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "textual_serve", None)
    monkeypatch.setitem(__import__("sys").modules, "textual_serve.server", None)
    with raises("webui.missing_package", "textual_serve") as refused:
        WebServer(0).listen()
    assert "web" in str(refused.value.hint)
