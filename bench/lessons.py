"""Lessons in the prompt of a model in process: read once and kept once, whatever the rows.

The geometry of zen-nano with random weights in float32: 8 rows with a library of 1,024 tokens and
64 tokens of their own. Tokens are those that the model's embedding gets. Answers of random weights
mean nothing; their logits are compared with those of whole prompts.

usage: python -m bench lessons                     ten minutes of one core, 1.5 GB of disk, 6 GB
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.measure import Case
from bench.zen_nano import write_model
from zoo.models.registry import registry

ROWS, LIBRARY, OWN = 8, 1024, 64
WHOLE = 2
"""Rows that are also read in full, for their logits."""

KEPT_BYTES = 114_688
"""Of a token, in bf16: 28 layers, 8 heads of 128 values, keys and values."""


def run() -> Iterator[Case]:
    """Yields the cases."""
    import torch

    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec

    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    stream = torch.Generator().manual_seed(0)
    ids = torch.randint(entry.geometry.vocab, (LIBRARY + ROWS * OWN,), generator=stream).tolist()
    library = ids[:LIBRARY]
    rows = [ids[LIBRARY + OWN * n : LIBRARY + OWN * (n + 1)] for n in range(ROWS)]
    with tempfile.TemporaryDirectory(prefix="zen-nano-") as place:
        folder = write_model(Path(place), entry, tokenizer=None, seed=0)
        policy: Any = load_backend("cpu").load(folder, LoadSpec(dtype="f32"))
        policy.read_prefix(library[:8])  # what the model can do is tested once
        yield from reading(policy, library, rows)
        del policy
        narrow: Any = load_backend("cpu").load(folder, LoadSpec(dtype="bf16"))
        kept = narrow.read_prefix(library[:OWN]).kept_bytes / OWN
        yield Case("kept, bf16", kept, "bytes/tok", "one copy", kept / KEPT_BYTES, "<= 1")


def reading(policy: Any, library: list[int], rows: list[list[int]]) -> Iterator[Case]:  # noqa: ANN401
    """Yields the tokens that are read, and the difference of the logits."""
    import torch

    from zoo.backends.base import Sampling
    from zoo.backends.torch.generation.decoding import Decoding

    prompts = [library + row for row in rows]
    kept: list[Any] = []

    def answer() -> None:
        kept.append(policy.read_prefix(library))
        policy.generate(prompts, Sampling(1), keys=range(ROWS), prefix=kept[0])

    read = tokens_read(policy, answer)
    whole = ROWS * (LIBRARY + OWN)
    bar = f"<= {(LIBRARY + ROWS * OWN) / whole:.4f}"
    yield Case(f"prompts of {ROWS} rows", read, "tokens", f"{whole:,} in full", read / whole, bar)
    again = tokens_read(
        policy,
        lambda: policy.generate(prompts, Sampling(1), keys=range(ROWS), prefix=kept[0]),
    )
    yield Case("the same library again", again, "tokens", f"{whole:,} in full", again / whole, bar)
    some = torch.tensor([row[0] for row in rows])
    with torch.no_grad():
        after = Decoding(policy.module, rows, kept[0].layers)
        ours = torch.stack([after.read_prompts(), after.read(some)])[:, :WHOLE]
        full = Decoding(policy.module, prompts[:WHOLE])
        plain = torch.stack([full.read_prompts(), full.read(some[:WHOLE])])
    error = float((ours - plain).abs().max() / plain.abs().max())
    yield Case("logits, two tokens", error, "relative", "whole prompts", error, "<= 1e-5")


def tokens_read(policy: Any, work: Callable[[], None]) -> int:  # noqa: ANN401
    """Returns the tokens that the model's embedding gets during some work."""
    seen: list[int] = []
    embedding = policy.module.model.get_input_embeddings()
    hook = embedding.register_forward_pre_hook(lambda _, given: seen.append(given[0].numel()))
    try:
        work()
    finally:
        hook.remove()
    return sum(seen)
