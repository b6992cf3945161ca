"""Requests that are nonsense get an error in OpenAI's form, and no field of another type counts."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from httpx2 import AsyncClient, Response
from openai import AsyncOpenAI

from tests.gym.serving.conftest import NAME, Served
from zoo.gym.serving import answering
from zoo.gym.serving.answering import parsed
from zoo.gym.serving.answers import Answer
from zoo.gym.serving.run import ModelServer
from zoo.gym.serving.tuning.files import Files
from zoo.gym.serving.tuning.requests import JobBody, settings_of
from zoo.gym.serving.wire import CompletionBody

CHAT = {"model": NAME, "messages": [{"role": "user", "content": "abc"}], "max_tokens": 2}
TEXT = {"model": NAME, "prompt": "abc", "max_tokens": 2}
INPUT = {"model": NAME, "input": "abc", "max_output_tokens": 2}
ROUTES: dict[str, dict[str, Any]] = {
    "chat/completions": CHAT,
    "completions": TEXT,
    "responses": INPUT,
}


Sent = Callable[..., list[Response]]


@pytest.fixture
def sent(served: Served) -> Sent:
    """Returns the responses to requests of a method, a path and arguments of httpx."""

    def send(*requests: tuple[str, str, dict[str, Any]]) -> list[Response]:
        async def ask(server: ModelServer, client: AsyncOpenAI) -> list[Response]:
            head = {"Authorization": f"Bearer {client.api_key}"}
            async with AsyncClient(base_url=f"{server.url}/v1/", headers=head) as http:
                return [await http.request(method, path, **kw) for method, path, kw in requests]

        responses: list[Response] = served(ask)
        return responses

    return send


def problem(response: Response) -> tuple[int, str | None]:
    """The status, and the field that an error in OpenAI's form names."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return response.status_code, error["param"]


WRONG: dict[str, list[dict[str, Any]]] = {
    "chat/completions": [
        *({"n": "2"}, {"max_tokens": True}, {"max_tokens": 2.5}, {"temperature": "1"}),
        *({"stream": "yes"}, {"logprobs": 1}, {"logit_bias": {" 1": 3}}, {"logit_bias": {"01": 3}}),
        *({"stream": True, "stream_options": {"include": True}}, {"parallel_tool_calls": "no"}),
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": 1e999}}}]},
    ],
    "completions": [{"prompt": [True]}, {"prompt": [1.0]}, {"echo": "on"}, {"seed": "1"}],
    "responses": [
        *({"metadata": 5}, {"metadata": {"a": 1}}, {"stream_options": 5}, {"stream": "yes"}),
        *({"tools": [{"type": "function", "name": "f", "parameters": {"a": 1e999}}]},),
    ],
}


def test_a_field_of_another_type_is_refused_by_name(sent: Sent) -> None:
    cases = [(path, fields) for path, many in WRONG.items() for fields in many]
    responses = sent(
        # json.dumps writes Infinity, which is no JSON and which pydantic reads
        *(("POST", path, {"content": json.dumps(ROUTES[path] | more)}) for path, more in cases)
    )
    expected = [(400, list(fields)[-1]) for _, fields in cases]
    assert [problem(response) for response in responses] == expected


def test_a_query_that_a_list_does_not_follow_is_refused(
    sent: Sent,
) -> None:
    upload = {"files": {"file": ("a.jsonl", b"x")}, "data": {"purpose": "fine-tune"}}
    first, second, *lists, refused = sent(
        ("POST", "files", upload),
        ("POST", "files", upload),
        ("GET", "files?purpose=fine-tune&order=asc", {}),
        ("GET", "files?order=desc", {}),
        ("GET", "files?purpose=batch", {}),
        ("GET", "fine_tuning/jobs?metadata[a]=b", {}),
    )
    ids = [[file["id"] for file in each.json()["data"]] for each in lists]
    assert ids[0] == ids[1][::-1]
    assert set(ids[0]) == {first.json()["id"], second.json()["id"]}
    assert ids[2] == []
    assert problem(refused) == (400, "metadata[a]")


def test_a_field_of_an_upload_counts_once(sent: Sent) -> None:
    fields = {"purpose": ["assistants", "fine-tune"]}
    [answer] = sent(("POST", "files", {"files": {"file": ("a.jsonl", b"x")}, "data": fields}))
    assert problem(answer) == (400, None)


def test_a_method_that_a_route_lacks_is_answered_with_those_it_has(
    sent: Sent,
) -> None:
    [answer] = sent(("PUT", "models", {}))
    assert problem(answer) == (405, None)
    assert answer.headers["allow"] == "GET"


def test_a_path_without_a_route_is_quoted(sent: Sent) -> None:
    beside = "; routes begin with /v1"
    cases = {
        ("GET", "../models"): f"no such route: /models{beside}",
        ("POST", "../chat/completions"): f"no such route: /chat/completions{beside}",
        ("GET", "../files/file-1"): f"no such route: /files/file-1{beside}",
        ("GET", "Nothing"): "no such route: /v1/Nothing",
    }
    answers = sent(*((method, path, {}) for method, path in cases))
    assert [answer.json()["error"]["message"] for answer in answers] == list(cases.values())
    assert [answer.status_code for answer in answers] == [404] * len(cases)


def test_a_removal_that_was_cut_off_leaves_a_list_without_the_file(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> list[str]:
        ids = [
            (await client.files.create(file=("a.jsonl", b"x"), purpose="fine-tune")).id
            for _ in range(2)
        ]
        (Files().content(ids[0]).parent / "file.json").unlink()
        assert [file.id async for file in client.files.list()] == ids[1:]
        return ids

    served(ask)


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_fault_of_ours_ends_an_answer_with_an_error(
    sent: Sent, monkeypatch: pytest.MonkeyPatch, path: str, stream: bool
) -> None:
    async def broken(*_: object) -> Any:
        raise KeyError("/home/ann/secret")
        yield

    monkeypatch.setattr(Answer, "pieces", broken)
    [answer] = sent(("POST", path, {"json": ROUTES[path] | {"stream": stream}, "timeout": 10}))
    assert problem(answer) == (500, None)
    assert "secret" not in answer.text


def test_a_text_far_past_the_context_is_refused_before_it_is_encoded(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(*_: object) -> Any:
        raise AssertionError("it was encoded")

    monkeypatch.setattr(answering, "encode_prompt", encode)
    monkeypatch.setattr(answering, "_prompts", encode)
    text = "a" * 10_000_000
    chat = CHAT | {"messages": [{"role": "user", "content": text}]}
    bodies = {"chat/completions": chat, "completions": TEXT | {"prompt": text}}
    responses = sent(*(("POST", path, {"json": body}) for path, body in bodies.items()))
    assert list(map(problem, responses)) == [(400, "messages"), (400, "prompt")]


LONG = "a " * 1000
MESSAGES = [{"role": "user", "content": LONG}]


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("chat/completions", {"messages": MESSAGES}, "messages: expected at most 511 tokens, got "),
        ("completions", {"prompt": LONG}, "prompt: expected at most 511 tokens, got "),
        ("responses", {"input": LONG}, "input: expected at most 511 tokens, got "),
        ("chat/completions", {"max_tokens": 9999}, "max_tokens: expected at most "),
        (
            "chat/completions",
            {"max_tokens": None, "max_completion_tokens": 9999},
            "max_completion_tokens: expected at most ",
        ),
        ("responses", {"max_output_tokens": 9999}, "max_output_tokens: expected at most "),
    ],
)
def test_a_text_or_an_answer_past_the_context_is_refused_by_the_field_that_was_sent(
    sent: Sent, path: str, fields: dict[str, Any], message: str
) -> None:
    [answer] = sent(("POST", path, {"json": ROUTES[path] | fields}))
    assert problem(answer) == (400, message.partition(":")[0])
    assert answer.json()["error"]["message"].startswith(message)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    raw = '{"model": "x", "prompt": "a", "max_tokens": 2.0, "seed": 3.0}'
    body = parsed(raw, CompletionBody)
    assert (body.max_tokens, body.seed) == (2, 3)
    assert isinstance(body.seed, int)
    job = '{"model": "x", "training_file": "f", "hyperparameters": {"n_epochs": 2.0}}'
    assert settings_of(parsed(job, JobBody)) == {"num_train_epochs": 2}
