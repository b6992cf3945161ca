"""Many people's variants answered from one base, beside the base and beside transformers' generate.

Random weights: a Qwen3 of 89 M parameters (hidden size 768) and four layers of zen-nano's true
shape, both with 8,192 words, in float32, on one thread. A request has 32 tokens and 64 new ones.
Variants are adapters of rank 16 on every linear layer of the blocks. Ways are measured in turns,
and a ratio is the median of the rounds' ratios of tokens per CPU-second. Then 64 requests with 512
tokens in common, 32 of their own and 32 new ones, beside the same ones with nothing in common.
Last, a thousand random deltas of zen-pico are asked through the server in turns, more than its
memory keeps, and compared with each alone.

usage: python -m bench serve                  ten minutes of one core, 2 GB
"""

import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.measure import Case

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.backends.batching import Batcher, Factors
    from zoo.gym.serving.run import ModelServer

WORDS, PROMPT, NEW, ROWS, RANK, ROUNDS = 8192, 32, 64, 8, 16, 5
REQUESTS, SHARED, SHARED_NEW = 64, 512, 32
PEOPLE, PEOPLE_BYTES, QUESTION = 1000, 16_000_000, "Spell abc backward."

SHAPES: dict[str, dict[str, Any]] = {
    "89 M parameters": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "intermediate_size": 2048,
    },
    "4 layers of zen-nano": {
        "hidden_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
    },
}


def write_model(folder: Path, shape: dict[str, Any]) -> Path:
    """Writes a random Qwen3 without a tokenizer."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from zoo.backends.torch.quiet import quiet

    torch.manual_seed(0)
    config = Qwen3Config(vocab_size=WORDS, tie_word_embeddings=True, **shape)
    model: Any = Qwen3ForCausalLM(config)
    with quiet():
        model.save_pretrained(folder)
    return folder


def factors(model: Any, seed: int) -> "Factors":  # noqa: ANN401 - a model of transformers
    """Returns random factors of every linear layer but the head."""
    import numpy as np
    import torch

    random = np.random.default_rng(seed)
    return {
        name: (
            random.normal(0, 0.02, (RANK, layer.in_features)).astype(np.float32),
            random.normal(0, 0.02, (RANK, layer.out_features)).astype(np.float32),
        )
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear) and name != "lm_head"
    }


def prompts(rows: int, seed: int, length: int = PROMPT) -> list[list[int]]:
    """Returns pseudo-random prompts."""
    import numpy as np

    ids = np.random.default_rng(seed).integers(3, WORDS, (rows, length))
    return [[int(token) for token in row] for row in ids]


def batched(batcher: "Batcher", adapters: list[str | None]) -> Callable[[int], None]:
    """Returns what answers one request for each adapter."""
    from zoo.backends.batching import Request
    from zoo.backends.sampling import Sampling

    def answer(seed: int) -> None:
        sampling = Sampling(max_new_tokens=NEW)
        for ids, adapter in zip(prompts(len(adapters), seed), adapters, strict=True):
            batcher.add(Request(tuple(ids), sampling, 0, adapter))
        while batcher.busy:
            batcher.step()

    return answer


def generated(model: Any, rows: int) -> Callable[[int], None]:  # noqa: ANN401
    """Returns what transformers' generate does with as many prompts."""
    import torch

    def answer(seed: int) -> None:
        ids = torch.tensor(prompts(rows, seed))
        mask = torch.ones_like(ids)
        options = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
        with torch.no_grad():
            model.generate(ids, attention_mask=mask, pad_token_id=0, **options)

    return answer


def speeds(ways: dict[str, tuple[Callable[[int], None], int]]) -> dict[str, list[float]]:
    """Returns the tokens per CPU-second of each way, round after round."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for seed in range(ROUNDS + 1):
        for name, (answer, rows) in ways.items():
            gc.collect()
            started = time.process_time()
            answer(seed)
            if seed:  # the first round warms up
                rates[name].append(rows * NEW / (time.process_time() - started))
    return rates


def of_shape(name: str, folder: Path) -> Iterator[Case]:
    """Yields the figures of a model."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec

    policy: Policy = load_backend("cpu").load(folder, LoadSpec(dtype="f32"))
    model: Any = policy.module.model  # type: ignore[attr-defined]
    plain = generated(model, ROWS), generated(model, 1)
    batcher = policy.batcher(rows=ROWS, tokens=PROMPT + NEW)
    assert batcher is not None
    for number in range(ROWS):
        batcher.add_adapter(str(number), factors(model, number))
    names: list[str | None] = [str(number) for number in range(ROWS)]
    rates = speeds(
        {
            "base": (batched(batcher, [None] * ROWS), ROWS),
            "different": (batched(batcher, names), ROWS),
            "equal": (batched(batcher, ["0"] * ROWS), ROWS),
            "alone": (batched(batcher, [None]), 1),
            "generate": (plain[0], ROWS),
            "generate alone": (plain[1], 1),
        }
    )

    def case(what: str, way: str, other: str, against: str, bar: str) -> Case:
        ratio = median(a / b for a, b in zip(rates[way], rates[other], strict=True))
        return Case(f"{name}: {what}", median(rates[way]), "tokens/CPU-s", against, ratio, bar)

    yield case("8 variants at once", "different", "base", "8 of the base", ">= 0.75")
    yield case("8 variants at once", "different", "equal", "8 of one variant", ">= 0.77")
    yield case("8 of the base", "base", "generate", "generate", "")
    yield case("one alone", "alone", "generate alone", "generate", ">= 0.95")


def of_prefix(folder: Path) -> Iterator[Case]:
    """Yields the time of requests with a common beginning, beside the same ones without."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec
    from zoo.backends.batching import Request
    from zoo.backends.sampling import Sampling

    policy: Policy = load_backend("cpu").load(folder, LoadSpec(dtype="f32"))
    sampling = Sampling(max_new_tokens=SHARED_NEW)

    def seconds(seed: int, *, shares: bool) -> float:
        batcher = policy.batcher(rows=16, tokens=SHARED + PROMPT + SHARED_NEW)
        assert batcher is not None
        [shared] = prompts(1, seed, SHARED)
        started = time.process_time()
        for number, rest in enumerate(prompts(REQUESTS, seed)):
            # another first token: nothing is in common
            begin = shared if shares else [number + 3, *shared[1:]]
            batcher.add(Request((*begin, *rest), sampling))
        while batcher.busy:
            batcher.step()
        batcher.close()
        return time.process_time() - started

    pairs = [(seconds(seed, shares=True), seconds(seed, shares=False)) for seed in range(3)]
    ratio = median(mine / plain for mine, plain in pairs)
    name = f"{REQUESTS} requests, {SHARED} tokens in common"
    yield Case(name, median(mine for mine, _ in pairs), "CPU-s", "without", ratio, "<= 0.35")


def write_variants(folder: Path, count: int = PEOPLE) -> Path:
    """Writes as many random deltas of zen-pico, of 2 bits."""
    import numpy as np
    from safetensors.numpy import save_file

    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec, LoraSpec
    from zoo.gym import create_delta
    from zoo.models import pico_folder

    people, adapter = folder / "people", folder / "adapter"
    people.mkdir()
    policy = load_backend("cpu").load(pico_folder(), LoadSpec(train=LoraSpec(), dtype="f32"))
    policy.save_result(adapter, base="zen-pico")
    file = adapter / "adapter_model.safetensors"
    shapes = {f"base_model.model.{name}": value.shape for name, value in policy.trained()}
    for number in range(count):
        random = np.random.default_rng(number)
        values = {
            name: random.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()
        }
        save_file(values, file, metadata={"format": "pt"})
        create_delta(adapter, base=pico_folder(), out=people / f"p{number}.safetensors")
    return people


def of_people(folder: Path) -> Iterator[Case]:
    """Yields how many of the variants, asked in turns through the server, get another's answer."""
    import asyncio

    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec
    from zoo.gym.serving import variants
    from zoo.gym.serving.run import ModelServer, ServeConfig
    from zoo.models import pico_folder

    people = write_variants(folder)
    os.environ["ZOO_GYM_HOME"] = str(folder / "home")
    usual, variants.RESIDENT_BYTES = variants.RESIDENT_BYTES, PEOPLE_BYTES
    server = ModelServer(pico_folder(), "zen-pico", {}, ServeConfig(port=0), people)
    started = time.process_time()
    together = asyncio.run(_asked(server))
    seconds = time.process_time() - started
    variants.RESIDENT_BYTES = usual
    policy = load_backend("cpu").load(pico_folder(), LoadSpec())
    wrong = sum(
        not agree(together[number], alone(policy, people / f"p{number}.safetensors"))
        for number in range(PEOPLE)
    )
    yield Case(f"{PEOPLE} variants: mixed up", wrong, "answers", "all", wrong / PEOPLE, "<= 0")
    a_request = seconds / (2 * PEOPLE)
    name = f"{PEOPLE} variants in {PEOPLE_BYTES // 1_000_000} MB: a request"
    yield Case(name, 1000 * a_request, "CPU-ms", "itself", 1.0, "")


Scored = list[tuple[str, float]]


async def _asked(server: "ModelServer") -> list[Scored]:
    """Returns the answers of all variants, asked twice in turns, 16 at a time."""
    import asyncio

    from openai import AsyncOpenAI

    await server.start()
    client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=5)
    at_once = asyncio.Semaphore(16)

    async def ask(number: int) -> Scored:
        messages: Any = [{"role": "user", "content": QUESTION}]
        async with at_once:
            answer = await client.chat.completions.create(
                model=f"p{number}", messages=messages, temperature=0, max_tokens=8, logprobs=True
            )
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None
        return [(each.token, each.logprob) for each in logprobs.content or ()]

    answers: list[Scored] = []
    try:
        for _ in range(2):
            answers = await asyncio.gather(*(ask(number) for number in range(PEOPLE)))
        return answers
    finally:
        await client.close()
        await server.stop()


def alone(policy: "Policy", file: Path) -> Scored:
    """Returns the answer of a variant that nothing else is answered beside."""
    from zoo.backends.batching import Request
    from zoo.backends.sampling import Sampling
    from zoo.gym.data import EncodeOptions, Message, chat_stops, encode_prompt, load_tokenizer
    from zoo.gym.delta.reading.weights import open_weights
    from zoo.gym.tuned.changes import read_changes
    from zoo.gym.tuned.source import source_at
    from zoo.models import pico_folder

    base = pico_folder()
    tokenizer, options = load_tokenizer(base), EncodeOptions(cutoff_len=512)
    changes = read_changes(source_at(file), open_weights(base), verifies=False)
    batcher = policy.batcher(rows=1, tokens=512)
    assert batcher is not None
    pairs = {name.removesuffix(".weight"): changes.decoded_factors(name) for name in changes.names}
    batcher.add_adapter("alone", {name: pair for name, pair in pairs.items() if pair})
    stops = chat_stops(base, tokenizer, options)
    sampling = Sampling(max_new_tokens=8, stop_ids=stops)
    ids = encode_prompt([Message("user", QUESTION)], tokenizer, options)
    batcher.add(Request(tuple(ids), sampling, 0, "alone"))
    events = []
    while batcher.busy:
        events += batcher.step()
    batcher.close()
    return [
        (tokenizer.decode([event.id]), event.logprob) for event in events if event.id not in stops
    ]


def agree(mine: Scored, theirs: Scored) -> bool:
    """Whether two greedy answers are of the same weights: they differ only behind a near tie."""
    for (token, logprob), (other, expected) in zip(mine, theirs, strict=False):
        if abs(logprob - expected) > 2e-2:
            return False
        if token != other:
            return True
    return len(mine) == len(theirs)


def run() -> Iterator[Case]:
    """Yields the cases."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory(prefix="zoo-gym-") as folder:
            model = write_model(Path(folder) / "model", shape)
            yield from of_shape(name, model)
            if name == "4 layers of zen-nano":
                yield from of_prefix(model)
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as folder:
        yield from of_people(Path(folder))
