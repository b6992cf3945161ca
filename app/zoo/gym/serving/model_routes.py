"""The routes of models: the list, one of them, and the removal of a stored variant."""

import asyncio
import time
from typing import Any

from fastapi import APIRouter, FastAPI, Request

from zoo.gym.serving.callers import Caller
from zoo.gym.serving.variants import Models
from zoo.gym.serving.wire import RequestError
from zoo.gym.variants.store import NAME, remove, stored_of

Json = dict[str, Any]


def add_models(app: FastAPI, owners: APIRouter, models: Models) -> None:
    """Adds the routes; `owners` are those that need the owner's token."""
    started = int(time.time())

    def described(name: str) -> Json:
        return {"id": name, "object": "model", "created": started, "owned_by": "zoo-gym"}

    @app.get("/v1/models")
    async def list_models(request: Request) -> Json:
        caller: Caller = request.state.role
        ids = await asyncio.to_thread(models.ids)
        if caller.variant is not None:
            ids = [each for each in ids if each == f"{models.name}:{caller.variant}"]
        return {"object": "list", "data": [described(each) for each in ids]}

    @app.get("/v1/models/{name:path}")
    async def show_model(request: Request, name: str) -> Json:
        caller: Caller = request.state.role
        caller.check_model(models.name, name)
        await models.ask(name)
        return described(name)

    @owners.delete("/v1/models/{name:path}")
    async def remove_model(name: str) -> Json:
        if not await asyncio.to_thread(_remove, models, name):
            await models.ask(name)  # 404 for one that is not there
            raise RequestError(
                f"model: expected a stored variant, got {name!r:.100}: the base, runs, and what "
                "was named at the start stay",
                param="model",
            )
        return {"id": name, "object": "model", "deleted": True}


def _remove(models: Models, model: str) -> bool:
    """Deletes a variant of the store, and returns whether it is one."""
    name = model.removeprefix(f"{models.name}:")
    if model == models.name or name in models.sources or not NAME.fullmatch(name):
        return False
    stored = stored_of(models.base, name)
    if models.folder != stored.file.parent or not stored.file.is_file():
        return False
    remove(stored)
    return True
