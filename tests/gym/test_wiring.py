import pytest

from zoo.gym.jobs.kinds import KindOfRun
from zoo.gym.wiring import SOCKETS, wired


@pytest.mark.parametrize("need", SOCKETS)
def test_every_socket_has_something_to_call(need: str) -> None:
    plug = wired(need)
    assert isinstance(plug, KindOfRun) if need.startswith("run of ") else callable(plug)
