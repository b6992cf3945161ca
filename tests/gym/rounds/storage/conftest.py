"""Every kind of storage, empty, for the tests of what they have in common."""

import itertools
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.gym.http_guard.toy import running
from zoo.gym.rounds.server.run import CommunityLearningServer, server_config
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.http import open_storage

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def shared_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[tuple[CommunityLearningServer, Path]]:
    """A server for many tests, and the home of who runs it."""
    top = tmp_path_factory.mktemp("server")
    config = server_config({"folder": top / "served", "port": 0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_GYM_HOME", str(top / "home"))
        server = CommunityLearningServer(None, config)
        with running(server):
            yield server, top / "home"


@pytest.fixture
def server(
    shared_server: tuple[CommunityLearningServer, Path], monkeypatch: pytest.MonkeyPatch
) -> CommunityLearningServer:
    """A server whose tokens are kept, with nothing seen of any round."""
    found, home = shared_server
    monkeypatch.setenv("ZOO_GYM_HOME", str(home))
    for name in ("seen", "own", "places", "work"):
        shutil.rmtree(home / "data" / "rounds" / name, ignore_errors=True)
    return found


@pytest.fixture
def address(server: CommunityLearningServer) -> str:
    """The address of a round that nobody has started."""
    return f"{server.url}/rounds/r{next(_NUMBERS)}"


@pytest.fixture(scope="session")
def s3_server() -> Generator[str]:
    """A server that speaks S3, in this process: moto's."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty prefix of a bucket."""
    from s3fs import S3FileSystem

    values = {"AWS_ENDPOINT_URL": s3_server, "AWS_DEFAULT_REGION": "us-east-1"}
    values |= {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    name = tmp_path.name.replace("_", "-").lower()[-40:].strip("-")
    S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}/rounds/summer"


@pytest.fixture(params=["folder", "http", pytest.param("s3", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty storage of each kind."""
    if request.param == "http":
        return open_storage(request.getfixturevalue("address"))
    request.getfixturevalue("storage")  # a home
    if request.param == "s3":
        return open_storage(request.getfixturevalue("bucket"))
    return open_storage(str(tmp_path / "summer"))
