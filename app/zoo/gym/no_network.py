"""A guard that turns any attempt to use the network into an error."""

import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn

from zoo.gym.errors import GymError


@contextmanager
def no_network() -> Generator[None]:
    """Refuses every connection and name lookup of this process for the duration of the block.

    Local sockets (`AF_UNIX`) still work.

    Raises:
        GymError: something tried to connect.
    """
    originals = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def connect(self: socket.socket, address: Any) -> Any:  # noqa: ANN401
        if self.family == getattr(socket, "AF_UNIX", None):
            return originals[0](self, address)
        return refuse(address)

    def refuse(*address: Any, **_: Any) -> NoReturn:  # noqa: ANN401
        raise GymError(
            f"a connection was attempted while offline: expected none, got {address!r}",
            code="no_network.attempted",
        )

    socket.socket.connect = connect  # type: ignore[method-assign, assignment]
    socket.socket.connect_ex = connect  # type: ignore[method-assign, assignment]
    socket.getaddrinfo = refuse
    try:
        yield
    finally:
        socket.socket.connect, socket.socket.connect_ex = originals[:2]  # type: ignore[method-assign]
        socket.getaddrinfo = originals[2]
