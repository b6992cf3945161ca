"""Variants that change while a server runs: files that are replaced, runs that are removed."""

import asyncio
import json
import shutil
from pathlib import Path

import httpx2
import openai
import pytest
from openai import AsyncOpenAI

from bench.serve import agree
from tests.gym.serving.conftest import NAME, Scored, Served, scored, serving, text_of
from zoo.gym.serving import variants as serving_variants
from zoo.gym.serving.run import ModelServer
from zoo.gym.serving.variants import Asked, Models
from zoo.models import pico_folder


def test_a_folder_of_variants_may_change(
    variants: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_variants, "RESIDENT_BYTES", 1)  # each takes the place of another
    folder = tmp_path / "people"
    folder.mkdir()

    async def ask() -> None:
        async with serving({}, folder=folder) as (_, client):
            with pytest.raises(openai.NotFoundError):
                await scored(client, "p0", "Say 2.")
            for n in range(8):
                shutil.copy(variants["bob-2"], folder / f"p{n}.safetensors")
            shutil.copytree(variants["ann"], folder / "ann")
            names = [f"p{n}" for n in range(8)] + ["ann"]
            for _ in range(2):
                answers = await asyncio.gather(*(scored(client, n, "Say 2.") for n in names))
                assert all(agree(answer, answers[0]) for answer in answers[:8])
                assert not agree(answers[8], answers[0])
            assert f"{NAME}:p3" in [model.id async for model in client.models.list()]
            (folder / "p0.safetensors").write_bytes(b"damaged")
            with pytest.raises(openai.BadRequestError, match="p0"):
                await scored(client, "p0", "Say 2.")

    asyncio.run(ask())


def test_a_replaced_variant_takes_the_memory_of_the_one_before(
    variants: dict[str, Path], tmp_path: Path
) -> None:
    async def ask() -> list[str]:
        counts: list[str] = []
        async with serving({}, folder=tmp_path) as (server, client):
            head = {"Authorization": f"Bearer {client.api_key}"}
            async with httpx2.AsyncClient(base_url=server.url, headers=head) as http:
                for name in ("ann", "bob"):
                    shutil.rmtree(tmp_path / "p", ignore_errors=True)
                    shutil.copytree(variants[name], tmp_path / "p")
                    await scored(client, "p", "Say 2.")
                    lines = (await http.get("/metrics")).text.splitlines()
                    counts += [each for each in lines if "resident_variants " in each]
        return [count.split()[-1] for count in counts if not count.startswith("#")]

    assert asyncio.run(ask()) == ["1.0", "1.0"]


def test_a_variant_that_left_the_memory_while_an_answer_waited_is_read_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asked = Models.ask, list[str]()

    async def ask_and_leave(models: Models, model: str, user: str | None = None) -> Asked:
        found = await ask(models, model, user)
        if not asked:
            await models._make_room(2 * serving_variants.RESIDENT_BYTES)
        asked.append(model)
        return found

    monkeypatch.setattr(Models, "ask", ask_and_leave)

    async def read(_: ModelServer, client: AsyncOpenAI) -> tuple[Scored, Scored]:
        asked.clear()  # those of the start
        return await scored(client, "ann", "Say 2."), await scored(client, "ann", "Say 2.")

    first, second = served(read)
    assert agree(first, second)
    assert asked == ["ann", "ann", "ann"]


def test_a_run_whose_id_is_given_again_is_looked_at_again(
    served: Served, variants: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "home" / "data" / "runs" / "r0001"

    def write(base: str) -> None:
        shutil.copytree(variants["ann"], run / "result")
        config = run / "result" / "adapter_config.json"
        settings = json.loads(config.read_text()) | {"base_model_name_or_path": base}
        config.write_text(json.dumps(settings))
        (run / "config.yaml").write_text(f"model: {base}\ndataset: d\n")
        (run / "env.json").write_text("{}")

    async def ask(_: ModelServer, client: AsyncOpenAI) -> None:
        write(NAME)
        assert await text_of(client, "r0001", "Say 2.") == await text_of(client, "ann", "Say 2.")
        shutil.rmtree(run)
        write("another-base")
        with pytest.raises(openai.NotFoundError):
            await text_of(client, "r0001", "Say 2.")

    served(ask)


def test_a_replaced_delta_answers_anew(
    served: Served, variants: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "mine.safetensors"
    shutil.copy(variants["bob-2"], file)

    async def ask(server: ModelServer, client: AsyncOpenAI) -> tuple[str, str]:
        from zoo.gym import create_delta

        before = await text_of(client, "mine", "Say 2.")
        create_delta(variants["ann"], base=pico_folder(), out=file, force=True)
        return before, await text_of(client, "mine", "Say 2.")

    variants = {**variants, "mine": file}

    async def run() -> tuple[str, str]:
        async with serving(variants) as pair:
            return await ask(*pair)

    before, changed = asyncio.run(run())
    assert before != changed
