"""A GGUF file served by llama.cpp, through OpenAI's own client."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.models.gguf.adapters import write_adapter
from zoo.gym.serving.gguf import GgufServer
from zoo.gym.serving.run import ServeConfig

pytest.importorskip("xllamacpp")

PROMPT = "Once upon a time"
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 12}


@pytest.fixture
def file(shared: Callable[[str], Path]) -> Path:
    return shared("data/models/stories260K.gguf")


@asynccontextmanager
async def serving(file: Path, adapter: Path) -> AsyncGenerator[AsyncOpenAI]:
    server = GgufServer(file, {"ann": adapter}, ServeConfig(port=0, rows=2))
    await server.start()
    client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.token or "", max_retries=0)
    try:
        yield client
    finally:
        await client.close()
        await server.stop()


async def text_of(client: AsyncOpenAI, model: str, **more: Any) -> str:
    answer = await client.completions.create(model=model, prompt=PROMPT, **GREEDY | more)
    return str(answer.choices[0].text)


def test_a_file_and_its_adapter_answer_by_their_names(file: Path, tmp_path: Path) -> None:
    async def ask() -> None:
        async with serving(file, write_adapter(tmp_path / "a.gguf", file, 1)) as client:
            names = [model.id async for model in client.models.list()]
            assert names == ["stories260K", "stories260K:ann"]
            base, ann = [await text_of(client, name) for name in names]
            assert base.startswith(", there was a little girl named Lily")
            assert ann == await text_of(client, "ann") != base
            chat = await client.chat.completions.create(
                model="stories260K", messages=[{"role": "user", "content": PROMPT}], **GREEDY
            )
            assert chat.choices[0].message.content == base
            with pytest.raises(openai.NotFoundError, match="of this server, got 'stories260K:eve'"):
                await text_of(client, "stories260K:eve")

    asyncio.run(ask())


def test_streams_stops_seeds_and_logprobs_have_effect(file: Path, tmp_path: Path) -> None:
    async def ask() -> None:
        async with serving(file, write_adapter(tmp_path / "a.gguf", file, 1)) as client:
            model = "stories260K"
            whole = await text_of(client, model)
            stream = await client.completions.create(
                model=model, prompt=PROMPT, stream=True, **GREEDY
            )
            assert "".join([part.choices[0].text async for part in stream]) == whole
            assert await text_of(client, model, stop=" little") == ", there was a"
            warm = {"temperature": 2, "max_tokens": 20}
            drawn = [await text_of(client, model, **warm, seed=seed) for seed in (1, 2, 1)]
            assert drawn[0] == drawn[2] != drawn[1]
            scored = await client.completions.create(
                model=model, prompt=PROMPT, logprobs=0, **GREEDY
            )
            scores = scored.choices[0].logprobs
            assert scores is not None
            assert "".join(scores.tokens or []) == whole
            assert all(-3 < (score or 0) < 0 for score in scores.token_logprobs or [0])

    asyncio.run(ask())


def test_a_prompt_beyond_the_context_is_refused_and_the_server_goes_on(
    file: Path, tmp_path: Path
) -> None:
    async def ask() -> None:
        async with serving(file, write_adapter(tmp_path / "a.gguf", file, 1)) as client:
            with pytest.raises(openai.BadRequestError, match="prompt: expected at most 511"):
                await client.completions.create(model="stories260K", prompt=[5] * 600)
            assert await text_of(client, "stories260K")

    asyncio.run(ask())


def test_what_llama_cpp_would_not_do_is_refused_by_name(file: Path, tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"extra_body": {"min_p": 0.1}},
        {"presence_penalty": 1},
        {"frequency_penalty": 1},
        {"logit_bias": {"1": 5}},
        {"logprobs": 2},
        {"extra_body": {"structured_outputs": {"regex": "a+"}}},
        {"echo": True, "logprobs": 0},
    ]

    async def ask() -> list[str]:
        refused: list[str] = []
        async with serving(file, write_adapter(tmp_path / "a.gguf", file, 1)) as client:
            for field in fields:
                with pytest.raises(openai.BadRequestError) as caught:
                    await client.completions.create(
                        model="stories260K", prompt=PROMPT, max_tokens=2, **field
                    )
                refused.append(str(caught.value.param))
            with pytest.raises(openai.NotFoundError):
                await client.files.create(file=("a.jsonl", b"{}"), purpose="fine-tune")
        return refused

    names = ["min_p", "presence_penalty", "frequency_penalty", "logit_bias", "top_logprobs"]
    assert asyncio.run(ask()) == [*names, "response_format", "echo"]
