"""Sampling from a model folder with one thread: tokens per CPU second, and the memory.

usage: python -m bench.sample FOLDER [--dtype TYPE] [--tokens N] [--prompt N] [--threads N]

Each call is a separate process, because peak memory is per process. It prints one JSON object.
The time of sampling one token is subtracted: the rest is the cost of each additional token.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from bench.step import own_process, token_ids, vocabulary_of

ROUNDS = 3


def measured(given: argparse.Namespace) -> dict[str, object]:
    """Samples in this process and returns the figures."""
    import torch

    from zoo.backends import load_backend
    from zoo.backends.base import LoadSpec, Sampling
    from zoo.backends.torch import memory

    torch.set_num_threads(given.threads)
    policy = load_backend("cpu").load(given.folder, LoadSpec(dtype=given.dtype))
    prompt = token_ids(given.prompt, vocabulary_of(given.folder))[0].tolist()

    def seconds(tokens: int) -> float:
        started = time.process_time()
        policy.generate([prompt], Sampling(max_new_tokens=tokens), keys=[0])
        return time.process_time() - started

    seconds(1)
    found = [seconds(given.tokens + 1) - seconds(1) for _ in range(ROUNDS)]
    return {
        "dtype": load_backend("cpu").choose_precision(given.folder, given.dtype).dtype,
        "tokens_per_cpu_s": given.tokens / min(found),
        "peak_host_bytes": memory.peak().peak_host_bytes,
        "answer": policy.generate([prompt], Sampling(max_new_tokens=4), keys=[0])[0].ids,
    }


def run_sample(folder: Path, *options: str) -> dict[str, Any]:
    """Measures in a separate process."""
    return own_process("bench.sample", str(folder), *options)


def main() -> None:
    """Reads the command line and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    print(json.dumps(measured(parser.parse_args())))


if __name__ == "__main__":
    main()
