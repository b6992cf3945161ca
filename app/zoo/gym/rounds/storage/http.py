"""A server of rounds as storage: the same names below an address, by GET, HEAD and PUT.

Rounds can be read from any web server that has their folder; only `zoo-gym round serve` takes what
others write. Connections that break are tried again; a chunk that arrived is never sent twice.

The tokens of servers are kept by address in a file that only the user can read.
"""

import json
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from zoo.gym.errors import GymError, InputError, NotAvailableError, StorageError
from zoo.gym.files import json_object, read_json_object, write_beside
from zoo.gym.http_guard.gate import is_loopback
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.storage import base
from zoo.gym.terminal import one_line

if TYPE_CHECKING:
    from httpx2 import Client

_MOST = 4096


def keep_token(address: str, token: str) -> None:
    """Keeps the token of the server of an address.

    Raises:
        InputError: it is no token.
        StorageError: it cannot be written.
    """
    checked_token(token)
    path = tokens_file()
    ensure_folder(path.parent)
    tokens = {**_tokens(), origin_of(address): token}
    write_beside(path, json.dumps(tokens, indent=1, sort_keys=True) + "\n", sync=True)


def checked_token(token: str) -> str:
    """Returns a token that can be sent.

    Raises:
        InputError: it is not one printable word of ASCII.
    """
    is_plain = token.isascii() and token.isprintable() and " " not in token
    if not (is_plain and 0 < len(token) <= _MOST):
        raise InputError(
            "token: expected one word of letters, digits and signs", code="rounds.bad_token"
        )
    return token


def tokens_file() -> Path:
    """Returns the place of the tokens."""
    return folders().config / "round-tokens.json"


def origin_of(address: str) -> str:
    """Returns scheme, host and port of an address."""
    parts = urlsplit(address)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def _tokens() -> dict[str, str]:
    fields = read_json_object(tokens_file()) or {}
    return {key: token for key, token in fields.items() if isinstance(token, str)}


WAITS_S = (0.2, 0.5, 1.0, 2.0)
"""Pauses before the tries after the first one."""

CONNECT_S, ANSWER_S = 10.0, 120.0

BODY_S, SLOWEST_BYTES_S = 60.0, 10_000
"""Seconds for the body of an answer, and one more for each so many bytes of it."""

MOST_NAMES = 1_000_000
"""The most names of one folder."""

LIST_S, SLOWEST_NAMES_S = 60.0, 100
"""Seconds for a list of names, and one more for each so many names."""

Query = Mapping[str, str]
_BY_DIGEST = {base.FileKind.CHUNK, base.FileKind.ENTRY}


@dataclass(frozen=True)
class Answer:
    """The response to a request, read to its end."""

    status: int
    length: str
    content: bytes


class HttpStorage:
    """The files of a round on a server.

    Args:
        address: of the round, such as `https://example.org/rounds/summer`.
        token: of the server; the one kept for it if None.

    Raises:
        InputError: the address is none, or would send what is private in the clear; or the token
            is none.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = base.checked_address(address)
        stored = _tokens().get(origin_of(address)) if token is None else token
        self._token = None if stored is None else checked_token(stored)
        self._client: Client | None = None

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a file, None where there is none."""
        response = self._ask("GET", base.check_name(name))
        return None if response is None else response.content

    def write(self, name: str, content: bytes) -> None:
        """Stores a new file; the same bytes again are accepted."""
        self.replace(name, content)

    def replace(self, name: str, content: bytes) -> None:
        """Stores a file; the server decides whether the one that is there may be replaced."""
        base.check_size(base.check_name(name), content)
        if self._ask("PUT", name, content=content) is None:
            raise NotAvailableError(
                f"{self.address}: expected a round's address, got none", code="rounds.no_round"
            )

    def size(self, name: str) -> int | None:
        """Returns the number of bytes of a file, None where there is none."""
        response = self._ask("HEAD", base.check_name(name))
        if response is None:
            return None
        if not response.length.isdigit():
            raise StorageError(
                f"{self.address}/{name}: expected its length, got none", code="rounds.bad_answer"
            )
        return int(response.length)

    def names(self, prefix: str) -> list[str]:
        """Returns the names of the files below a folder of names, sorted."""
        listed: list[str] = []
        more, start = True, time.monotonic()
        while more:
            if time.monotonic() - start > LIST_S + len(listed) / SLOWEST_NAMES_S:
                raise StorageError(
                    f"{self.address}: expected the list of {prefix}, got {len(listed)} names in "
                    f"{LIST_S:g} s or more",
                    code="rounds.slow_answer",
                )
            query = {"folder": base.check_name(prefix), "after": listed[-1] if listed else ""}
            response = self._ask("GET", "names", query)
            page = json_object(response.content if response is not None else b"") or {}
            names, more = page.get("names"), page.get("more") is True
            if not isinstance(names, list) or (more and not names):
                raise StorageError(
                    f"{self.address}: expected a list of names, got another answer",
                    hint="a plain web server has none; zoo-gym round serve has",
                    code="rounds.bad_answer",
                )
            for name in cast("list[object]", names):
                self._add(listed, base.check_name(str(name)))
        return listed

    def _add(self, listed: list[str], name: str) -> None:
        """Adds the next name of a list, which must end."""
        if listed and name <= listed[-1]:
            raise StorageError(
                f"{self.address}: expected names in order, got {name!r} again",
                code="rounds.bad_answer",
            )
        if len(listed) == MOST_NAMES:
            raise StorageError(
                f"{self.address}: expected at most {MOST_NAMES} names, got more",
                code="rounds.bad_answer",
            )
        listed.append(name)

    def _ask(
        self, method: str, name: str, query: Query | None = None, content: bytes | None = None
    ) -> Answer | None:
        failed: GymError | None = None
        for wait_s in (0.0, *WAITS_S):
            time.sleep(wait_s)
            response: Answer | GymError | None = None
            if failed and content is not None and base.file_kind(name) in _BY_DIGEST:
                response, complete = self._try("HEAD", name), (200, str(len(content)))
                if isinstance(response, Answer) and (response.status, response.length) != complete:
                    response = None  # else it did arrive, and the answer did not
            if response is None:
                response = self._try(method, name, query, content)
            if isinstance(response, GymError):
                failed = response
            elif response.status == 503:
                failed = self._failure(response, name)
            elif response.status == 404:
                return None
            elif response.status < 300:
                return response
            else:
                raise self._failure(response, name)
        assert failed is not None
        raise failed

    def _try(
        self, method: str, name: str, query: Query | None = None, content: bytes | None = None
    ) -> Answer | GymError:
        import httpx2

        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        headers["Accept-Encoding"] = "identity"
        url = f"{self.address}/{name}"
        try:
            with self._open().stream(
                method, url, params=query, content=content, headers=headers
            ) as response:
                length = response.headers.get("content-length", "")
                return Answer(response.status_code, length, _read(response.iter_raw(), url))
        except httpx2.ConnectError as error:
            return NotAvailableError(
                f"{self.address}: cannot be reached: {error}", code="rounds.unreachable"
            )
        except httpx2.HTTPError as error:
            text = str(error) or type(error).__name__
            return StorageError(
                f"{self.address}: the connection broke: {text}", code="rounds.connection_broke"
            )

    def _failure(self, response: Answer, name: str) -> GymError:
        fault = (json_object(response.content) or {}).get("error")
        fields = cast("dict[str, object]", fault) if isinstance(fault, dict) else {}
        status = response.status
        reason = one_line(str(fields.get("message") or f"status {status}")[:500])
        hint = one_line(str(fields["hint"])[:500]) if fields.get("hint") else None
        message = f"{self.address}: {reason}"
        if status in {401, 403}:
            asked = f"zoo-gym round token {origin_of(self.address)}"
            return InputError(
                message,
                hint=hint or f"{asked} keeps the token that its owner gives",
                code="rounds.unauthorized",
            )
        if status in {400, 413, 421, 422}:
            return InputError(message, hint=hint, code="rounds.server_refused")
        if status in {405, 501}:
            hint = "it is a plain web server: zoo-gym round serve takes what others write"
        return StorageError(message, hint=hint, code="rounds.server_failed")

    def _open(self) -> "Client":
        if self._client is None:
            import ssl

            import httpx2

            local = is_loopback(urlsplit(self.address).hostname or "")
            timeout = httpx2.Timeout(ANSWER_S, connect=CONNECT_S)
            plain = self.address.startswith("http:")  # needs no certificates: loads none
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True
            self._client = httpx2.Client(timeout=timeout, trust_env=not local, verify=verify)
            weakref.finalize(self, self._client.close)
        return self._client


def _read(parts: Iterator[bytes], url: str) -> bytes:
    start, body = time.monotonic(), bytearray()
    for part in parts:
        body += part
        if len(body) > base.MOST_BYTES:
            raise StorageError(
                f"{url}: expected at most {base.MOST_BYTES} bytes, got more",
                code="rounds.bad_answer",
            )
        if time.monotonic() - start > BODY_S + len(body) / SLOWEST_BYTES_S:
            raise StorageError(
                f"{url}: expected the whole answer, got {len(body)} bytes in {BODY_S:g} s or more",
                code="rounds.slow_answer",
            )
    return bytes(body)


def open_storage(address: str) -> base.Storage:
    """Returns the storage at an address; nothing is read yet.

    Args:
        address: a folder, `https://HOST/rounds/NAME`, or `s3://BUCKET/PREFIX`.

    Raises:
        NotAvailableError: the extra that it needs is not installed.
        InputError: it is of another kind, or has a password in it.
    """
    if not base.is_address(address):
        return base.FolderStorage(Path(address))
    if address.startswith("s3://"):
        from zoo.gym.rounds.storage.s3 import S3Storage

        return S3Storage(address)
    return HttpStorage(address)
