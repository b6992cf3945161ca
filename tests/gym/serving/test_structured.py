"""Answers in a form: what ends with `stop` is valid, and what cannot be enforced is refused."""

import asyncio
import json
import re
from typing import Any

import jsonschema
import numpy as np
import openai
import pytest
from openai import AsyncOpenAI

from tests.gym.serving.conftest import GREEDY, NAME, Served, scored, text_of
from zoo.gym.serving import answering
from zoo.gym.serving.run import ModelServer

CLOSED = {"additionalProperties": False}
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "mood": {"enum": ["né", '\u2603 "quoted"', "a\\b\nc", None, 3.5]},
        "home": {
            "type": "object",
            "properties": {"x": {"type": "number", "minimum": -1.5, "maximum": 9}},
            "required": ["x"],
            **CLOSED,
        },
    },
    "required": ["name", "mood", "home"],
    **CLOSED,
}
SCHEMAS: list[dict[str, Any]] = [
    PERSON,
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"const": "ß"}, {"type": ["null", "boolean"]}],
     "items": False},
    {"anyOf": [{"type": "string", "pattern": "^[a-z]{2,5}é$"}, {"$ref": "#/$defs/n"}],
     "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, **CLOSED}}},
]  # fmt: skip


def with_schema(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    stated = {"name": "answer", "schema": schema, "strict": True}
    messages = [{"role": "user", "content": "Say 2."}]
    form = {"type": "json_schema", "json_schema": stated}
    return {"model": NAME, "messages": messages, "response_format": form, "temperature": 1} | more


@pytest.mark.slow
def test_each_answer_that_stops_is_valid(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> list[tuple[Any, Any, Any]]:
        bodies = [
            with_schema(s, n=16, seed=16 * k, max_tokens=300) for s in SCHEMAS for k in (1, 2)
        ]
        answers = await asyncio.gather(*(client.chat.completions.create(**b) for b in bodies))
        schemas = [body["response_format"]["json_schema"]["schema"] for body in bodies]
        pairs = zip(schemas, answers, strict=True)
        return [(s, c.finish_reason, c.message.content) for s, a in pairs for c in a.choices]

    answers = served(ask, queue=200)
    stopped = [(schema, text) for schema, finish, text in answers if finish == "stop"]
    assert len(stopped) >= 100
    for schema, text in stopped:
        jsonschema.validate(json.loads(text), schema, jsonschema.Draft202012Validator)
    assert len({text for _, text in stopped}) > 60


def test_neighbours_of_an_answer_in_a_form_are_as_without_it(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> tuple[Any, Any, str | None]:
        alone = await scored(client, "ann", "Say 2.")
        body = with_schema(SCHEMAS[1], model="ann", max_tokens=60, seed=1)
        formed, beside = await asyncio.gather(
            client.chat.completions.create(**body), scored(client, "ann", "Say 2.")
        )
        return alone, beside, formed.choices[0].message.content

    alone, beside, text = served(ask)
    assert [token for token, _ in alone] == [token for token, _ in beside]
    assert [p for _, p in alone] == pytest.approx([p for _, p in beside], abs=1e-4)
    jsonschema.validate(json.loads(text), SCHEMAS[1])


def test_the_logprobs_of_an_answer_in_a_form_are_those_of_the_model(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> Any:
        body = with_schema({"const": "z"}, logprobs=True, max_tokens=8)
        return (await client.chat.completions.create(**body)).choices[0]

    choice = served(ask)
    assert (choice.message.content, choice.finish_reason) == ('"z"', "stop")
    assert all(token.logprob < -0.5 for token in choice.logprobs.content)  # 0 if only it is allowed


def test_other_forms_are_any_object_and_a_regular_expression(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> list[Any]:
        body = with_schema({}, max_tokens=100, seed=2)
        forms: list[dict[str, Any]] = [
            {"response_format": {"type": "json_object"}, "n": 8},
            {"response_format": {"type": "text"},
             "extra_body": {"structured_outputs": {"regex": r"\n[0-9]{3}é|\n"}}},
        ]  # fmt: skip
        return [await client.chat.completions.create(**body | form) for form in forms]

    objects, matched = served(ask)
    texts = [choice.message.content for choice in objects.choices if choice.finish_reason == "stop"]
    assert texts
    assert all(isinstance(json.loads(text), dict) for text in texts)
    assert re.fullmatch(r"\n[0-9]{3}é|\n", matched.choices[0].message.content)


def test_a_form_that_does_not_end_in_time_ends_with_length(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> Any:
        body = with_schema({"type": "string", "minLength": 50}, **GREEDY)
        return (await client.chat.completions.create(**body)).choices[0].finish_reason

    assert served(ask) == "length"


def test_an_answer_that_cannot_go_on_in_its_form_fails_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck:
        def allowed(self, size: int) -> Any:
            return np.zeros(size, np.bool_)

    monkeypatch.setattr(answering, "constraint_for", lambda *_: Stuck)

    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        stuck = client.chat.completions.create(**with_schema({}, **GREEDY))
        failed, beside = await asyncio.gather(
            stuck, text_of(client, "ann", "Say 2."), return_exceptions=True
        )
        assert isinstance(failed, openai.BadRequestError)
        assert "no token of the model continued" in failed.message
        assert beside == await text_of(client, "ann", "Say 2.")

    served(ask)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    ({"type": "object", "propertys": {}}, "propertys"),
    ({"properties": {"a": {"items": {"nullable": True}}}}, "nullable"),
    ({"type": "array", "uniqueItems": True, "x-guidance": {"lenient": True}}, "are enforced, got"),
    ({"type": "object", "minProperties": 2}, "minProperties"),
    ({"type": "strin"}, "strin"),
    ({"$ref": "#"}, "what an answer can be"),
    ({"enum": ["a" * 100_000]}, "at most 100,000 characters"),
    ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
    ({"type": "string", "pattern": "^(a{1000}){1000}$"}, "too many"),
]


def test_schemas_that_cannot_be_enforced_are_refused(served: Served) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        for schema, reason in REFUSED:
            with pytest.raises(openai.BadRequestError, match=reason) as caught:
                await client.chat.completions.create(**with_schema(schema, **GREEDY))
            assert caught.value.param == "response_format"
        twice = {"extra_body": {"structured_outputs": {"regex": "a"}}}
        with pytest.raises(openai.BadRequestError, match="got both"):
            await client.chat.completions.create(**with_schema({}, **twice))

    served(ask)
