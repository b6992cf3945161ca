"""The client of chat servers, against a real server on this machine that misbehaves."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.chat_server import ChatServer, Odd, chat_server
from tests.codes import raises
from zoo.backends.openai.chat import ChatModel, Endpoint
from zoo.backends.openai.failure import (
    TooLongError,
    UnreadableAnswerError,
)
from zoo.backends.openai.reply import Reply
from zoo.backends.openai.secrets import Secret
from zoo.backends.sampling import Sampling
from zoo.core.errors import GymError, InputError, InterruptedRunError, NotAvailableError

ASK = [{"role": "user", "content": "2 + 2"}]
SAMPLING = Sampling(max_new_tokens=16, temperature=0.5)
CANARY = "sk-canary/0123+456789"


class Chat:
    """A model on a server, with the waits and notices of its client."""

    def __init__(
        self, server: ChatServer, *, stream: bool, stall_s: float, key: str, queue_s: float = 60.0
    ) -> None:
        self.server = server
        self.waits: list[float] = []
        self.told: list[str] = []
        endpoint = Endpoint(
            "test", server.url, "m", stream=stream, stall_s=stall_s, queue_s=queue_s
        )
        self.model = ChatModel(
            endpoint, Secret(key), tell=self.told.append, pause=self.waits.append
        )

    def __call__(self, sampling: Sampling = SAMPLING, **more: Any) -> Reply:
        return self.model.chat(ASK, sampling, **more)


@contextmanager
def chat(
    *answers: "str | Odd",
    stream: bool = False,
    stall_s: float = 5.0,
    queue_s: float = 60.0,
    key: str = "",
) -> Iterator[Chat]:
    """A server that gives these answers in order, then the last one again."""
    with chat_server(lambda _, n: answers[min(n, len(answers) - 1)]) as server:
        found = Chat(server, stream=stream, stall_s=stall_s, queue_s=queue_s, key=key)
        with found.model:
            yield found


def error(message: str = "no", **fields: object) -> str:
    return json.dumps({"error": {"message": message, **fields}})


def events(*found: dict[str, Any]) -> str:
    return "".join(f"data: {json.dumps(one)}\n\n" for one in found)


def part(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_answer_arrives_with_its_counts(*, stream: bool) -> None:
    with chat("it is 4", stream=stream) as ask:
        reply = ask()
    assert (reply.text, reply.finish, reply.model) == ("it is 4", "stop", "m")
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (2, 2)


def test_the_sampling_reaches_the_server() -> None:
    with chat("4") as ask:
        ask(Sampling(max_new_tokens=9, temperature=0.25, top_p=0.5, top_k=3), schema={"type": "x"})
        body = ask.server.requests[0]
    assert (body["max_tokens"], body["temperature"], body["top_p"], body["top_k"]) == (
        9,
        0.25,
        0.5,
        3,
    )
    assert body["response_format"]["json_schema"]["schema"] == {"type": "x"}
    assert "stop" not in body


def test_stop_strings_reach_the_server() -> None:
    with chat("4") as ask:
        ask(Sampling(stop_strings=("\n", "Q:")))
        assert ask.server.requests[0]["stop"] == ["\n", "Q:"]


PASSING = {
    "429 in seconds": (Odd(429, error(), headers={"Retry-After": "7"}), 7.0),
    "429 in milliseconds": (Odd(429, error(), headers={"Retry-After-Ms": "250"}), 0.25),
    "429 at a date": (
        Odd(429, error(), headers={"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}),
        0,
    ),
    "429 in the body": (Odd(429, error("please try again in 1.5s")), 1.5),
    "429 in minutes and seconds": (Odd(429, error("Please try again in 6m0s. Bye")), 360.0),
    "429 in parts": (Odd(429, error(), headers={"Retry-After": "1m12.5s"}), 72.5),
    "429 in words": (Odd(429, error("retry after 5 minutes")), 300.0),
    "429 until a past time in ms": (
        Odd(429, error(), headers={"X-RateLimit-Reset": "978307200000"}),
        1.0,
    ),
    "429 by one of several limits": (
        Odd(429, error(), headers={"X-RateLimit-Reset-Requests": "17ms"}),
        1.0,
    ),
    "429 that links to billing": (
        Odd(429, error("see /account/billing"), headers={"Retry-After": "7"}),
        7.0,
    ),
    "500 with a limit of requests": (
        Odd(500, error(), headers={"X-RateLimit-Reset-Requests": "1h"}),
        1.0,
    ),
    "429 in minutes": (Odd(429, error("Rate limit resets in 2m")), 120.0),
    "429 without a time": (Odd(429, error()), 1.0),
    "a strange header": (Odd(429, error(), headers={"Retry-After": "soon"}), 1.0),
    "500": (Odd(500, error()), 1.0),
    "503 with a wait": (Odd(503, "<h1>down</h1>", headers={"Retry-After": "3"}), 3.0),
    "a reset connection": (Odd(reset=True), 1.0),
    "a cut body": (Odd(text="it is 4", cut=30), 1.0),
    "HTML in 200": (Odd(body="<html>log in</html>", content_type="text/html"), 1.0),
    "no JSON in 200": (Odd(body="out of cheese"), 1.0),
    "nested JSON in 200": (Odd(body="[" * 100_000), 1.0),
    "no choices": (Odd(body='{"choices": []}'), 1.0),
    "an error in 200": (Odd(body=error("overloaded", code=503)), 1.0),
    "a stall": (Odd(text="it is 4", stall_s=1.5), 1.0),
    "a huge body": (Odd(body=" " * 17_000_000), 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize(("odd", "wait_s"), PASSING.values(), ids=PASSING)
def test_a_failure_that_passes_is_repeated_when_the_server_wants_it(
    odd: Odd, wait_s: float
) -> None:
    with chat(odd, "it is 4", stall_s=0.5) as ask:
        assert ask().text == "it is 4"
    assert ask.waits == [wait_s]


CUT_STREAMS = {
    "without a finish reason": Odd(text="it is 4", finish=None),
    "in the middle": Odd(text="it is 4", cut=150),
    "that stalls": Odd(text="it is 4", stall_s=1.5),
    "with an error in it": Odd(body=f"data: {error('lost')}\n\n", content_type="text/event-stream"),
}


@pytest.mark.slow
@pytest.mark.parametrize("odd", CUT_STREAMS.values(), ids=CUT_STREAMS)
def test_a_stream_without_its_end_is_repeated(odd: Odd) -> None:
    with chat(odd, "it is 4", stream=True, stall_s=0.5) as ask:
        assert ask().text == "it is 4"
    assert ask.waits == [1.0]


PARTS = [{"type": "text", "text": "it "}, {"type": "text", "text": "is 4"}]


def with_content(content: object, *, stream: bool) -> Odd:
    if not stream:
        return Odd(text="", message={"content": content})
    body = events({"choices": [{"delta": {"content": content}, "finish_reason": "stop"}]})
    return Odd(body=body, content_type="text/event-stream")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("content", "text"), [(PARTS, "it is 4"), ([], ""), (None, "")])
def test_an_answer_may_be_in_parts(content: object, text: str, *, stream: bool) -> None:
    with chat(with_content(content, stream=stream), stream=stream) as ask:
        assert ask().text == text


NO_TEXT = [[{"type": "image_url", "image_url": {}}], [*PARTS, 5], [{"type": "text"}], {"a": 1}, 4]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("content", NO_TEXT, ids=str)
def test_an_answer_that_is_no_text_is_refused_and_not_scored(
    content: object, *, stream: bool
) -> None:
    with chat(with_content(content, stream=stream), stream=stream) as ask:
        with pytest.raises(UnreadableAnswerError, match="expected text or parts of type text"):
            ask()
        assert ask.waits == []


ENDING: dict[str, tuple[Odd, type[GymError], str]] = {
    "401": (Odd(401, error("bad key")), NotAvailableError, "the key was refused"),
    "403": (Odd(403, error()), NotAvailableError, "the key was refused"),
    "404": (Odd(404, error("no model m")), NotAvailableError, "no such model"),
    "402": (Odd(402, error("add credit")), InterruptedRunError, "spent: add credit"),
    "a spent quota": (
        Odd(429, error("x", code="insufficient_quota")),
        InterruptedRunError,
        "quota or credit is spent",
    ),
    "no credit in 200": (Odd(body=error("pay", code=402)), InterruptedRunError, "credit is spent"),
    "a wait of hours": (
        Odd(429, error(), headers={"Retry-After": "7200"}),
        InterruptedRunError,
        "asks to wait 7,200 s",
    ),
    "always 500": (Odd(500, error("boom")), InterruptedRunError, "boom (after 6 attempts)"),
    "a full context": (
        Odd(400, error("maximum context length is 8", code="context_length_exceeded")),
        TooLongError,
        "longer than the model can read",
    ),
    "llama.cpp's full context": (
        Odd(400, error("the request exceeds the available context size (4096)")),
        TooLongError,
        "longer than the model can read",
    ),
    "a context that is only mentioned": (
        Odd(400, error("role 'tool' is malformed; this model has a context window of 128000")),
        InputError,
        "the request was refused (HTTP 400): role 'tool'",
    ),
    "a refused request": (Odd(400, error("no")), InputError, "refused (HTTP 400): no"),
}


@pytest.mark.parametrize(("odd", "kind", "said"), ENDING.values(), ids=ENDING)
def test_a_failure_that_stays_is_a_sentence(odd: Odd, kind: type[GymError], said: str) -> None:
    with chat(odd) as ask, pytest.raises(kind) as caught:
        ask()
    assert said in caught.value.message
    assert caught.value.message.startswith("test at 127.0.0.1:")


LM_STUDIO = '{"error":"Unexpected endpoint or method. (POST /chat/completions)"}'
NO_CHATS = {
    "LM Studio": Odd(body=LM_STUDIO),
    "Ollama": Odd(404, "404 page not found", content_type="text/plain"),
    "a page": Odd(body="<!doctype html><title>hi</title>", content_type="text/html"),
    "another method": Odd(405, error("Method Not Allowed")),
    "a server of files": Odd(501, "<h1>Unsupported method ('POST')</h1>"),
}


@pytest.mark.parametrize("odd", NO_CHATS.values(), ids=NO_CHATS)
def test_an_address_without_v1_is_named_at_once(odd: Odd) -> None:
    waits: list[float] = []
    with chat_server(lambda _, __: odd) as server:
        url = server.url.removesuffix("/v1")
        model = ChatModel(Endpoint("test", url, "m"), pause=waits.append)
        with model, raises("openai.no_such_model") as caught:
            model.chat(ASK, SAMPLING)
    assert (len(server.requests), waits) == (1, [])
    assert caught.value.hint == f"most servers answer below /v1: {url}/v1"


def test_another_wrong_address_is_named_at_once_too() -> None:
    with chat(Odd(body=LM_STUDIO)) as ask, raises("openai.no_such_model") as caught:
        ask()
    assert ask.waits == []
    assert "/v1" not in str(caught.value.hint)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_refused_and_the_key_stays_here(status: int) -> None:
    with (
        chat("4") as thief,
        chat(Odd(status, headers={"Location": thief.server.url}), key=CANARY) as ask,
    ):
        with raises("openai.redirected"):
            ask()
        assert thief.server.requests == []


def test_a_server_that_is_not_there_is_not_available() -> None:
    waits: list[float] = []
    with chat_server(lambda _, __: "") as server:
        endpoint = Endpoint("gone", server.url, "m")
    with (
        ChatModel(endpoint, pause=waits.append) as model,
        pytest.raises(NotAvailableError, match="cannot be reached"),
    ):
        model.chat(ASK, SAMPLING)
    assert waits == [1, 2]


def test_a_refused_parameter_is_left_out_and_reported_once() -> None:
    def respond(body: dict[str, Any], _: int) -> "str | Odd":
        for name in ("max_tokens", "top_k"):
            if name in body:
                return Odd(400, error(f"Unsupported parameter: '{name}'"))
        return str(body["max_completion_tokens"])

    with chat_server(respond) as server:
        ask = Chat(server, stream=False, stall_s=5, key="")
        heated = Sampling(max_new_tokens=16, top_k=4)
        with ask.model:
            assert [ask(heated).text, ask(heated).text] == ["16", "16"]
    assert len(server.requests) == 4
    assert [line.partition(": ")[2] for line in ask.told] == [
        "max_tokens is not accepted: it is sent as max_completion_tokens",
        "top_k is not accepted: it is left out from now on, without effect",
    ]


def test_what_llama_cpp_cannot_do_is_left_out_and_said() -> None:
    def respond(body: dict[str, Any], _: int) -> "str | Odd":
        if "response_format" in body:
            said = 'Either "json_schema" or "grammar" can be specified, but not both'
            return Odd(400, error(said))
        return str(body["cache_prompt"])

    with chat_server(respond) as server:
        ask = Chat(server, stream=False, stall_s=5, key="")
        with ask.model:
            answers = [ask(Sampling(), schema={"type": "x"}).text for _ in range(2)]
    assert (answers, len(server.requests)) == (["True", "True"], 3)
    assert [line.partition(": ")[2] for line in ask.told] == [
        "response_format is not accepted: it is left out from now on, without effect"
    ]


def test_only_servers_of_this_machine_are_told_to_keep_a_prompt() -> None:
    far = ChatModel(Endpoint("far", "https://far.example/v1", "m"))
    assert "cache_prompt" not in far._body([], Sampling(), None, None)


def test_a_limit_of_answers_is_never_left_out() -> None:
    def respond(body: dict[str, Any], _: int) -> Odd:
        name = next(name for name in body if name.startswith("max_"))
        return Odd(400, error(f"unknown parameter {name}"))

    with chat_server(respond) as server:
        ask = Chat(server, stream=False, stall_s=5, key="")
        with ask.model, raises("openai.parameter_refused", "limits the length"):
            ask()


def test_a_refusal_and_reasoning_are_kept() -> None:
    odd = Odd(text="", finish="content_filter", message={"refusal": "I will not"})
    thinking = Odd(text="4", message={"reasoning_content": "2 and 2"})
    with chat(odd, thinking) as ask:
        first, second = ask(), ask()
    assert (first.text, first.finish) == ("I will not", "content_filter")
    assert (second.text, second.reasoning) == ("4", "2 and 2")


ABSURD: list[object] = [
    None,
    {},
    {"prompt_tokens": -1, "completion_tokens": 2},
    {"prompt_tokens": True, "completion_tokens": 2},
    {"prompt_tokens": 2.5, "completion_tokens": 2},
    {"prompt_tokens": 1, "completion_tokens": 2, "prompt_cache_hit_tokens": 9},
    {"prompt_tokens": 10**40, "completion_tokens": 2},
]


@pytest.mark.parametrize("usage", ABSURD, ids=str)
def test_counts_that_make_no_sense_are_none(usage: object) -> None:
    with chat(Odd(text="4", usage=usage)) as ask:
        assert ask().usage is None


def test_halves_of_a_character_in_two_events_are_one_and_lone_ones_are_replaced() -> None:
    def event(text: str, finish: str | None = None) -> str:
        choice = {"delta": {"content": text}, "finish_reason": finish}
        return f"data: {json.dumps({'choices': [choice]})}\n\n"

    body = event("a \ud83d") + event("\ude00 b \ud83d", "stop")
    odd = Odd(body=body, content_type="text/event-stream")
    with chat(odd, odd, "fine", stream=True) as ask:
        said = ask().text
        assert said == "a \U0001f600 b \ufffd"
        assert ask.model.chat([{"role": "user", "content": "x \ud83d"}], SAMPLING).text == said
        assert ask().text == "fine"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:80/v1", "http://[::1]/v1", "http://localhost/v1"]
)
def test_plain_http_is_for_this_machine(url: str) -> None:
    assert Endpoint("test", url, "m").url == url
