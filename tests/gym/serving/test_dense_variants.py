"""Deltas of full weights, one bit a weight, are served beside low-rank ones."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from openai import AsyncOpenAI
from safetensors.numpy import save_file

from bench.serve import agree
from tests.gym.serving.conftest import NAME, scored, serving
from tests.gym.serving.test_metrics import figures_of
from zoo.gym import apply_delta, create_delta
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.file.reader import load_delta
from zoo.gym.delta.reading.weights import open_weights, read_float32
from zoo.gym.serving.run import ModelServer, ServeConfig
from zoo.models import pico_folder

Scored = list[tuple[str, float]]
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a delta of zen-pico with other values in every tensor, norms and embeddings too."""

    def delta(name: str, seed: int = 0, **coding: Any) -> Path:
        folder, random = tmp_path / f"{name}-weights", np.random.default_rng(seed)
        shutil.copytree(pico_folder(), folder)
        weights = open_weights(pico_folder())
        values = {tensor: read_float32(weights, tensor) for tensor in weights.tensors}
        tuned = {
            tensor: value + random.normal(0, 0.3 * value.std() + 0.05, value.shape).astype("f4")
            for tensor, value in values.items()
        }
        save_file(tuned, folder / "model.safetensors", metadata={"format": "pt"})
        out = tmp_path / f"{name}.safetensors"
        return create_delta(folder, base=pico_folder(), out=out, config=DeltaConfig(**coding)).file

    return delta


def asked(variants: dict[str, Path], names: list[str]) -> list[Scored]:
    """The answers of models of one server, asked at once."""

    async def ask() -> list[Scored]:
        async with serving(variants) as (_, client):
            return await asyncio.gather(*(scored(client, name, "Say 2.") for name in names))

    return asyncio.run(ask())


def applied(file: Path) -> Scored:
    """The answer of the model that `delta apply` writes."""
    folder = file.with_suffix("")
    apply_delta(file, base=pico_folder(), out=folder)

    async def ask() -> Scored:
        server = ModelServer(folder, "applied", {}, ServeConfig(port=0))
        await server.start()
        client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.token or "")
        try:
            return await scored(client, "applied", "Say 2.")
        finally:
            await client.close()
            await server.stop()

    return asyncio.run(ask())


def test_dense_deltas_answer_as_applied_beside_low_rank_ones(
    make: Make, variants: dict[str, Path]
) -> None:
    codings = {
        "carl": {"scale": "row"},
        "dora": {"scale": "column"},
        "emil": {"scale": "matrix"},
        "fay": {"zero": "mask"},
    }
    dense = {name: make(name, n, **coding) for n, (name, coding) in enumerate(codings.items())}
    names = [*dense, "ann", NAME]
    together = dict(zip(names, asked({**variants, **dense}, names), strict=True))
    for name, file in dense.items():
        expected = applied(file)
        assert [token for token, _ in together[name]] == [token for token, _ in expected]
        for (_, mine), (_, theirs) in zip(together[name], expected, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4)
        assert not agree(together[name], together[NAME])
    beside = dict(zip(("ann", NAME), asked(variants, ["ann", NAME]), strict=True))
    assert all(agree(together[name], answer) for name, answer in beside.items())


def test_signs_stay_packed_in_the_memory_of_variants(make: Make) -> None:
    file = make("carl", zero="mask")

    async def resident() -> float:
        async with serving({"carl": file}) as (server, client):
            await scored(client, "carl", "Say 2.")
            return (await figures_of(server))["resident_variants_bytes",]

    assert asyncio.run(resident()) == load_delta(file).payload_bytes


@pytest.mark.parametrize(
    "coding",
    [
        {"codec": "ternary"},
        {"bits": 4},
        {"codec": "sparse"},
        {"planes": 2},
        {"scale": "group"},
    ],
)
def test_other_codings_are_refused_by_name(make: Make, coding: dict[str, Any]) -> None:
    file = make("carl", **coding)

    async def ask() -> None:
        async with serving({}, folder=file.parent) as (_, client):
            with pytest.raises(openai.BadRequestError, match=r"one bit a weight.* with 'model"):
                await scored(client, "carl", "Say 2.")

    asyncio.run(ask())
