"""The store's variants are served without a flag, and `user_id` selects one."""

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.gym.serving.conftest import NAME, serving
from zoo.gym import create_delta
from zoo.gym.serving.run import ModelServer
from zoo.gym.variants import store
from zoo.models import pico_folder, resolve

GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 8}


@pytest.fixture
def people(variants: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Two deltas; the first is stored as that of ann."""
    sources = {name: variants[name] for name in ("ann", "bob")}
    deltas = {
        name: create_delta(path, base=pico_folder(), out=tmp_path / f"{name}.safetensors").file
        for name, path in sources.items()
    }
    store.put(deltas["ann"], resolve(NAME, offline=True), "ann")
    return deltas


async def text_of(client: AsyncOpenAI, model: str, user: str | None = None, **more: Any) -> str:
    fields = {} if user is None else {"user_id": user}
    options: Any = {"prompt": "ab", "extra_body": fields} | GREEDY | more
    answer: str = (await client.completions.create(model=model, **options)).choices[0].text
    return answer


async def with_store(test: Any) -> Any:
    async with serving({}, folder=store.folder_of(pico_folder())) as (server, client):
        return await test(server, client)


def test_a_user_id_selects_the_variant_of_that_user(people: dict[str, Path]) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        assert [model.id async for model in client.models.list()] == [NAME, f"{NAME}:ann"]
        base, ann = await text_of(client, NAME), await text_of(client, f"{NAME}:ann")
        assert base != ann
        for model in (NAME, f"{NAME}:ann", "ann"):
            assert await text_of(client, model, "ann") == ann
        for user in ("bob", "../ann", "", "ann+words"):
            with pytest.raises(openai.NotFoundError):
                await text_of(client, NAME, user)
        for model in (f"{NAME}:bob", "bob", "other:ann", f"{NAME}:"):
            with pytest.raises(openai.BadRequestError, match="user_id") as caught:
                await text_of(client, model, "ann")
            assert caught.value.param == "user_id"
        messages: Any = [{"role": "user", "content": "Say 2."}]
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(
                model=NAME, messages=messages, extra_body={"user_id": "bob"}
            )

    asyncio.run(with_store(ask))


def test_answers_that_run_end_with_the_variant_that_they_began_with(
    people: dict[str, Path],
) -> None:
    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        old = await text_of(client, "ann", max_tokens=200)
        stream = await client.completions.create(
            model="ann", prompt="ab", stream=True, **GREEDY | {"max_tokens": 200}
        )
        parts = [(await anext(stream)).choices[0].text]
        store.put(people["bob"], resolve(NAME, offline=True), "ann", replace=True)
        new = await text_of(client, "ann", max_tokens=200)
        parts += [chunk.choices[0].text async for chunk in stream]
        assert "".join(parts) == old
        assert new != old
        store.remove(store.find("ann"))
        with pytest.raises(openai.NotFoundError):
            await text_of(client, "ann")

    asyncio.run(with_store(ask))
