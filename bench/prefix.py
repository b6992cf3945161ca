"""A group's common prompt computed once, against each row in full; a model of 9.9 M parameters.

Updates and sampling of 8 rows with a prompt of 256 tokens and answers of 64, an update of a pair
with a prompt and answers of 128 each, and one of short chats with the same system prompt, in one
process with one thread.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Case, alternated, median_ratio
from bench.ten_million import group, prompt_ids, write_model

if TYPE_CHECKING:
    from zoo.backends.base import Batch, Policy

ROUNDS = 5
ROWS, PROMPT, ANSWER = 8, 256, 64


def run() -> Iterator[Case]:
    """Yields the cases."""
    import torch

    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec, LoraSpec

    torch.set_num_threads(1)
    name = f"{ROWS} x ({PROMPT} + {ANSWER})"
    with tempfile.TemporaryDirectory(prefix="prefix-") as place:
        folder = write_model(Path(place))
        full = load_backend("cpu").load(folder, LoadSpec(train="full"))
        lora = load_backend("cpu").load(folder, LoadSpec(train=LoraSpec()))
    yield from update(f"update, {name}", full, group(ROWS, PROMPT, ANSWER), "<= 0.5")
    yield from update(f"update, {name}, LoRA", lora, group(ROWS, PROMPT, ANSWER), "<= 0.5")
    yield from update("update, 2 x (128 + 128)", full, group(2, 128, 128), "<= 0.95")
    rows = group(6, 24, 30)
    yield from update("update, 6 rows of 30 with a system prompt of 24, LoRA", lora, rows, "<= 0.9")
    yield sampling(f"sampling, {name}", full)


def update(name: str, policy: "Policy", batch: "Batch", bar: str) -> Iterator[Case]:
    """Yields the time of an update with a shared prompt, and the error of its gradient."""
    import numpy as np

    from zoo.gym.objectives.sft import SupervisedLoss

    def gradient(given: "Batch") -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        policy.accumulate(SupervisedLoss(), given, key=0)
        found = np.concatenate([slope.ravel() for _, slope in policy.gradients()])
        policy.optimizer_step(0.0, 1.0)
        return found

    apart = replace(batch, prefix=None)
    yield compared(name, lambda: gradient(batch), lambda: gradient(apart), "separate rows", bar)
    expected = gradient(apart)
    error = float(np.linalg.norm(gradient(batch) - expected) / np.linalg.norm(expected))
    yield Case(f"{name}: gradient", error, "relative", "separate rows", error, "<= 1e-6")


def sampling(name: str, policy: "Policy") -> Case:
    """Returns the time of sampling a group in one batch."""
    from zoo.backends.base import Sampling

    prompt, settings = prompt_ids(PROMPT), Sampling(ANSWER, temperature=1.0)

    def together() -> None:
        policy.generate([prompt] * ROWS, settings, keys=range(ROWS))

    def apart() -> None:
        for key in range(ROWS):
            policy.generate([prompt], settings, keys=[key])

    return compared(name, together, apart, "row by row", "<= 0.4")


def compared(
    name: str, ours: Callable[[], object], plain: Callable[[], object], against: str, bar: str
) -> Case:
    """Returns our CPU seconds and their median ratio to the other way, measured alternately."""
    rounds = alternated({"ours": ours, "plain": plain}, ROUNDS)
    ratio = median_ratio(rounds, "ours", "plain")
    fastest = min(times["ours"] for times in rounds)
    return Case(name, fastest, "CPU-s", against, ratio, bar)
