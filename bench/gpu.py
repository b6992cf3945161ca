"""On a CUDA machine: the backend's contract suite, and zen-nano's step compared with a plain one.

usage: python -m bench.gpu [--out FILE] [--budget SECONDS] [--dry]

It runs from the source tree with that machine's own torch, transformers, peft, numpy and pytest;
neither an installed zoo-gym nor a built Rust core is needed, no network, no tokenizer. The cases,
each a process: `contract` (test_contract and test_scorers of tests/backends), then a training step
of Qwen3-0.6B with random weights (written to a temporary folder, 1.5 GB) by transformers and peft,
`plain`, and by us, `ours`: LoRA of rank 16 on all linear layers, 2,048 tokens, checkpointing, six
steps. Then a GRPO step of the same model, `group`: 8 answers of 1,536 tokens to a prompt of 512 are
sampled and learned; and its update with the prompt computed once for each answer, `group apart`.

It prints one JSON object: machine, versions, date, commit, the cases, ours as a share of plain in
peak device memory and tokens per second, and the shared update as a share of the other. A case for
which the budget leaves no time is listed under `skipped` and on stderr. Exit code 1 if a case
failed. --dry does the same on the CPU: it collects the suite and runs steps of few tokens, to test
the command itself; its figures say nothing about a GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.source_tree import ROOT, use_source_tree

BUDGET_S = 450.0
TOKENS, DRY_TOKENS = 2048, 64
STEPS, DRY_STEPS = 6, 2
GROUP, DRY_GROUP = (8, 512, 1536), (2, 16, 8)
"""Answers, tokens of the prompt, tokens of each answer."""

HERE = (sys.executable, "-m", "bench.source_tree")
SUITES = ("tests/backends/test_contract.py", "tests/backends/test_scorers.py")

Case = dict[str, Any]


def contract(limit_s: float, *, dry: bool) -> Case:
    """Runs the contract suite; dry only collects it.

    The project's pytest settings and plug-ins are not used: they may be missing, or turn a warning
    of another library version into an error.
    """
    argv = [*HERE, "pytest", "-q", "-c", "/dev/null", "--rootdir", str(ROOT), *SUITES]
    argv += ["--import-mode=importlib", "-p", "no:cacheprovider"]
    argv += ["--collect-only"] if dry else ["-rs"]
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        argv, cwd=ROOT, env=env, check=False, capture_output=True, text=True, timeout=limit_s
    )
    lines = done.stdout.strip().splitlines()
    told: Case = {"exit_code": done.returncode, "summary": lines[-1] if lines else ""}
    failed = done.returncode != 0
    return told | ({"output": (done.stdout + done.stderr)[-6000:]} if failed else {})


def step(way: str, folder: Path, limit_s: float, *, dry: bool) -> Case:
    """Measures one implementation of training zen-nano."""
    from bench.step import run_step

    options = ["--device", "cpu" if dry else "cuda", "--tokens", str(DRY_TOKENS if dry else TOKENS)]
    options += ["--steps", str(DRY_STEPS if dry else STEPS)]
    return run_step(way, folder, *options, joined=False, prefix=HERE, limit_s=limit_s)


def group(folder: Path, limit_s: float, *, dry: bool, apart: bool = False) -> Case:
    """Measures a GRPO step of zen-nano."""
    from bench.group_step import run_group_step

    sizes = zip(("--group", "--prompt", "--answer"), DRY_GROUP if dry else GROUP, strict=True)
    options = [word for name, size in sizes for word in (name, str(size))]
    options += ["--device", "cpu" if dry else "cuda", *(["--apart"] if apart else [])]
    return run_group_step(folder, *options, joined=False, prefix=HERE, limit_s=limit_s)


def cases(folder: Path, *, dry: bool) -> dict[str, Callable[[float], Case]]:
    """Returns what is measured, in order, by name."""
    return {
        "contract": lambda limit_s: contract(limit_s, dry=dry),
        "plain": lambda limit_s: step("plain", folder, limit_s, dry=dry),
        "ours": lambda limit_s: step("ours", folder, limit_s, dry=dry),
        "group": lambda limit_s: group(folder, limit_s, dry=dry),
        "group apart": lambda limit_s: group(folder, limit_s, dry=dry, apart=True),
    }


def measured(todo: dict[str, Callable[[float], Case]], budget_s: float) -> dict[str, Any]:
    """Runs the cases while there is time; reports the others as skipped."""
    found: dict[str, Any] = {"skipped": [], "failed": []}
    deadline = time.monotonic() + budget_s
    for name, case in todo.items():
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            found["skipped"].append(name)
            print(f"gpu: {name}: skipped: the {budget_s:g} s are spent", file=sys.stderr)
            continue
        try:
            found[name] = case(left_s)
        except subprocess.TimeoutExpired:
            found["skipped"].append(name)
            print(f"gpu: {name}: ended: the {budget_s:g} s are spent", file=sys.stderr)
        except subprocess.CalledProcessError as error:
            found["failed"].append(name)
            print(f"gpu: {name}: failed with exit code {error.returncode}", file=sys.stderr)
        else:
            found["failed"] += [name] if found[name].get("exit_code") else []
    return found


def ratios(found: dict[str, Any], *, dry: bool) -> dict[str, float]:
    """Returns ours as a share of plain, and shared as a share of apart, if both were measured."""
    shares: dict[str, float] = {}
    if "group" in found and "group apart" in found:
        shares["shared_update_ratio"] = (
            found["group"]["update_s"] / found["group apart"]["update_s"]
        )
    if "ours" not in found or "plain" not in found:
        return shares
    ours, plain = found["ours"], found["plain"]
    memory = "peak_host_bytes" if dry else "peak_device_bytes"
    return shares | {
        "memory_ratio": ours[memory] / plain[memory],
        "speed_ratio": ours["tokens_per_s"] / plain["tokens_per_s"],
        "first_loss_difference": abs(ours["losses"][0] - plain["losses"][0]),
    }


def graphics() -> str:
    """Returns the CUDA device's name, or why there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"


def zen_nano(folder: Path) -> Path:
    """Writes the model and returns its folder."""
    from bench.zen_nano import write_model
    from zoo.models.registry import registry

    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    return write_model(folder, entry, tokenizer=None, seed=0)


def main() -> int:
    """Measures, prints one JSON object, and writes it to --out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="the file to write the JSON to")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for all cases")
    parser.add_argument("--dry", action="store_true", help="do the same on the CPU, for testing")
    given = parser.parse_args()
    stands_in = use_source_tree()
    from bench.__main__ import machine

    with tempfile.TemporaryDirectory(prefix="zen-nano-") as name:
        todo = cases(zen_nano(Path(name)), dry=given.dry)
        found = measured(todo, given.budget)
    core = "stands in" if stands_in else "built"
    told = machine() | {"device": graphics(), "dry": given.dry, "core": core}
    text = json.dumps(told | found | ratios(found, dry=given.dry), indent=2) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    return int(bool(found["failed"]))


if __name__ == "__main__":
    sys.exit(main())
