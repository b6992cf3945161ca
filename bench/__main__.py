"""Runs benchmarks, prints a table, and writes it to bench/results.

usage: python -m bench [NAME ...] [--isa avx2]
                                       NAME is one of BENCHES; all by default.
                                       --isa measures signs, product and aggregate as on a processor
                                       without wider instructions
                                       nano runs only when named: half an hour of one core, 14 GB;
                                       nano_qlora too: ten minutes of two cores, 4 GB; lessons
                                       too: ten minutes of one core, 6 GB; sheets too: three;
                                       experience too: ten; round_users and round_growth too: ten;
                                       memory too: fifteen; real too: fifteen of two cores;
                                       nano_delta, deltas and budgets too: half an hour of one
                                       core each; demo_seeds too: six minutes, serve: ten;
                                        serve_dense too: four; variants_list
                                        too: two; serve_load too: ten of two cores;
                                        serve_peers too: two; export too: three
                                       --model measures real on a folder in place of smollm2

A result records the measured commit, whether the working tree had changes, and the load of the
machine at the end.
"""

import datetime as dt
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

from bench.isas import LESSER, VARIABLE
from bench.measure import Case, Skipped, line

BENCHES = (
    "head",
    "prefix",
    "packing",
    "qlora",
    "optimizers",
    "startup",
    "app",
    "events",
    "personal",
    "preference",
    "rewards",
    "rounds",
    "attack",
    "train",
    "many_rows",
    "streaming",
    "mlx",
    "signs",
    "product",
    "aggregate",
    "stream",
)
NAMED = (
    "nano",
    "nano_qlora",
    "lessons",
    "sheets",
    "experience",
    "round_users",
    "round_growth",
    "memory",
    "nano_delta",
    "deltas",
    "budgets",
    "demo_seeds",
    "export",
    "serve",
    "serve_dense",
    "serve_load",
    "serve_peers",
    "variants_list",
    "real",
)
"""Those that run only when named."""

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def machine() -> dict[str, object]:
    """Returns everything except the code that the figures depend on."""
    names = ("torch", "transformers", "peft", "numpy")
    return {
        "machine": platform.machine(),
        "processor": processor(),
        "limits": {name: os.environ[name] for name in (VARIABLE, *LESSER) if name in os.environ},
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in names},
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--", ".", ":!bench/results")),
    }


def _git(*words: str) -> str:
    """Returns the output of git; empty without git or a repository."""
    argv = ["git", *words]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=HERE.parent)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def processor() -> str:
    """Returns the processor's name on Linux, otherwise an empty string."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(": ")[2] for line in lines if "model name" in line), "")


def narrow(isa: str = "") -> None:
    """Limits libraries to an instruction set; must be called before torch is imported."""
    isas = import_module("bench.isas")
    os.environ[isas.VARIABLE] = isa
    if isas.isas()[0] != "avx512":
        os.environ.update(isas.LESSER)


def keep(
    bench: ModuleType, name: str, cases: list[Case], skipped: list[Skipped], *, whole: bool
) -> None:
    """Writes the results so far: some benchmarks take an hour and may be interrupted."""
    result = machine() | {
        "whole": whole,
        "cases": [asdict(case) for case in cases],
        "skipped": [asdict(case) for case in skipped],
    }
    kept = bench.result_name() if hasattr(bench, "result_name") else name
    (RESULTS / f"{kept}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def main(names: list[str]) -> int:
    """Runs the given benchmarks, or all; returns 1 if a target was missed, 2 for other names."""
    missed = 0
    RESULTS.mkdir(exist_ok=True)
    if "--isa" in names:
        at = names.index("--isa")
        narrow(*names[at + 1 : at + 2])
        names = names[:at] + names[at + 2 :]
    if "--model" in names:
        at = names.index("--model")
        vars(import_module("bench.real"))["MODEL"] = names[at + 1]
        names = names[:at] + names[at + 2 :]
    known = {path.stem for path in HERE.glob("*.py")}
    if unknown := [name for name in names if name not in known]:
        print(__doc__)
        print(f"bench: {unknown[0]}: expected one of {', '.join((*BENCHES, *NAMED))}")
        return 2
    for name in names or BENCHES:
        cases: list[Case] = []
        skipped: list[Skipped] = []
        bench = import_module(f"bench.{name}")
        for case in bench.run():
            if isinstance(case, Skipped):
                print(f"{case.name:32} skipped: {case.reason}", flush=True)
                skipped.append(case)
                continue
            print(line(case), flush=True)
            cases.append(case)
            keep(bench, name, cases, skipped, whole=False)
        if not cases:
            continue
        missed += sum(not case.keeps_its_bar() for case in cases)
        keep(bench, name, cases, skipped, whole=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
