"""A server of zen-pico with variants, in this process, and OpenAI's own client."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai import AsyncOpenAI
from safetensors.numpy import load_file, save_file

from tests.backends.policies import LORA, moved
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec
from zoo.backends.batching import Request
from zoo.backends.sampling import TokenEvent
from zoo.gym import create_delta
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.data import load_tokenizer
from zoo.gym.serving.engine import Engine
from zoo.gym.serving.run import ModelServer, ServeConfig
from zoo.gym.tuned.source import source_at
from zoo.models import pico_folder

NAME = "zen-pico"
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 8}

Scored = list[tuple[str, float]]
Served = Callable[..., Any]
"""The fixture of that name."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


def write_variant(folder: Path, seed: int) -> Path:
    """An adapter of zen-pico that speaks its own nonsense."""
    policy = moved(load_backend("cpu").load(pico_folder(), LoadSpec(train=LORA, seed=seed)))
    policy.save_result(folder, base=NAME)
    file = folder / "adapter_model.safetensors"
    random = np.random.default_rng(seed)
    factors = {
        name: random.normal(0, 0.3, value.shape).astype(np.float32)
        for name, value in load_file(file).items()
    }
    save_file(factors, file, metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def variants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two adapters, and the second one as a delta of 2 bits."""
    folder = tmp_path_factory.mktemp("variants")
    paths = {name: write_variant(folder / name, seed) for seed, name in enumerate(("ann", "bob"))}
    out = folder / "bob.safetensors"
    delta = create_delta(paths["bob"], base=pico_folder(), out=out, config=DeltaConfig(bits=2))
    return {**paths, "bob-2": delta.file}


@asynccontextmanager
async def serving(
    variants: dict[str, Path], *, folder: Path | None = None, **settings: Any
) -> AsyncGenerator[tuple[ModelServer, AsyncOpenAI]]:
    """A server at a free port, and a client of it."""
    sources = {name: source_at(path) for name, path in variants.items()}
    server = ModelServer(pico_folder(), NAME, sources, ServeConfig(port=0, **settings), folder)
    await server.start()
    client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.token or "any", max_retries=0)
    try:
        yield server, client
    finally:
        await client.close()
        await server.stop()


@pytest.fixture
def served(variants: dict[str, Path]) -> Callable[[Callable[..., Awaitable[Any]]], Any]:
    """Runs a coroutine with a server and a client, and returns what it returns."""

    def run(test: Callable[..., Awaitable[Any]], **settings: Any) -> Any:
        async def with_server() -> Any:
            async with serving(variants, **settings) as (server, client):
                return await test(server, client)

        return asyncio.run(with_server())

    return run


Script = Callable[..., Any]


@pytest.fixture
def scripted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Callable[[str], Path]
) -> Script:
    """Serves zen-pico with Qwen3's template; returns what a coroutine returns.

    Answers are fixed, or with None the model's own.
    """
    folder = tmp_path / "model"
    shutil.copytree(pico_folder(), folder)
    shutil.copy(shared("data/tokenizers/qwen3/chat_template.jinja"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))
    tokenizer = load_tokenizer(folder)
    prompts: list[str] = []

    def run(answer: str | None, test: Callable[..., Coroutine[Any, Any, Any]]) -> Any:
        ids = tokenizer.backend_tokenizer.encode(answer or "", add_special_tokens=False).ids

        async def stream(_: Engine, request: Request) -> AsyncGenerator[TokenEvent]:
            prompts.append(tokenizer.decode(list(request.ids)))
            for index, token in enumerate([*ids, request.sampling.stop_ids[0]]):
                yield TokenEvent(0, token, 0.0, "stop" if index == len(ids) else None)

        async def with_server() -> Any:
            server = ModelServer(folder, "pico", {}, ServeConfig(port=0))
            await server.start()
            client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.token or "")
            try:
                return await test(client, prompts)
            finally:
                await client.close()
                await server.stop()

        if answer is not None:
            monkeypatch.setattr(Engine, "stream", stream)
        return asyncio.run(with_server())

    return run


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to hold")


async def text_of(client: AsyncOpenAI, model: str, prompt: str, **more: Any) -> str:
    messages: Any = [{"role": "user", "content": prompt}]
    answer = await client.chat.completions.create(model=model, messages=messages, **GREEDY | more)
    return answer.choices[0].message.content or ""


async def scored(client: AsyncOpenAI, model: str, prompt: str) -> Scored:
    messages: Any = [{"role": "user", "content": prompt}]
    answer = await client.chat.completions.create(
        model=model, messages=messages, logprobs=True, **GREEDY
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    return [(token.token, token.logprob) for token in logprobs.content or ()]
