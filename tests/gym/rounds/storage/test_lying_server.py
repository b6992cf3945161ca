"""Answers that would never end, by a server that lies: a client gives up, and says why."""

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest

from tests.codes import raises
from zoo.gym.errors import InputError, StorageError
from zoo.gym.rounds.storage import http
from zoo.gym.rounds.storage.http import HttpStorage


@contextmanager
def lying(body: bytes, *, drips: bool = False, status: int = 200) -> Generator[HttpStorage]:
    """A round on a server that gives one answer to everything, at once or byte by byte."""

    class Liar(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # the client gave up
                for one in range(len(body)) if drips else ():
                    self.wfile.write(body[one : one + 1])
                    time.sleep(0.02)
                if not drips:
                    self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield HttpStorage(f"http://127.0.0.1:{server.server_port}/rounds/r", "token")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.slow
def test_a_page_of_names_that_comes_again_ends_the_list() -> None:
    page = {"names": [f"inbox/{0:064}.json", f"inbox/{1:064}.json"], "more": True}
    with (
        lying(json.dumps(page).encode()) as place,
        pytest.raises(StorageError, match=r"expected names in order, got 'inbox/0+.json' again"),
    ):
        place.names("inbox")


@pytest.mark.slow
def test_more_names_than_a_folder_can_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_NAMES", 2)
    page = {"names": ["inbox/a", "inbox/b", "inbox/c"], "more": False}
    with (
        lying(json.dumps(page).encode()) as place,
        pytest.raises(StorageError, match="expected at most 2 names, got more"),
    ):
        place.names("inbox")


@pytest.mark.slow
def test_a_list_of_one_name_a_page_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LIST_S", 0.2)
    monkeypatch.setattr(http, "SLOWEST_NAMES_S", 10_000)
    pages = ({"names": [f"inbox/{number:064}.json"], "more": True} for number in count())
    place = HttpStorage("http://127.0.0.1:9/rounds/r", "token")

    def page(*_: object) -> http.Answer:
        time.sleep(0.001)
        return http.Answer(200, "", json.dumps(next(pages)).encode())

    monkeypatch.setattr(place, "_ask", page)
    with raises("rounds.slow_answer", r"expected the list of inbox, got \d+ names in"):
        place.names("inbox")


@pytest.mark.slow
def test_what_a_server_says_stays_on_a_line_of_its_own() -> None:
    error = {"message": "no\nzoo-gym: done", "hint": "\x1b[2J\nround: passed"}
    with (
        lying(json.dumps({"error": error}).encode(), status=422) as place,
        pytest.raises(InputError) as found,
    ):
        place.read("manifest.json")
    assert found.value.message.endswith("no\\x0azoo-gym: done")
    assert found.value.hint == "\\x1b[2J\\x0around: passed"


@pytest.mark.parametrize("token", ["", "t\u00f6ken", "two words", "x" * 5000])
def test_what_is_no_token_is_not_sent(token: str) -> None:
    with raises("rounds.bad_token") as caught:
        HttpStorage("http://127.0.0.1:9/rounds/r", token)
    assert caught.value.code == "rounds.bad_token"


@pytest.mark.slow
def test_an_answer_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_S", 0.2)
    start = time.monotonic()
    with (
        lying(bytes(1000), drips=True) as place,  # of 20 s
        pytest.raises(StorageError, match="expected the whole answer, got"),
    ):
        place.read("manifest.json")
    assert time.monotonic() - start < 10


@pytest.mark.slow
def test_an_answer_that_is_slow_and_fast_enough_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_S", 0.0)
    monkeypatch.setattr(http, "SLOWEST_BYTES_S", 1)  # it may take 20 s, and takes 0.4 s
    with lying(bytes(20), drips=True) as place:
        assert place.read("manifest.json") == bytes(20)
