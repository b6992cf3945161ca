"""zen-nano's geometry with its base in the files, against the base in memory: a step of LoRA.

A process of its own each, one thread, 512 tokens, random weights in bf16, activations recomputed.
Memory is what a process adds, loading included, after it has imported the libraries; time is that
of the second step, with the files in the system's cache.

usage: python -m bench streaming                  two minutes of one core, 1.5 GB of disk
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import MB, Case, Skipped, reset_peak_bytes, status_bytes
from bench.nano import TOKENIZER
from bench.step import LEARNING_RATE, own_process, token_ids, vocabulary_of
from bench.zen_nano import write_model
from zoo.models.registry import registry

TOKENS, LIMIT_MB = 512, 750


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    if not TOKENIZER.exists():
        yield Skipped("streaming", f"{TOKENIZER} is not here")
        return
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    with tempfile.TemporaryDirectory(prefix="streaming-") as place:
        folder = str(write_model(Path(place), entry, tokenizer=TOKENIZER, seed=0))
        streamed = own_process("bench.streaming", folder, "streamed")
        plain = own_process("bench.streaming", folder, "in memory")
    apart = abs(streamed["loss"] - plain["loss"])
    name = f"LoRA, {TOKENS} tokens, layers streamed"
    added = streamed["added_mb"]
    yield Case(f"{name}: memory added", added, "MB", "1 MB", added, f"<= {LIMIT_MB}")
    ratio = added / plain["added_mb"]
    yield Case(f"{name}: memory added", added, "MB", "in memory", ratio, "")
    yield Case(f"{name}: loss", streamed["loss"], "nats", "in memory, difference", apart, "<= 1e-5")
    ratio = streamed["cpu_s"] / plain["cpu_s"]
    yield Case(f"{name}: step", streamed["cpu_s"], "CPU-s", "in memory", ratio, "")


def measured(folder: Path, *, streams: bool) -> dict[str, float]:
    """Takes two steps; returns the second loss, its CPU seconds, and the memory added."""
    import numpy as np
    import peft  # noqa: F401 - an imported library is no memory of the run
    import torch
    from transformers import Qwen3ForCausalLM  # noqa: F401 - as well

    from zoo.backends import load_backend
    from zoo.backends.base import Batch, LoadSpec, LoraSpec
    from zoo.gym.objectives.constants import WINDOW_TOKENS
    from zoo.gym.objectives.sft import SupervisedLoss

    torch.set_num_threads(1)
    engine = load_backend("cpu")
    dtype = engine.choose_precision(folder).dtype
    before = reset_peak_bytes()
    spec = LoadSpec(
        train=LoraSpec(), dtype=dtype, gradient_checkpointing=True, stream_layers=streams
    )
    policy = engine.load(folder, spec)
    ids_BT = token_ids(TOKENS, vocabulary_of(folder))
    mask_BT = np.ones_like(ids_BT, dtype=np.bool_)
    mask_BT[:, 0] = False
    constants = {WINDOW_TOKENS: float(mask_BT.sum())}
    batch = Batch(ids_BT, np.array([TOKENS]), mask_BT, constants=constants)
    loss = started = 0.0
    for _ in range(2):
        started = time.process_time()
        loss = policy.accumulate(SupervisedLoss(), batch, key=0)["loss"]
        policy.optimizer_step(LEARNING_RATE, 1.0)
    cpu_s = time.process_time() - started
    return {"loss": loss, "cpu_s": cpu_s, "added_mb": (status_bytes("VmHWM") - before) / MB}


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]), streams=sys.argv[2] == "streamed")))
