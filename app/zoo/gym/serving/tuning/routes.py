"""The routes of files and fine-tuning jobs."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse
from fastapi.routing import APIRoute
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.serving.answering import read
from zoo.gym.serving.tuning.files import MOST_BYTES, Files
from zoo.gym.serving.tuning.jobs import Jobs
from zoo.gym.serving.tuning.requests import PROVIDER, JobBody, Provider
from zoo.gym.serving.wire import RequestError

Json = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=10_000)]
Order = Literal["asc", "desc"]

FORM = 1 << 20
"""The most bytes around the file in an upload."""


def add_training(owners: APIRouter, files: Files, jobs: Jobs) -> None:
    """Adds the routes; those of files also behind the name of a provider, as some clients ask."""
    app = APIRouter(dependencies=[Depends(_check_query)])
    for prefix in ("", "/{provider}"):
        _add_files(app, files, f"{prefix}/v1/files")
    path = "/v1/fine_tuning/jobs"

    @app.post(path)
    async def create_job(request: Request) -> Json:
        return await jobs.create(await read(request, JobBody))

    @app.get(path)
    async def list_jobs(limit: Limit = 20, after: str | None = None) -> Json:
        return _page(await asyncio.to_thread(jobs.all), limit, after)

    @app.get(path + "/{job}")
    async def show_job(job: str) -> Json:
        return await asyncio.to_thread(jobs.get, job)

    @app.post(path + "/{job}/cancel")
    async def cancel_job(job: str) -> Json:
        return await jobs.cancel(job)

    @app.get(path + "/{job}/events")
    async def list_events(job: str, limit: Limit = 20, after: str | None = None) -> Json:
        return _page(await asyncio.to_thread(jobs.events, job), limit, after)

    @app.get(path + "/{job}/checkpoints")
    async def list_checkpoints(job: str, limit: Limit = 10, after: str | None = None) -> Json:
        return _page(await asyncio.to_thread(jobs.checkpoints, job), limit, after)

    owners.include_router(app)


async def _check_query(request: Request, custom_llm_provider: Provider | None = None) -> None:
    """Refuses what a list would be expected to follow, and does not."""
    del custom_llm_provider
    route: APIRoute = request.scope["route"]
    names = {field.alias for field in route.dependant.query_params} | {PROVIDER}
    if unknown := [name for name in request.query_params if name not in names]:
        raise RequestError(f"{unknown[0]}: not supported by this server", param=unknown[0])


def _add_files(app: APIRouter, files: Files, path: str) -> None:
    @app.post(path)
    async def upload(request: Request) -> Json:
        async with _limited(request).form(max_files=1, max_fields=8) as form:
            if len(form.multi_items()) > len(form):
                raise RequestError("body: expected each field once, got one twice")
            file, purpose = form.get("file"), form.get("purpose")
            if not isinstance(file, UploadFile):
                raise RequestError("file: expected a file, got none", param="file")
            if purpose != "fine-tune":
                raise RequestError(
                    f"purpose: expected 'fine-tune', got {purpose!r:.40}", param="purpose"
                )
            if other := form.keys() - {"file", "purpose"}:
                name = min(other)
                raise RequestError(f"{name}: not supported by this server", param=name)
            return await asyncio.to_thread(files.add, file.filename or "", file.file)

    @app.get(path)
    async def list_files(
        limit: Limit = 10_000,
        after: str | None = None,
        order: Order = "desc",
        purpose: str | None = None,
    ) -> Json:
        listed = await asyncio.to_thread(files.all)
        if order == "asc":
            listed.reverse()
        return _page([file for file in listed if purpose in (None, file["purpose"])], limit, after)

    @app.get(path + "/{file}")
    async def show_file(file: str) -> Json:
        return files.get(file)

    @app.get(path + "/{file}/content")
    async def read_file(file: str) -> FileResponse:
        return FileResponse(files.content(file), media_type="application/octet-stream")

    @app.delete(path + "/{file}")
    async def remove_file(file: str) -> Json:
        await asyncio.to_thread(files.remove, file)
        return {"id": file, "object": "file", "deleted": True}


def _limited(request: Request) -> Request:
    """Returns a request whose body ends with an error where it is larger than a file may be."""
    read_bytes = 0

    async def receive() -> Any:  # noqa: ANN401
        nonlocal read_bytes
        message = await request.receive()
        read_bytes += len(message.get("body", b""))
        if read_bytes > MOST_BYTES + FORM:
            raise RefusedError(413, f"body: expected a file of at most {MOST_BYTES:,} bytes")
        return message

    return Request(request.scope, receive)


def _page(items: Sequence[Json], limit: int, after: str | None) -> Json:
    """Returns the items behind the one with an id."""
    start = 0
    if after is not None:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise HTTPException(404, f"after: no {after!r:.60} in this list")
        start = ids.index(after) + 1
    page = list(items[start : start + limit])
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": start + limit < len(items),
    }
