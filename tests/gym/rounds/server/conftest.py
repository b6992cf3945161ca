"""A server with a round that has begun, and plain requests to it."""

from tests.gym.rounds.server.world import World, world
from tests.gym.rounds.storage.conftest import address, server, shared_server

__all__ = ["World", "address", "server", "shared_server", "world"]
