"""The routes of a server: what programs that speak OpenAI's API ask for."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException

from zoo.gym.errors import GymError
from zoo.gym.serving.answering import chat_answers, completion_answers, compute, read, unless_gone
from zoo.gym.serving.answers import Answer
from zoo.gym.serving.callers import Caller
from zoo.gym.serving.chats import ChatBody
from zoo.gym.serving.choices import (
    ChatChoices,
    Choices,
    CompletionChoices,
    head_of,
    response_of,
    usage_of,
)
from zoo.gym.serving.metrics import Counted, Metrics, add_metrics
from zoo.gym.serving.model_routes import add_models
from zoo.gym.serving.problems import REPORTED, answer_error, problem_of
from zoo.gym.serving.replies import Piece
from zoo.gym.serving.responses import Items, ResponsesBody, renamed
from zoo.gym.serving.tuning.files import Files
from zoo.gym.serving.tuning.jobs import Jobs
from zoo.gym.serving.tuning.routes import add_training
from zoo.gym.serving.variants import Models, NoSuchModelError
from zoo.gym.serving.wire import CompletionBody, RequestError


def build(models: Models, *, runs_graders: bool = False) -> FastAPI:
    """Returns the application.

    Args:
        models: what answers.
        runs_graders: whether a fine-tuning job may bring a grader in Python.
    """
    app = FastAPI(
        title="zoo-gym",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(_check_token)],
    )
    owners = APIRouter(dependencies=[Depends(_check_owner)])
    for kind in REPORTED:
        app.add_exception_handler(kind, answer_error)

    @app.exception_handler(NoSuchModelError)
    async def no_such_model(request: Request, error: NoSuchModelError) -> Response:
        caller: Caller = request.state.role
        if caller.variant is None:  # a user learns no name of another one
            error.hint = await asyncio.to_thread(models.hint, error)
        return answer_error(request, error)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await read(request, ChatBody)
        _check_model(request, models, body.model, body.user_id)
        return await _respond(request, models, ChatChoices(body), await chat_answers(models, body))

    @app.post("/v1/completions")
    async def complete(request: Request) -> Response:
        body = await read(request, CompletionBody)
        _check_model(request, models, body.model, body.user_id)
        return await _respond(
            request, models, CompletionChoices(body), await completion_answers(models, body)
        )

    @app.post("/v1/responses")
    async def respond(request: Request) -> Response:
        body = await read(request, ResponsesBody)
        _check_model(request, models, body.model)
        try:
            (answer,) = await chat_answers(models, body.chat())
        except RequestError as error:
            raise renamed(error) from None
        items = Items(body, answer)
        events = _items(models, items, answer)
        if not body.stream:
            await unless_gone(request, _all(events))
            return JSONResponse(items.whole())
        first = await unless_gone(request, anext(events))
        return StreamingResponse(_item_lines(first, events, items), media_type=SSE)

    if models.can_train:
        files = Files()
        add_training(owners, files, Jobs(files, models, runs_graders=runs_graders))
    add_models(app, owners, models)
    metrics = Metrics(models)
    app.add_middleware(Counted, metrics=metrics)
    add_metrics(owners, metrics)
    app.include_router(owners)
    return app


SSE = "text/event-stream"


async def _check_token(request: Request) -> None:
    caller: Caller | None = request.state.role
    if caller is not None:  # else the path is open
        caller.check_token()


async def _check_owner(request: Request) -> None:
    """Answers users as if the route did not exist."""
    caller: Caller = request.state.role
    if caller.variant is not None:
        raise HTTPException(404)


def _check_model(request: Request, models: Models, model: str, user: str | None = None) -> None:
    caller: Caller = request.state.role
    caller.check_model(models.name, model, user)


async def _respond(
    request: Request, models: Models, form: Choices, answers: list[Answer]
) -> Response:
    if form.body.stream:
        events = _events(models, form, answers, head_of(form) | {"object": form.piece})
        # errors before the first token have a status of their own
        first = await unless_gone(request, anext(events))
        return StreamingResponse(_lines(first, events), media_type=SSE)
    await unless_gone(request, compute(models, answers))
    # in a thread: the texts of many likely tokens take a while
    return JSONResponse(await asyncio.to_thread(response_of, form, answers))


async def _events(
    models: Models, form: Choices, answers: list[Answer], head: dict[str, Any]
) -> AsyncGenerator[dict[str, Any]]:
    """Yields the chunks of a stream, of all answers as they come."""
    pieces: asyncio.Queue[tuple[int, Piece | None] | BaseException] = asyncio.Queue()

    async def read(index: int, answer: Answer) -> None:
        async for piece in answer.pieces(models.engine):
            pieces.put_nowait((index, piece))
        pieces.put_nowait((index, None))

    def end(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            pieces.put_nowait(error)  # of any kind: the stream would wait for ever

    tasks = [asyncio.create_task(read(*pair)) for pair in enumerate(answers)]
    for task in tasks:
        task.add_done_callback(end)
    opened: set[int] = set()
    sent = [0] * len(answers)
    try:
        left = len(answers)
        while left:
            event = await pieces.get()
            if isinstance(event, BaseException):
                raise event
            index, piece = event
            if index not in opened:
                opened.add(index)
                if (choice := form.opening(index)) is not None:
                    yield head | {"choices": [choice]}
            answer = answers[index]
            finish = answer.finish if piece is None else None
            choice = form.part(index, answer, piece, sent[index], finish)
            sent[index] = len(form.scores(answer))
            left -= piece is None
            yield head | {"choices": [choice]}
        if form.body.reports_usage:
            yield head | {"choices": [], "usage": usage_of(answers)}
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
    except (GymError, ValueError) as error:
        status, body = problem_of(error)
        del status
        yield f"data: {json.dumps(body)}\n\n"
    finally:
        await events.aclose()
    yield "data: [DONE]\n\n"


async def _items(models: Models, items: Items, answer: Answer) -> AsyncGenerator[dict[str, Any]]:
    """Yields the events of an answer as items; the first of them once it has begun."""
    pieces = answer.pieces(models.engine)
    begun = False
    try:
        async for piece in pieces:
            for event in () if begun else items.begin():
                yield event
            begun = True
            for event in items.add(piece):
                yield event
        for event in () if begun else items.begin():
            yield event
        for event in items.end():
            yield event
    finally:
        await pieces.aclose()


async def _all(events: AsyncGenerator[dict[str, Any]]) -> None:
    try:
        async for _ in events:
            pass
    finally:
        await events.aclose()


async def _item_lines(
    first: Mapping[str, Any], events: AsyncGenerator[dict[str, Any]], items: Items
) -> AsyncIterator[str]:
    def line(event: Mapping[str, Any]) -> str:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

    try:
        yield line(first)
        async for event in events:
            yield line(event)
    except (GymError, ValueError) as error:
        yield line(items.failed(problem_of(error)[1]["error"]))
    finally:
        await events.aclose()
