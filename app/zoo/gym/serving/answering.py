"""Requests to answers: what is read of a request, and the computation of its answers."""

import asyncio
import secrets
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from zoo.gym.data import encode_prompt
from zoo.gym.errors import InputError
from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.humanize import today
from zoo.gym.serving.answers import Answer
from zoo.gym.serving.chats import ChatBody
from zoo.gym.serving.faults import request_error
from zoo.gym.serving.forms import Form
from zoo.gym.serving.replies import forced_call, require_calls
from zoo.gym.serving.structured import constraint_for
from zoo.gym.serving.variants import Asked, Models, sampling_for, vocabulary_of
from zoo.gym.serving.wire import Body, CompletionBody, RequestError

if TYPE_CHECKING:
    from fastapi import Request

B = TypeVar("B", bound=BaseModel)
T = TypeVar("T")

MOST_BYTES, BODY_S = 16_000_000, 60.0
"""The largest request, and the seconds that it may take to arrive."""

SMALL = 65_536
"""Characters of a text that take no time worth a look at the vocabulary."""


async def read(request: "Request", kind: type[B]) -> B:
    """Returns the body of a request.

    Raises:
        RequestError: a field is wrong.
        RefusedError: it is too large, or takes too long.
    """
    from zoo.gym.http_guard.requests import read_body

    return parsed(await read_body(request, MOST_BYTES, BODY_S), kind)


def parsed(raw: str | bytes, kind: type[B]) -> B:
    """Returns a request that is written in JSON.

    Raises:
        RequestError: a field is wrong.
    """
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise request_error(error, raw, kind) from None


async def chat_answers(models: Models, body: ChatBody) -> list[Answer]:
    """Returns the answers of a chat, of which nothing is computed yet.

    Raises:
        RequestError: a field is wrong.
        NotAvailableError: there is no such model.
    """
    asked = await models.ask(body.model, body.user_id)
    _check_size(models, asked, "messages", sum(len(turn.text) for turn in body.messages))
    ids = await asyncio.to_thread(_encoded, asked, body)
    forced = await asyncio.to_thread(_forced, asked, body)
    answers = await _answers(models, asked, body, [ids], body.form or forced)
    for answer in answers:
        # a form counts from the first token on: nothing else is in the answer
        answer.is_reply, answer.tools = body.form is None, body.offered
        answer.most_calls = body.most_calls
    return answers


def _forced(asked: Asked, body: ChatBody) -> Form | None:
    """Returns the form of an answer that has to call a tool."""
    if not body.forced:
        return None
    return "tool_choice", "call", forced_call(asked.tokenizer, body.forced)


async def completion_answers(models: Models, body: CompletionBody) -> list[Answer]:
    """Returns the answers of a completion; see `chat_answers`."""
    asked = await models.ask(body.model, body.user_id)
    texts = (len(prompt) for prompt in body.prompts() if isinstance(prompt, str))
    _check_size(models, asked, "prompt", max(texts, default=0))
    prompts = await asyncio.to_thread(_prompts, asked, body)
    return await _answers(models, asked, body, prompts, body.form)


def _check_size(models: Models, asked: Asked, param: str, characters: int) -> None:
    """Refuses a text that no tokens of the context can hold, before it is made into tokens.

    10 MB take 20 seconds of a processor for that, and gigabytes.

    Raises:
        RequestError: it is longer than as many of the longest token.
    """
    if characters <= max(models.positions, SMALL):
        return
    if characters > models.positions * max(map(len, asked.tokenizer.backend_tokenizer.get_vocab())):
        raise RequestError(
            f"{param}: expected a prompt within the model's context of {models.positions:,} "
            f"tokens, got {characters:,} characters",
            param=param,
        )


def _encoded(asked: Asked, body: ChatBody) -> list[int]:
    """Returns the tokens of a conversation.

    Raises:
        RequestError: the model's template refuses it.
    """
    turns, tools = body.turns(asked.system, asked.lessons), body.offered
    options = replace(asked.options, date=today(), thinking=body.thinking)
    try:
        if tools:
            require_calls(asked.tokenizer)
        return encode_prompt(turns, asked.tokenizer, options, tools)
    except InputError as error:
        params = {"data.lost_tools": "tools", "serving.no_tools": "tools"}
        params["data.no_thinking"] = "chat_template_kwargs"
        raise RequestError(error.message, param=params.get(error.code or "", "messages")) from None


def _prompts(asked: Asked, body: CompletionBody) -> list[list[int]]:
    """Returns the tokens of what is continued, of texts with those that the tokenizer adds."""
    encode = asked.tokenizer.backend_tokenizer.encode
    return [encode(prompt).ids if isinstance(prompt, str) else prompt for prompt in body.prompts()]


async def _answers(
    models: Models, asked: Asked, body: Body, prompts: list[list[int]], form: Form | None
) -> list[Answer]:
    constraint = None
    if form is not None:
        constraint = await asyncio.to_thread(constraint_for, asked, form)
    size = vocabulary_of(asked)
    if unknown := [token for token in body.logit_bias or () if not 0 <= token < size]:
        raise RequestError(
            f"logit_bias: expected tokens below {size}, got {unknown[0]}", param="logit_bias"
        )
    reload = partial(models.ask, body.model, body.user_id)
    seed = secrets.randbits(62) if body.seed is None else body.seed
    answers: list[Answer] = []
    for ids in prompts:
        drawn = body.sampling(models.sampling, len(ids), models.positions)
        for _ in range(body.n or 1):
            sampling = replace(sampling_for(asked, drawn), constraint=constraint)
            answer = Answer(asked, reload, ids, sampling, seed + len(answers))
            answer.scores_prompt, answer.ends_at_once = body.scores_prompt, body.most_tokens == 0
            answers.append(answer)
    if len(answers) > models.engine.most:
        raise RequestError(
            f"n: expected at most {models.engine.most} answers, got {len(answers)}", param="n"
        )
    return answers


async def compute(models: Models, answers: list[Answer]) -> None:
    """Computes all answers; when one fails, or this is cancelled, all are cancelled."""

    async def read(answer: Answer) -> None:
        async for _ in answer.pieces(models.engine):
            pass

    tasks = [asyncio.create_task(read(answer)) for answer in answers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def unless_gone(request: "Request", work: Coroutine[Any, Any, T]) -> T:
    """Returns what a coroutine returns, and cancels it when the client goes."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.create_task(gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RefusedError(499, "request: the connection ended")
        return working.result()
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
