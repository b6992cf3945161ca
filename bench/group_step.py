"""A GRPO step on a model folder: a group of answers is sampled, and the model updated with them.

usage: python -m bench.group_step FOLDER [--group N] [--prompt N] [--answer N] [--steps N] [--apart]
                                  [--device cpu|cuda] [--threads N]

Each call is a separate process, because peak memory is per process. It prints one JSON object.
LoRA of rank 16 on all linear layers with checkpointing. The model reads token ids only: nothing
ends an answer early, and every second answer has a positive advantage. `--apart` measures only the
update, of random answers, and computes the prompt once for each. Seconds are the median without the
first step, which warms up.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from bench.step import ALPHA, LEARNING_RATE, RANK, own_process
from bench.ten_million import WORDS, prompt_ids

if TYPE_CHECKING:
    from zoo.backends.base import Batch, Policy

T = TypeVar("T")


def sampled(policy: "Policy", given: argparse.Namespace, step: int) -> list[list[int]]:
    """Returns the answers of a group to one prompt."""
    from zoo.backends.base import Sampling

    prompts = [prompt_ids(given.prompt)] * given.group
    keys = [step * given.group + place for place in range(given.group)]
    found = policy.generate(prompts, Sampling(given.answer, temperature=1.0), keys=keys)
    return [list(rollout.ids) for rollout in found]


def drawn(given: argparse.Namespace, step: int) -> list[list[int]]:
    """Returns random answers."""
    import numpy as np

    answers = np.random.default_rng(step).integers(3, WORDS, (given.group, given.answer))
    return [[int(token) for token in answer] for answer in answers]


def batch_of(answers: Sequence[Sequence[int]], given: argparse.Namespace) -> "Batch":
    """Returns the rows to learn, with a shared prompt unless they are kept apart."""
    import numpy as np

    from zoo.gym.data.batches import collate
    from zoo.gym.data.units import Example, Unit
    from zoo.gym.objectives.constants import WINDOW_ROWS, WINDOW_TOKENS
    from zoo.gym.objectives.grpo import ADVANTAGES

    prompt = prompt_ids(given.prompt)
    rows: list[Example] = []
    for place, answer in enumerate(answers):
        ids = np.array([*prompt, *answer], dtype=np.int64)
        extras = {ADVANTAGES: np.array(1.0 if place % 2 else -0.5, dtype=np.float32)}
        mask = np.arange(len(ids)) >= len(prompt)
        rows.append(Example(ids, mask, f"answer {place}", truncated=True, extras=extras))
    tokens = float(sum(len(answer) for answer in answers))
    batch = collate([Unit(tuple(rows))], {WINDOW_TOKENS: tokens, WINDOW_ROWS: float(len(rows))})
    return replace(batch, prefix=None) if given.apart else batch


def update(policy: "Policy", batch: "Batch") -> float:
    """Updates the model once and returns the norm of its gradient, which must not be zero."""
    from zoo.gym.objectives.grpo import GroupRelativeLoss

    policy.accumulate(GroupRelativeLoss(), batch, key=0)
    info = policy.optimizer_step(LEARNING_RATE, 1.0)
    if not info.changed:
        raise SystemExit("group_step: the update changed nothing: expected other weights")
    return info.grad_norm


def timed(act: Callable[[], T], device: str, seconds: list[float]) -> T:
    """Returns what `act` returns, and appends the seconds that it took."""
    import torch

    started = time.perf_counter()
    found = act()
    if device == "cuda":
        torch.cuda.synchronize()
    seconds.append(time.perf_counter() - started)
    return found


def measured(given: argparse.Namespace) -> dict[str, object]:
    """Runs the steps in this process and returns the figures."""
    import torch

    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec, LoraSpec
    from zoo.backends.torch import memory

    torch.set_num_threads(given.threads)
    spec = LoadSpec(train=LoraSpec(RANK, float(ALPHA)), gradient_checkpointing=True)
    policy = load_backend(given.device).load(given.folder, spec)
    sampling_s, update_s, norms = list[float](), list[float](), list[float]()
    for step in range(given.steps):
        if given.apart:
            answers = drawn(given, step)
        else:
            answers = timed(partial(sampled, policy, given, step), given.device, sampling_s)
        batch = batch_of(answers, given)
        norms.append(timed(partial(update, policy, batch), given.device, update_s))
    peak, tokens = memory.peak(), given.group * given.answer
    sampling: dict[str, Any] = {}
    if sampling_s:
        wall_s = median(sampling_s[1:] or sampling_s)
        sampling = {"sampling_s": wall_s, "sampled_tokens_per_s": tokens / wall_s}
    return {
        "way": "apart" if given.apart else "shared",
        "group": [given.group, given.prompt, given.answer],
        "notes": policy.notes(),
        "grad_norms": norms,
        **sampling,
        "update_s": median(update_s[1:] or update_s),
        "peak_host_bytes": peak.peak_host_bytes,
        "peak_device_bytes": peak.peak_device_bytes,
    }


def run_group_step(folder: Path, *options: str, **how: Any) -> dict[str, Any]:  # noqa: ANN401
    """Measures in a separate process; see `own_process` for the keywords."""
    return own_process("bench.group_step", str(folder), *options, **how)


def main() -> None:
    """Reads the command line and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--answer", type=int, default=1536)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    print(json.dumps(measured(parser.parse_args())))


if __name__ == "__main__":
    main()
