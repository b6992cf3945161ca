"""Who may ask a server, and for what."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from openai import AsyncOpenAI

from zoo.gym.cli import main
from zoo.gym.errors import InputError
from zoo.gym.serving.run import ModelServer

Served = Callable[..., Any]


def test_another_machine_asks_by_an_allowed_name_with_the_token(served: Served) -> None:
    async def ask(server: ModelServer, _: AsyncOpenAI) -> list[int]:
        port = urlsplit(server.url).port
        assert server.url == f"http://gym.lan:{port}"
        token = {"Authorization": f"Bearer {server.token}"}
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            asked = [token | {"Host": "gym.lan"}, token, {"Host": "gym.lan"}]
            asked.append(token | {"Host": "other.lan"})
            return [(await http.get("/v1/models", headers=each)).status_code for each in asked]

    assert served(ask, host="0.0.0.0", names=("gym.lan",)) == [200, 200, 401, 403]
    with pytest.raises(InputError, match="token: expected one for other machines"):
        served(ask, host="0.0.0.0", names=("gym.lan",), needs_token=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "--host: 0.0.0.0: expected what others call it"),
        (["--host", "192.0.2.1", "--no-token"], "token: expected one for other machines"),
        (["--cors", "*"], "--cors: expected a page's address"),
        (["--allow-host", "a:1"], "--allow-host: expected a host name"),
    ],
    ids=lambda each: str(each[0]),
)
def test_an_address_that_would_not_be_safe_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--model", "zen-pico", *words]) == 2
    assert message in capsys.readouterr().err
