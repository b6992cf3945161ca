"""A relay between a client and a server that cuts connections."""

import socket
import struct
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_RESET = struct.pack("ii", 1, 0)


@dataclass
class Cut:
    """When a connection is cut.

    Attributes:
        after: bytes that it carries before.
        answers: cut it where the first answer after so many bytes begins, so that it is lost.
    """

    after: int
    answers: bool = False
    carried: int = 0

    def due(self, part: bytes, *, is_answer: bool) -> int | None:
        """Returns how many bytes of a part still pass if the connection is cut in it."""
        if self.answers:
            if is_answer and self.carried >= self.after:
                return 0
        elif self.carried + len(part) >= self.after:
            return self.after - self.carried
        self.carried += len(part)
        return None


class Relay:
    """Passes bytes in both directions.

    Args:
        port: of the server.
        plan: when the next connections are cut.
        most: after so many cuts there are no more.
    """

    def __init__(self, port: int, plan: Iterator[Cut], most: int) -> None:
        self.cuts, self._most = 0, most
        self._to, self._plan = port, plan
        self._ends: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Ends all connections and takes no more."""
        for end in (self._listening, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._ends += [client, server]
                cut = next(self._plan) if self.cuts < self._most else None
                for ends in ((client, server, cut, False), (server, client, cut, True)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, cut: Cut | None, down: bool) -> None:
        with suppress(OSError):
            while part := one.recv(1 << 14):
                passes = None if cut is None else cut.due(part, is_answer=down)
                if passes is not None:
                    other.sendall(part[:passes])
                    self.cuts += 1
                    break
                other.sendall(part)
            else:
                other.shutdown(socket.SHUT_WR)
                return
        for end in (one, other):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(port: int, plan: Iterator[Cut], most: int) -> Generator[Relay]:
    """Runs a relay for the duration of a `with` block."""
    relay = Relay(port, plan, most)
    try:
        yield relay
    finally:
        relay.close()
