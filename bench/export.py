"""zen-nano at its full size, with random weights, as a GGUF file in Q4_K_M, and in llama.cpp.

The file is written in a process of its own, whose memory is compared with what it had before; then
it is opened, compared with the source and continued by 32 tokens, by llama.cpp and by our engine.
The limit, libgguf alone, is its speed on a block of 4 M weights times the weights of each type.
Seconds are of the CPU and one thread. The tokenizer is Qwen3's, of the folder of real files.

usage: python -m bench export            three minutes of one core, 6 GB of memory, 4 GB of disk
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Case, Skipped
from bench.zen_nano import write_model
from zoo.models.registry import registry

TOKENIZER = Path("../shared/data/tokenizers/qwen3")
NEW = 32

WRITER = """
import json, math, numpy, resource, sys, time
from pathlib import Path
from zoo.gym.export.job import Options
from zoo.gym.export import gguf
from zoo.gym.export.run import find_job
from zoo.gym.tuned.base import resolve_base
import gguf as _, libgguf, transformers

def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def limit(job):
    planned, total = gguf.plan(job), 0.0
    rows = (numpy.random.default_rng(0).normal(size=(4096, 1024)) * 0.02).astype("f4")
    for kind in ("Q4_K", "Q6_K"):
        started = time.process_time()
        libgguf.quantize_rows(rows, libgguf.GGMLQuantizationType[kind])
        each = (time.process_time() - started) / rows.size
        total += each * sum(
            math.prod(t.shape) for t in planned.tensors if planned.types[t.name] == kind
        )
    return total

source, out = sys.argv[1:]
options = Options(quantization="q4_k_m", check=False)
find = lambda given, recorded, check: resolve_base(given, recorded, "--base", check)
job = find_job(source, base=None, options=options, find_base=find, say=print)
job.ids("Hello")
before, started = resident(), time.process_time()
report = gguf.write(job, Path(out))
taken = time.process_time() - started
added = resident() - before
print(json.dumps({"seconds": taken, "bytes": added, "facts": report.facts, "limit": limit(job)}))
"""


def run() -> Iterator[Case | Skipped]:
    """Yields the cost of writing, of the comparison, and the speed of the result."""
    if not TOKENIZER.exists():
        yield Skipped("export", f"no {TOKENIZER}")
        return
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    with tempfile.TemporaryDirectory(prefix="zen-nano-") as place:
        folder = write_model(Path(place), entry, tokenizer=TOKENIZER, seed=0)
        file = Path(place) / "nano.gguf"
        words = [sys.executable, "-c", WRITER, str(folder), str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        written = json.loads(done.stdout.splitlines()[-1])
        name = "zen-nano as Q4_K_M"
        seconds, added = written["seconds"], written["bytes"] / 1e9
        limit = written["limit"]
        yield Case(f"{name}: written", seconds, "CPU-s", "a minute", seconds / 60, "")
        yield Case(
            f"{name}: written", seconds, "CPU-s", "libgguf alone", seconds / limit, "<= 1.11"
        )
        yield Case(f"{name}: memory added", added, "GB", "2 GB", added / 2, "<= 1")
        bits = written["facts"]["bits_per_weight"]
        yield Case(f"{name}: size", bits, "bits", "bfloat16", bits / 16, "")
        yield from compared(name, folder, file)


def compared(name: str, folder: Path, file: Path) -> Iterator[Case]:
    """Yields what the comparison costs and finds, and tokens a CPU second."""
    from zoo.gym.export.job import Job, Options
    from zoo.gym.export.llamacpp import check_file
    from zoo.gym.tuned.opened import open_tuned
    from zoo.gym.tuned.source import Source
    from zoo.models import Resolved

    tuned = open_tuned(Source("model", folder), folder)
    job = Job(tuned, Resolved("zen-nano", "zen-nano", None, folder), "zen-nano", Options())
    started = time.process_time()
    found = check_file(job, file, "q4_k_m")
    spent, own = time.process_time() - started, found["kl_to_own_values"]
    yield Case(f"{name}: compared", spent, "CPU-s", "a minute", spent / 60, "")
    yield Case(f"{name}: mean KL", own, "nats", "its own values", own, "<= 1e-2")
    yield Case(f"{name}: mean KL", found["mean_kl"], "nats", "the source", found["mean_kl"], "")
    theirs, ours = speed(file), speed(folder)
    yield Case(f"{name}: llama.cpp", theirs, "tokens/CPU-s", "ours in bfloat16", theirs / ours, "")


def speed(model: Path) -> float:
    """Returns the tokens a CPU second of an answer of `NEW` tokens, its prompt read before."""
    from zoo.gym.chat import open_chat

    with open_chat(model, max_new_tokens=1) as session:
        session.answer("Hello")  # loads what is loaded late
        started = time.process_time()
        session.answer("Hello")
        begun = time.process_time() - started
    with open_chat(model, max_new_tokens=NEW) as session:
        session.answer("Hello")
        started = time.process_time()
        session.answer("Hello")
        return (NEW - 1) / (time.process_time() - started - begun)
