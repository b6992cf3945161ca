"""Reads the body of a response within limits of size and time, whatever a server sends.

A limit of the time between two reads is not enough: a server can send a byte, or a comment, for
ever. Left out: headers, which have no limit but that one.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from zoo.backends.openai.failure import TryAgainError

if TYPE_CHECKING:
    from httpx2 import Response

DRAIN_S = 1.0
"""How long the end of a body is waited for behind the last event of a stream."""


class Body:
    """A body that is on its way. Another thread may abandon it.

    Args:
        response: what it is the body of.
        where: the server and model, for messages.
        most_bytes: the largest body that is read.
        ends_s: seconds within which it has to be read.
        quiet_s: seconds within which `progressed` has to be called; None is no limit.
    """

    def __init__(
        self,
        response: "Response",
        where: str,
        most_bytes: int,
        ends_s: float,
        quiet_s: float | None = None,
    ) -> None:
        self._response, self._where, self._most_bytes = response, where, most_bytes
        now = time.monotonic()
        self._ends_s, self._ends = ends_s, now + ends_s
        self._quiet_s = quiet_s
        self._quiet = self._ends if quiet_s is None else now + quiet_s
        self._is_abandoned = False

    def abandon(self) -> None:
        """Ends it at once."""
        self._is_abandoned = True
        stream = self._response.extensions.get("network_stream")
        sock = None if stream is None else stream.get_extra_info("socket")
        if isinstance(sock, socket.socket):
            with suppress(OSError):  # it was closed meanwhile
                # as of a plain socket: that of TLS would change under the thread that reads
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def progressed(self, stall_s: float) -> None:
        """Notes that a part of the answer came; the next may take `stall_s`."""
        self._quiet_s = stall_s
        self._quiet = time.monotonic() + stall_s

    def chunks(self) -> Iterator[bytes]:
        """Yields the body as it comes.

        Raises:
            TryAgainError: it is too large, takes too long, or was abandoned.
        """
        import httpx2

        size = 0
        try:
            for chunk in self._response.iter_bytes():
                self._check()
                size += len(chunk)
                if size > self._most_bytes:
                    message = f"expected at most {self._most_bytes:,} bytes, got more"
                    raise self._failure(message)
                yield chunk
        except httpx2.HTTPError:
            self._check_abandoned()
            raise
        self._check_abandoned()  # a body without a length ends with its connection

    def lines(self) -> Iterator[str]:
        """Yields the lines of the body as they come.

        Raises:
            TryAgainError: see `chunks`.
        """
        begun: list[bytes] = []
        for chunk in self.chunks():
            first, *rest = chunk.split(b"\n")
            begun.append(first)
            if rest:
                yield _text(b"".join(begun))
                yield from map(_text, rest[:-1])
                begun = [rest[-1]]
        yield _text(b"".join(begun))

    def drain(self, lines: Iterator[str]) -> None:
        """Reads what follows the last event, so that the connection can be used again.

        A body that does not end soon is left, and its connection closed.
        """
        import httpx2

        timer = threading.Timer(DRAIN_S, self.abandon)
        timer.daemon = True
        timer.start()
        with suppress(httpx2.HTTPError, TryAgainError):
            for _ in lines:
                pass
        timer.cancel()

    def _check(self) -> None:
        now = time.monotonic()
        self._check_abandoned()
        if now > self._ends:
            raise self._failure(f"no whole answer within {self._ends_s:,.0f} s")
        if self._quiet_s is not None and now > self._quiet:
            raise self._failure(f"no text within {self._quiet_s:g} s, but other signs of life")

    def _check_abandoned(self) -> None:
        if self._is_abandoned:
            raise self._failure("the answer was abandoned") from None

    def _failure(self, message: str) -> TryAgainError:
        return TryAgainError(f"{self._where}: {message}", billed=True)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
