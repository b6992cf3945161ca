"""What a server counts is what happened, each server for itself, and nothing of its users."""

from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI
from prometheus_client.parser import text_string_to_metric_families

from tests.gym.serving.conftest import NAME
from zoo.gym.serving.run import ModelServer

Served = Callable[..., Any]
Figures = dict[tuple[str, ...], float]


async def figures_of(server: ModelServer) -> Figures:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers) as http:
        text = (await http.get("/metrics")).text
    assert not any(secret in text for secret in ("ann", "bob", "Sesame", str(server.token)))
    return {
        (sample.name.removeprefix("zoo_gym_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_figures_are_those_of_the_answers(served: Served) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> tuple[Figures, Any]:
        answer = await client.completions.create(
            model="ann", prompt="Sesame", max_tokens=6, n=2, temperature=1
        )
        await client.models.retrieve(f"{NAME}:bob")
        with pytest.raises(openai.NotFoundError):
            await client.completions.create(model="none", prompt="a")
        return await figures_of(server), answer.usage

    found, usage = served(ask)
    assert found["requests_total", "/v1/completions", "200"] == 1
    assert found["requests_total", "/v1/completions", "404"] == 1
    assert found["requests_total", "/v1/models/{name:path}", "200"] == 1
    assert found["prompt_tokens_total",] == 2 * usage.prompt_tokens
    assert found["generated_tokens_total",] == usage.completion_tokens
    assert found["first_token_seconds_count",] == found["answer_seconds_count",] == 2
    assert found["first_token_seconds_sum",] < found["answer_seconds_sum",]
    assert found["answers_running",] == found["answers_waiting",] == 0
    assert found["resident_variants",] == 3
    assert found["resident_variants_bytes",] > 3000
    # a second server of this process starts at zero
    assert served(lambda server, _: figures_of(server))["prompt_tokens_total",] == 0


def test_answers_are_counted_while_they_run(served: Served) -> None:
    async def ask(server: ModelServer, client: AsyncOpenAI) -> Figures:
        stream = await client.completions.create(
            model=NAME, prompt="a", stream=True, max_tokens=400, n=3, temperature=1, seed=1
        )
        await anext(aiter(stream))
        found = await figures_of(server)
        await stream.close()
        return found

    found = served(ask, rows=1)
    assert (found["answers_running",], found["answers_waiting",]) == (1, 2)
