"""The demo's guard against networks, on real sockets of this machine."""

import socket
import urllib.request

import pytest

from tests.codes import raises
from zoo.gym.errors import GymError
from zoo.gym.no_network import no_network


def test_a_connection_is_refused_and_named() -> None:
    with (
        no_network(),
        socket.socket() as client,
        pytest.raises(GymError, match=r"127\.0\.0\.1"),
    ):
        client.connect(("127.0.0.1", 9))


def test_a_name_is_not_looked_up() -> None:
    with no_network(), raises("no_network.attempted"):
        urllib.request.urlopen("http://localhost:9/")


def test_the_network_is_back_afterwards() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with no_network():
            pass
        with socket.create_connection(server.getsockname()):
            pass
