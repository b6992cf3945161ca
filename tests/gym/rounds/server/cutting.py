"""A relay between a client and a server that cuts connections after so many bytes."""

import socket
import struct
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

_RESET = struct.pack("ii", 1, 0)


class Relay:
    """Passes bytes in both directions.

    Args:
        port: of the server.
        budgets: bytes that the next connections may carry before they are cut; then none is.
    """

    def __init__(self, port: int, budgets: Iterator[int]) -> None:
        self.cuts = 0
        self._to, self._budgets = port, budgets
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
                left = [next(self._budgets, None)]
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(*pair, left), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, left: list[int | None]) -> None:
        with suppress(OSError):
            while part := one.recv(1 << 14):
                if left[0] is not None and len(part) >= left[0]:
                    other.sendall(part[: left[0]])
                    self.cuts += 1
                    break
                if left[0] is not None:
                    left[0] -= len(part)
                other.sendall(part)
            else:
                other.shutdown(socket.SHUT_WR)
                return
        for end in (one, other):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(port: int, budgets: Iterator[int]) -> Generator[Relay]:
    """Runs a relay for the duration of a `with` block."""
    relay = Relay(port, budgets)
    try:
        yield relay
    finally:
        relay.close()
