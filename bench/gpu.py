"""On a CUDA machine: the backend's contract suite, and zen-nano's step beside the plain one.

usage: python -m bench.gpu [--out FILE] [--dry]

It runs from the source tree with that machine's own torch, transformers and peft, without network
or tokenizer; the model is written to a temporary folder (1.5 GB). The JSON holds machine, versions
and date. --dry goes the same way on the CPU at 64 tokens, so that the command itself is tested; its
figures say nothing of a GPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.__main__ import machine
from bench.step import run_step
from bench.zen_nano import write_model
from zoo.models.registry import registry

ROOT = Path(__file__).parents[1]
TOKENS, DRY_TOKENS = 2048, 64


def contract(*, dry: bool) -> dict[str, object]:
    """Runs the contract suite in a process of its own; dry runs one file's collection."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/backends"]
    argv += ["--collect-only"] if dry else ["-m", "not slow"]
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    return {"exit_code": done.returncode, "summary": lines[-1] if lines else ""}


def steps(*, dry: bool) -> list[dict[str, Any]]:
    """Measures both ways on zen-nano."""
    entry = next(entry for entry in registry() if entry.alias == "zen-nano")
    options = ["--device", "cpu" if dry else "cuda", "--tokens", str(DRY_TOKENS if dry else TOKENS)]
    options += ["--steps", "2" if dry else "6"]
    with tempfile.TemporaryDirectory(prefix="zen-nano-") as folder:
        model = write_model(Path(folder), entry, tokenizer=None, seed=0)
        return [run_step(way, model, *options) for way in ("plain", "ours")]


def graphics() -> str:
    """Returns the CUDA device's name, or why there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"


def main() -> int:
    """Measures, prints one JSON object, and writes it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dry", action="store_true")
    given = parser.parse_args()
    suite = contract(dry=given.dry)
    plain, ours = steps(dry=given.dry)
    memory = "peak_host_bytes" if given.dry else "peak_device_bytes"
    found = machine() | {
        "device": graphics(),
        "dry": given.dry,
        "contract": suite,
        "plain": plain,
        "ours": ours,
        "memory_ratio": ours[memory] / plain[memory],
        "speed_ratio": ours["tokens_per_s"] / plain["tokens_per_s"],
    }
    text = json.dumps(found, indent=2) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    return int(bool(suite["exit_code"]))


if __name__ == "__main__":
    sys.exit(main())
