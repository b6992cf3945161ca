"""Dense variants of one bit a weight, answered from one base: eight of them in each decode step.

The models are those of `bench.serve`, in float32 on one thread. A variant has random signs of every
matrix, the tied embedding among them, with a scale per row, and vectors of the norms. The limit,
measured in the same rounds, is the base's step and after it the products of the core with all
matrices of eight variants, in a plain loop. The other way to answer is to merge: for each user the
base's weights are copied, the signs added, and the tokens decoded alone. Prompts are read before
the clock starts. A ratio is the median of the rounds' ratios.

usage: python -m bench serve_dense            four minutes of one core, 2 GB
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
from bench.serve import NEW, PROMPT, ROUNDS, ROWS, SHAPES, prompts, write_model

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.backends.batching import Adapter, Batcher, Change, Signs


def variant(model: Any, seed: int) -> "Adapter":  # noqa: ANN401 - a model of transformers
    """Returns random signs of every matrix, and vectors of the norms."""
    import numpy as np

    from zoo.backends.batching import Signs

    random = np.random.default_rng(seed)
    changes: dict[str, Change] = {}
    for name, value in model.named_parameters():
        if value.dim() == 1:
            changes[name] = random.normal(0, 1e-2, len(value)).astype(np.float32)
            continue
        bits = random.integers(0, 256, (len(value), value.shape[1] // 8), np.uint8)
        scales = random.uniform(1e-4, 1e-3, len(value)).astype(np.float32)
        changes[name.removesuffix(".weight")] = Signs(bits, scales)
    return changes


def decode(batcher: "Batcher", adapters: list[str | None]) -> Callable[[int], float]:
    """Returns what measures the CPU seconds of a decode step of rows with these adapters."""
    from zoo.backends.batching import Request
    from zoo.backends.sampling import Sampling

    def seconds(seed: int) -> float:
        sampling = Sampling(max_new_tokens=NEW + 1)
        for ids, adapter in zip(prompts(len(adapters), seed), adapters, strict=True):
            batcher.add(Request(tuple(ids), sampling, 0, adapter))
        begun = 0
        while begun < len(adapters):
            begun += sum(1 for _ in batcher.step())
        started = time.process_time()
        while batcher.busy:
            batcher.step()
        return (time.process_time() - started) / NEW

    return seconds


def products(variants: "list[list[Signs]]") -> Callable[[int], float]:
    """Returns what measures the CPU seconds of the products of a token of each variant."""
    import numpy as np

    from zoo.core import sign_product

    random = np.random.default_rng(0)
    inputs = {
        8 * signs.bits.shape[1]: random.normal(size=(1, 8 * signs.bits.shape[1])).astype(np.float32)
        for signs in variants[0]
    }
    outputs = {len(signs.bits): np.zeros((1, len(signs.bits)), np.float32) for signs in variants[0]}

    def seconds(_: int) -> float:
        started = time.process_time()
        for _ in range(NEW):
            for matrices in zip(*variants, strict=True):  # layer after layer, as rows of a batch
                for signs in matrices:
                    x, y = inputs[8 * signs.bits.shape[1]], outputs[len(signs.bits)]
                    sign_product(x, signs.bits, signs.scales, out=y, add=True, threads=1)
        return (time.process_time() - started) / NEW

    return seconds


def merge(model: Any, matrices: "dict[str, Signs]") -> Callable[[int], float]:  # noqa: ANN401
    """Returns what measures the CPU seconds of adding a variant to a copy of the weights."""
    from zoo.core import apply_signs

    copies = {name: model.get_submodule(name).weight.detach().clone() for name in matrices}

    def seconds(_: int) -> float:
        started = time.process_time()
        for name, signs in matrices.items():
            copies[name].copy_(model.get_submodule(name).weight.detach())
            apply_signs(copies[name], signs.bits, signs.scales, threads=1)
        return time.process_time() - started

    return seconds


def of_shape(name: str, folder: Path) -> Iterator[Case]:
    """Yields the figures of a model."""
    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec
    from zoo.backends.batching import Signs

    policy: Policy = load_backend("cpu").load(folder, LoadSpec(dtype="f32"))
    model: Any = policy.module.model  # type: ignore[attr-defined]
    batcher = policy.batcher(rows=ROWS, tokens=PROMPT + NEW + 1)
    assert batcher is not None
    variants = [variant(model, number) for number in range(ROWS)]
    for number, each in enumerate(variants):
        batcher.add_adapter(str(number), each)
    signs = [{n: c for n, c in each.items() if isinstance(c, Signs)} for each in variants]
    names: list[str | None] = [str(number) for number in range(ROWS)]
    ways = {
        "dense": decode(batcher, names),
        "base": decode(batcher, [None] * ROWS),
        "products": products([list(each.values()) for each in signs]),
        "alone": decode(batcher, [None]),
        "merge": merge(model, signs[0]),
    }
    rounds: list[dict[str, float]] = []
    for seed in range(ROUNDS + 1):
        gc.collect()
        rounds.append({way: seconds(seed) for way, seconds in ways.items()})
    rounds = rounds[1:]  # the first one warms up
    rate = median(ROWS / each["dense"] for each in rounds)

    def case(what: str, against: str, other: Callable[[dict[str, float]], float], bar: str) -> Case:
        """The seconds of a token of each variant in another way, divided by those measured."""
        ratio = median(other(each) / each["dense"] for each in rounds)
        return Case(f"{name}: {what}", rate, "tokens/CPU-s", against, ratio, bar)

    def merged(each: dict[str, float]) -> float:
        return ROWS * (each["merge"] / NEW + each["alone"])

    limit = "base step + 8 products"
    what = f"{ROWS} dense variants"
    yield case(what, limit, lambda each: each["base"] + each["products"], ">= 0.9")
    yield case(what, f"merging, {NEW} tokens", merged, "")
    yield case(what, "8 of the base", lambda each: each["base"], "")
    millis = 1000 * median(each["merge"] for each in rounds)
    yield Case(f"{name}: merging a variant", millis, "CPU-ms", "itself", 1.0, "")


def run() -> Iterator[Case]:
    """Yields the cases."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory(prefix="zoo-gym-") as folder:
            yield from of_shape(name, write_model(Path(folder) / "model", shape))
