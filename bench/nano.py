"""zen-nano at its full size: a step compared with the plain one, and the error of the estimate.

Everything but the GRPO step runs on the CPU with one thread, each figure in its own process. The
plain step is measured twice: with the allocator setting of our workers, so that both sides have the
same, and with the default. Estimates are compared with the peaks of whole runs of `zoo-gym train`,
including evaluations and checkpoints.

On a processor without bf16 arithmetic (or with it disabled: ONEDNN_MAX_CPU_ISA=AVX2
ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2) the step is compared with that of float32
weights, and the plain bf16 step, which takes several minutes there, runs once.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Case
from bench.sample import run_sample
from bench.step import run_step
from bench.zen_nano import write_model
from zoo.models.registry import registry

SHARED = Path(__file__).parents[2] / "shared" / "data"
TOKENIZER, TEXT = SHARED / "tokenizers" / "qwen3", SHARED / "text" / "tinyshakespeare.txt"
TEXT_CHARACTERS = 30_000
GB = 1e9
CPU_S_OF_WIDENING = 1.15
"""How much longer a step may take than with float32 weights."""

RUNS = (("lora", 512), ("lora", 2048), ("full", 512), ("full", 2048))


def run() -> Iterator[Case]:
    """Yields the cases; none if the tokenizer or the text is missing."""
    if not TOKENIZER.exists() or not TEXT.exists():
        print(f"nano: skipped, expected {TOKENIZER} and {TEXT}", file=sys.stderr)
        return
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    with tempfile.TemporaryDirectory(prefix="zen-nano-") as name:
        place = Path(name)
        model = write_model(place / "hub", entry, tokenizer=TOKENIZER, seed=0)
        (place / "text.txt").write_text(TEXT.read_text()[:TEXT_CHARACTERS])
        yield from steps(model) if bf16_pays() else widened_steps(model)
        yield from sampling(model)
        for method, tokens in RUNS:
            yield estimate_error(place, method, tokens)
        yield from group_step(place)


def steps(model: Path) -> Iterator[Case]:
    """Yields our step at 2,048 tokens compared with the plain one, and at 512 tokens."""
    ours = run_step("ours", model)
    memory, time = ours["peak_host_bytes"], ours["cpu_s"]
    yield Case("step, 2048 tokens: peak", memory / GB, "GB", "3.6 GB", memory / 3.6e9, "<= 1")
    for joined, told in ((True, "plain, same allocator"), (False, "plain as it comes")):
        plain = run_step("plain", model, joined=joined)
        peak, cpu_s = plain["peak_host_bytes"], plain["cpu_s"]
        yield Case("step, 2048 tokens: peak", memory / GB, "GB", told, memory / peak, "<= 0.60")
        yield Case("step, 2048 tokens: time", time, "CPU-s", told, time / cpu_s, "<= 0.95")
    short = run_step("ours", model, "--tokens", "512")["peak_host_bytes"]
    yield Case("step, 512 tokens: peak", short / GB, "GB", "2.9 GB", short / 2.9e9, "<= 1")


def bf16_pays() -> bool:
    """Returns whether bf16 products are fast on this processor."""
    from zoo.backends.torch.numbers.products import measure_products

    return measure_products().bf16_pays


def result_name() -> str:
    """Returns the name of the result file: one for each kind of processor."""
    return "nano" if bf16_pays() else "nano-no-bf16"


def widened_steps(model: Path) -> Iterator[Case]:
    """Yields our step with bf16 weights against float32 weights and the plain bf16 step."""
    ours, wide = (
        run_step("ours", model, "--tokens", "512", "--steps", "3", "--dtype", dtype)
        for dtype in ("auto", "f32")
    )
    time, memory = ours["cpu_s"], ours["peak_host_bytes"]
    against = "float32 weights"
    share, bar = time / wide["cpu_s"], f"<= {CPU_S_OF_WIDENING}"
    yield Case("step, 512 tokens: time", time, "CPU-s", against, share, bar)
    share = memory / wide["peak_host_bytes"]
    yield Case("step, 512 tokens: peak", memory / GB, "GB", against, share, "")
    yield Case("step, 512 tokens: peak", memory / GB, "GB", "3.0 GB", memory / 3.0e9, "<= 1")
    error = max(abs(a - b) for a, b in zip(ours["losses"], wide["losses"], strict=True))
    yield Case("losses of three steps", ours["losses"][-1], "nats", against, error, "<= 0.001")
    plain = run_step("plain", model, "--tokens", "512", "--steps", "1")["cpu_s"]
    yield Case("step, 512 tokens: time", time, "CPU-s", "plain bf16", time / plain, "<= 0.15")
    long = run_step("ours", model)["peak_host_bytes"]
    yield Case("step, 2048 tokens: peak", long / GB, "GB", "4.0 GB", long / 4.0e9, "<= 1")


def sampling(model: Path) -> Iterator[Case]:
    """Yields the cost of sampling with the format chosen here, compared with float32 weights."""
    ours, wide = (run_sample(model, "--dtype", dtype) for dtype in ("auto", "f32"))
    rate, memory = ours["tokens_per_cpu_s"], ours["peak_host_bytes"]
    slow = not bf16_pays()
    name, against = f"sampling, {ours['dtype']}", "float32 weights"
    share = rate / wide["tokens_per_cpu_s"]
    yield Case(name, rate, "tokens/s", against, share, ">= 1.1" if slow else "")
    share = memory / wide["peak_host_bytes"]
    yield Case(name, memory / GB, "GB", against, share, "<= 0.55" if slow else "")


def estimate_error(place: Path, method: str, tokens: int) -> Case:
    """Trains one step and compares the estimated with the used memory."""
    settings = [f"cutoff_len={tokens}", f"finetuning_type={method}", "max_steps=1"]
    settings += ["per_device_train_batch_size=1", "gradient_accumulation_steps=1"]
    found = trained(place, "text.txt", settings, threads=1)
    return memory_error(f"estimate, {method}, {tokens}", found)


def group_step(place: Path) -> Iterator[Case]:
    """Yields the estimate and the time of a GRPO step on two cores: 4 x (128 + 128) tokens."""
    found = grouped(place)
    yield memory_error("estimate, GRPO, 4 x (128 + 128)", found)
    yield group_time("GRPO step, 4 x (128 + 128)", found)


def group_time(name: str, events: list[dict[str, Any]]) -> Case:
    """Returns the time of a run's one step."""
    (step,) = (event for event in events if event["kind"] == "step")
    wall_s = next(event for event in events if event["kind"] == "end")["metrics"]["training_s"]
    told = f"{step['metrics']['completion_length']:.0f} tokens per answer"
    return Case(name, wall_s, "s", told, 0.0, "")


def grouped(place: Path, *more: str) -> list[dict[str, Any]]:
    """Takes a GRPO step on two cores with further settings, and returns the events of the run.

    Random weights write random text; the reward is a function of it that differs within a group.
    """
    words = TEXT.read_text().split()
    rows = [" ".join(words[start : start + 75]) for start in range(0, 300, 75)]
    lines = (json.dumps({"prompt": row, "answer": ""}) + "\n" for row in rows)
    (place / "prompts.jsonl").write_text("".join(lines))
    (place / "score.py").write_text("def score(query, response):\n    return len(response)\n")
    settings = ["stage=grpo", "reward=score.py:score", "group_size=4", "max_completion_length=128"]
    settings += ["cutoff_len=256", "val_size=0", "max_steps=1", "per_device_train_batch_size=1"]
    settings += ["gradient_accumulation_steps=1", *more]
    return trained(place, "prompts.jsonl", settings, threads=2)


def trained(place: Path, data: str, settings: list[str], *, threads: int) -> list[dict[str, Any]]:
    """Trains zen-nano and returns the events of the run, which is removed."""
    home = place / "home"
    env = os.environ | {"ZOO_GYM_HOME": str(home), "HF_HUB_CACHE": str(place / "hub")}
    env |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(threads)}
    argv = [sys.executable, "-m", "zoo.gym", "train", data, "--model", "zen-nano", *settings]
    try:
        subprocess.run(argv, env=env, cwd=place, check=True, stdout=subprocess.DEVNULL)
        log = next((home / "data" / "runs").glob("*/events.jsonl")).read_text()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return [json.loads(line) for line in log.splitlines()]


def memory_error(name: str, events: list[dict[str, Any]]) -> Case:
    """Compares the estimated with the used memory of a run."""
    plan = next(event for event in events if event["kind"] == "plan")
    end = next(event for event in events if event["kind"] == "end")
    estimated, peak = plan["memory"]["total"], end["metrics"]["peak_host_bytes"]
    told = f"measured {peak / GB:.2f} GB"
    error = abs(estimated / peak - 1)
    return Case(name, estimated / GB, "GB", told, error, "<= 0.2")
