"""The routes of a server: what programs that speak OpenAI's API ask for."""

import asyncio
import json
import secrets
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from zoo.gym.data import encode_prompt
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.http_guard.requests import read_body
from zoo.gym.serving import wire
from zoo.gym.serving.answers import Answer
from zoo.gym.serving.engine import BusyError, FailedError
from zoo.gym.serving.logprobs import (
    Score,
    chat_logprobs,
    completion_logprobs,
    prompt_scores,
)
from zoo.gym.serving.structured import constraint_for
from zoo.gym.serving.variants import Asked, Models, sampling_for, today, vocabulary_of

B = TypeVar("B", bound=wire.Body)
T = TypeVar("T")

MOST_BYTES, BODY_S = 16_000_000, 60.0
"""The largest request, and the seconds that it may take to arrive."""


def build(models: Models) -> FastAPI:
    """Returns the application."""
    app = FastAPI(title="zoo-gym", docs_url=None, redoc_url=None, openapi_url=None)
    for kind in (GymError, HTTPException, ValueError, KeyError):
        app.add_exception_handler(kind, _answer_error)
    started = int(time.time())

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        ids = await asyncio.to_thread(models.ids)
        return {"object": "list", "data": [_model(each, started) for each in ids]}

    @app.get("/v1/models/{name:path}")
    async def show_model(name: str) -> dict[str, Any]:
        await models.ask(name)
        return _model(name, started)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await _read(request, wire.ChatBody)
        asked = await models.ask(body.model)
        turns = body.turns(asked.system, asked.lessons)
        if not turns or turns[-1].role != "user":
            got = turns[-1].role if turns else "none"
            raise wire.RequestError(
                f"messages: expected the user's turn last, got {got}", param="messages"
            )
        options = replace(asked.options, date=today())
        ids = await asyncio.to_thread(encode_prompt, turns, asked.tokenizer, options)
        answers = await _answers(models, asked, body, [ids], stripped=True)
        return await _respond(request, models, _Chat(body), answers)

    @app.post("/v1/completions")
    async def complete(request: Request) -> Response:
        body = await _read(request, wire.CompletionBody)
        asked = await models.ask(body.model)
        prompts = await asyncio.to_thread(_prompts, asked, body)
        answers = await _answers(models, asked, body, prompts, stripped=False)
        return await _respond(request, models, _Completion(body), answers)

    return app


def _model(name: str, started: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": started, "owned_by": "zoo-gym"}


async def _read(request: Request, kind: type[B]) -> B:
    raw = await read_body(request, MOST_BYTES, BODY_S)
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        message = f"{where}: {fault['msg']}" if where else fault["msg"]
        param = str(fault["loc"][0]) if fault["loc"] else None
        raise wire.RequestError(message, param=param) from None


def _prompts(asked: Asked, body: wire.CompletionBody) -> list[list[int]]:
    """Returns the tokens of what is continued, of texts with those that the tokenizer adds."""
    encode = asked.tokenizer.backend_tokenizer.encode
    return [encode(prompt).ids if isinstance(prompt, str) else prompt for prompt in body.prompts()]


async def _answers(
    models: Models, asked: Asked, body: wire.Body, prompts: list[list[int]], *, stripped: bool
) -> list[Answer]:
    """Returns the answers of a request, of which nothing is computed yet."""
    constraint = None
    if (form := body.form) is not None:
        constraint = await asyncio.to_thread(constraint_for, asked, form)
        stripped = False  # a regular expression may begin or end with a new line
    _check_bias(asked, body)
    seed = secrets.randbits(62) if body.seed is None else body.seed
    answers: list[Answer] = []
    for ids in prompts:
        drawn = body.sampling(models.sampling, models.positions - len(ids))
        for _ in range(body.n or 1):
            sampling = replace(sampling_for(asked, drawn), constraint=constraint)
            answer = Answer(asked, ids, sampling, seed + len(answers), stripped)
            answer.scores_prompt, answer.ends_at_once = body.scores_prompt, body.most_tokens == 0
            answers.append(answer)
    if len(answers) > models.engine.most:
        raise wire.RequestError(
            f"n: expected at most {models.engine.most} answers, got {len(answers)}", param="n"
        )
    return answers


def _check_bias(asked: Asked, body: wire.Body) -> None:
    size = vocabulary_of(asked)
    if unknown := [token for token in body.logit_bias or () if not 0 <= token < size]:
        raise wire.RequestError(
            f"logit_bias: expected tokens below {size}, got {unknown[0]}", param="logit_bias"
        )


class _Chat:
    """The form of a chat's responses."""

    prefix, kind, piece = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, body: wire.ChatBody) -> None:
        self.body = body

    def whole(self, index: int, answer: Answer) -> dict[str, Any]:
        logprobs = self.logprobs(self.scores(answer), 0)
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        return {
            "index": index,
            "message": message,
            "logprobs": logprobs,
            "finish_reason": answer.finish,
        }

    def opening(self, index: int) -> dict[str, Any] | None:
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def part(self, index: int, text: str, logprobs: Any, finish: str | None) -> dict[str, Any]:  # noqa: ANN401
        delta = {"content": text} if text else {}
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}

    def scores(self, answer: Answer) -> list[Score]:
        return answer.scored()

    def logprobs(self, scores: list[Score], start: int) -> Any:  # noqa: ANN401
        return chat_logprobs(scores[start:]) if self.body.logprobs else None


class _Completion:
    """The form of a completion's responses."""

    prefix, kind, piece = "cmpl", "text_completion", "text_completion"

    def __init__(self, body: wire.CompletionBody) -> None:
        self.body = body

    def whole(self, index: int, answer: Answer) -> dict[str, Any]:
        scores, text = self.scores(answer), answer.text
        if self.body.echo:
            prompt = self.body.prompts()[index // (self.body.n or 1)]
            tokenizer = answer.asked.tokenizer
            text = (prompt if isinstance(prompt, str) else tokenizer.decode(prompt)) + text
            if self.body.scores_prompt:
                scores = [*prompt_scores(tokenizer, answer.ids, answer.prompt), *scores]
        return self.part(index, text, self.logprobs(scores, 0), answer.finish)

    def opening(self, index: int) -> dict[str, Any] | None:
        del index
        return None

    def part(self, index: int, text: str, logprobs: Any, finish: str | None) -> dict[str, Any]:  # noqa: ANN401
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def scores(self, answer: Answer) -> list[Score]:
        return answer.scores

    def logprobs(self, scores: list[Score], start: int) -> Any:  # noqa: ANN401
        if self.body.logprobs is None:
            return None
        begin = sum(len(score.text) for score in scores[:start])
        return completion_logprobs(scores[start:], begin)


async def _respond(
    request: Request, models: Models, form: _Chat | _Completion, answers: list[Answer]
) -> Response:
    head = {
        "id": f"{form.prefix}-{secrets.token_hex(12)}",
        "created": int(time.time()),
        "model": form.body.model,
    }
    if form.body.stream:
        events = _events(models, form, answers, head | {"object": form.piece})
        # errors before the first token have a status of their own
        first = await _unless_gone(request, anext(events))
        return StreamingResponse(_lines(first, events), media_type="text/event-stream")
    await _computed(request, models, answers)
    # in a thread: the texts of many likely tokens take a while
    wholes = (asyncio.to_thread(form.whole, *pair) for pair in enumerate(answers))
    choices = [await whole for whole in wholes]
    body = head | {"object": form.kind, "choices": choices, "usage": _usage(answers)}
    return JSONResponse(body)


async def _computed(request: Request, models: Models, answers: list[Answer]) -> None:
    """Computes all answers; when one fails or the client goes, they are cancelled."""

    async def read(answer: Answer) -> None:
        async for _ in answer.parts(models.engine):
            pass

    async def read_all() -> None:
        tasks = [asyncio.create_task(read(answer)) for answer in answers]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    await _unless_gone(request, read_all())


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
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


async def _events(
    models: Models, form: _Chat | _Completion, answers: list[Answer], head: dict[str, Any]
) -> AsyncGenerator[dict[str, Any]]:
    """Yields the chunks of a stream, of all answers as they come."""
    parts: asyncio.Queue[tuple[int, str] | tuple[int, None] | Exception] = asyncio.Queue()

    async def read(index: int, answer: Answer) -> None:
        try:
            async for part in answer.parts(models.engine):
                parts.put_nowait((index, part))
        except (GymError, ValueError, KeyError) as error:
            parts.put_nowait(error)
        else:
            parts.put_nowait((index, None))

    tasks = [asyncio.create_task(read(*pair)) for pair in enumerate(answers)]
    opened: set[int] = set()
    sent = [0] * len(answers)
    try:
        left = len(answers)
        while left:
            event = await parts.get()
            if isinstance(event, Exception):
                raise event
            index, text = event
            if index not in opened:
                opened.add(index)
                if (choice := form.opening(index)) is not None:
                    yield head | {"choices": [choice]}
            answer = answers[index]
            scores = form.scores(answer)
            logprobs = form.logprobs(scores, sent[index])
            sent[index] = len(scores)
            finish = answer.finish if text is None else None
            left -= text is None
            yield head | {"choices": [form.part(index, text or "", logprobs, finish)]}
        if form.body.reports_usage:
            yield head | {"choices": [], "usage": _usage(answers)}
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _lines(
    first: Mapping[str, Any], events: AsyncGenerator[dict[str, Any]]
) -> AsyncIterator[str]:
    try:
        yield f"data: {json.dumps(first)}\n\n"
        async for event in events:
            yield f"data: {json.dumps(event)}\n\n"
    except (GymError, ValueError, KeyError) as error:
        status, body = _problem_of(error)
        del status
        yield f"data: {json.dumps(body)}\n\n"
    finally:
        await events.aclose()
    yield "data: [DONE]\n\n"


def _usage(answers: list[Answer]) -> dict[str, int]:
    prompts = {id(answer.ids): len(answer.ids) for answer in answers}
    return wire.usage(sum(prompts.values()), sum(len(answer.tokens) for answer in answers))


def _answer_error(_: Request, error: Exception) -> Response:
    status, body = _problem_of(error)
    headers = {"Retry-After": "1"} if status in {429, 503} else None
    return JSONResponse(body, status, headers)


KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (BusyError, 429, "rate_limit_error"),
    (FailedError, 500, "server_error"),
    (NotAvailableError, 404, "invalid_request_error"),
    (InputError, 400, "invalid_request_error"),
    (GymError, 500, "server_error"),
)
"""The status and the type of each error of ours; the first that fits counts."""


def _problem_of(error: Exception) -> tuple[int, dict[str, Any]]:
    """Returns the status and the body that say what was wrong."""
    if isinstance(error, HTTPException):
        return error.status_code, wire.problem(str(error.detail).lower(), param=None, code=None)
    if isinstance(error, KeyError):  # it left to make room after it was looked up
        message = "model: it was unloaded before the answer began: ask again"
        return 503, wire.problem(message, kind="server_error", param="model", code="serving.busy")
    if not isinstance(error, GymError):
        wrong = str(error).partition(":")[0]
        return 400, wire.problem(str(error), param=wrong, code="serving.bad_request")
    status, kind = next((s, k) for cls, s, k in KINDS if isinstance(error, cls))
    if isinstance(error, RefusedError):
        status, kind = error.status, "invalid_request_error"
    message = error.message if error.hint is None else f"{error.message}; {error.hint}"
    if status == 500:  # its message may name folders of ours
        print(f"zoo-gym: error: {message}", file=sys.stderr, flush=True)
        message = "the answer could not be computed"
    if status == 404:
        return status, wire.problem(message, kind=kind, param="model", code="model_not_found")
    param: str | None = getattr(error, "param", None)
    return status, wire.problem(message, kind=kind, param=param, code=error.code)
