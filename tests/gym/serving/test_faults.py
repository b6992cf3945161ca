"""Wrong requests are refused in our words, by the path of the field as it was sent."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from zoo.gym.serving.answering import parsed
from zoo.gym.serving.chats import ChatBody
from zoo.gym.serving.responses import ResponsesBody
from zoo.gym.serving.tuning.requests import JobBody
from zoo.gym.serving.wire import CompletionBody, RequestError

SENT: dict[type[BaseModel], dict[str, Any]] = {
    ChatBody: {"model": "m", "messages": [{"role": "user", "content": "a"}]},
    CompletionBody: {"model": "m", "prompt": "a"},
    ResponsesBody: {"model": "m", "input": "a"},
    JobBody: {"model": "m", "training_file": "file-1"},
}
SCHEMA = {"type": "object", "properties": {}}
MOVED = "no such field; did you mean response_format.json_schema.schema?"
ROLES = "'system', 'developer', 'user', 'assistant' or 'tool'"
NAMED = "expected 1 to 64 of a-z, 0-9, '.', '_', '-', the first of them a letter"


def turn(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "a"} | fields]}


def epochs(value: Any) -> dict[str, Any]:
    return {"hyperparameters": {"n_epochs": value}}


def form(**fields: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema"} | fields}


WRONG: list[tuple[type[BaseModel], dict[str, Any], str]] = [
    (ChatBody, {"max_token": 5}, "max_token: no such field; did you mean max_tokens?"),
    (ChatBody, {"zzz": 5}, "zzz: no such field"),
    (ChatBody, {"input": "a"}, "input: no such field; did you mean messages?"),
    (CompletionBody, {"messages": []}, "messages: no such field; did you mean prompt?"),
    (ResponsesBody, {"messages": []}, "messages: no such field; did you mean input?"),
    (
        ResponsesBody,
        {"max_tokens": 5},
        "max_tokens: no such field; did you mean max_output_tokens?",
    ),
    (ChatBody, turn(contents="a"), "messages.0.contents: no such field; did you mean content?"),
    (ChatBody, turn(role="bot"), f"messages.0.role: expected {ROLES}, got 'bot'"),
    (ChatBody, turn(content=5), "messages.0.content: expected text or a list, got 5"),
    (ChatBody, turn(content=["a"]), "messages.0.content.0: expected an object, got 'a'"),
    (ChatBody, turn(name="ann"), "messages.0.name: expected null, got 'ann'"),
    (ChatBody, {"messages": "a"}, "messages: expected a list, got 'a'"),
    (ChatBody, {"temperature": 3}, "temperature: expected at most 2, got 3"),
    (ChatBody, {"n": True}, "n: expected a whole number, got true"),
    (ChatBody, {"stop": [""]}, "stop: expected up to 16 texts of 1 to 1000 characters"),
    (ChatBody, {"reasoning_effort": "high"}, "reasoning_effort: expected 'none', got 'high'"),
    (ChatBody, form(schema=SCHEMA), f"response_format.schema: {MOVED}"),
    (ChatBody, form(json_schema=SCHEMA), f"response_format.json_schema.type: {MOVED}"),
    (CompletionBody, {"prompt": [True]}, "prompt.0: expected text, a whole number or a list"),
    (JobBody, epochs("x"), "hyperparameters.n_epochs: expected 'auto' or a whole number, got 'x'"),
    (JobBody, epochs(0), "hyperparameters.n_epochs: expected 'auto' or at least 1, got 0"),
    (JobBody, {"suffix": "Ann B"}, f"suffix: {NAMED}, got 'Ann B'"),
    (JobBody, {"metadata": {"a": 1}}, "metadata.a: expected text, got 1"),
]


@pytest.mark.parametrize(("kind", "fields", "message"), WRONG)
def test_a_wrong_field_is_refused_with_what_was_expected(
    kind: type[BaseModel], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        parsed(json.dumps(SENT[kind] | fields), kind)
    assert caught.value.message.startswith(message)
    assert caught.value.param == message.partition(":")[0].partition(".")[0]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("{", "body: expected JSON: EOF while parsing an object"),
        ("[]", "body: expected an object, got an empty list"),
        ("{}", "model: expected a value, got nothing"),
        (b'{"model": "\xff"}', "body: expected JSON: invalid"),
    ],
    ids=str,
)
def test_a_body_that_is_no_request_is_refused(raw: str | bytes, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        parsed(raw, ChatBody)
    assert caught.value.message.startswith(message)


def test_images_are_refused_by_name() -> None:
    part: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:,"}}
    body = parsed(json.dumps(SENT[ChatBody] | turn(content=[part])), ChatBody)
    with pytest.raises(RequestError, match=r"^messages: images are not supported: expected text$"):
        body.turns("", str)
    item = {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}
    answer = parsed(json.dumps({"model": "m", "input": [item]}), ResponsesBody)
    with pytest.raises(RequestError, match=r"images are not supported: expected text$"):
        answer.chat()


def test_a_part_of_text_has_nothing_but_text() -> None:
    for part in ({"type": "text", "text": 5}, {"type": "text", "text": "a", "cache": {}}):
        body = parsed(json.dumps(SENT[ChatBody] | turn(content=[part])), ChatBody)
        with pytest.raises(RequestError, match="expected text in a part of type text"):
            body.turns("", str)


def test_a_field_of_a_response_is_called_as_it_was_sent() -> None:
    with pytest.raises(RequestError, match=r"^input: expected 'system'.* got 'bot'$"):
        parsed(
            json.dumps({"model": "m", "input": [{"role": "bot", "content": "a"}]}), ResponsesBody
        ).chat()
