"""The tests' server is a server of chats also to the official client, with strict validation."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.chat_server import Body, ChatServer, Odd, chat_server

openai: Any = pytest.importorskip("openai", reason="needs the official client of OpenAI")

TURNS = [{"role": "user", "content": "Say hello."}]


def respond(body: Body, _: int) -> "str | Odd":
    if body["model"] == "busy":
        return Odd(429, '{"error": {"message": "slow down"}}', headers={"Retry-After": "7"})
    if body["model"] == "closed":
        return Odd(401, '{"error": {"message": "no"}}')
    return "hello there"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(respond) as found:
        yield found


def client(server: ChatServer) -> Any:
    options = {"max_retries": 0, "_strict_response_validation": True}
    return openai.OpenAI(base_url=server.url, api_key="key", **options)


def test_an_answer_is_a_valid_completion(server: ChatServer) -> None:
    with client(server) as own:
        found = own.chat.completions.create(model="m", messages=TURNS, max_tokens=9)
    assert found.choices[0].message.content == "hello there"
    assert found.choices[0].finish_reason == "stop"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (3, 3)
    assert (server.requests[0]["messages"], server.requests[0]["max_tokens"]) == (TURNS, 9)
    headers = {name.lower(): value for name, value in server.headers[0].items()}
    assert headers["authorization"] == "Bearer key"


def test_a_stream_is_one_of_valid_chunks(server: ChatServer) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    with client(server) as own:
        chunks = list(own.chat.completions.create(model="m", messages=TURNS, **options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "hello there"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens == 6


@pytest.mark.parametrize(("model", "name"), [("busy", "RateLimit"), ("closed", "Authentication")])
def test_a_refusal_is_the_error_of_its_status(server: ChatServer, model: str, name: str) -> None:
    with client(server) as own, pytest.raises(getattr(openai, f"{name}Error")):
        own.chat.completions.create(model=model, messages=TURNS)
    assert len(server.requests) == 1
