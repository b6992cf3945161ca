"""Installs the program in every way on every Python found, away from the repository: `make matrix`.

A wheel, the sdist, a wheel made of the sdist, and a clean clone with all extras; in each a fresh
environment runs the help, the doctor and the demo. Takes some minutes for each and 6 GB of disk.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.13")
ARTEFACTS = ("wheel", "sdist", "wheel-of-sdist", "clone")
TARGET = ROOT / "target"
"""Where cargo keeps what it has compiled: the crates below ours are built once for all."""

IMPORTED = "import zoo.gym, zoo.core; print(zoo.gym.__file__, zoo.core.__file__)"


def main() -> int:
    """Prints a line for each step and returns 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.house.matrix", description=__doc__)
    parser.add_argument("--python", nargs="+", default=PYTHONS)
    parser.add_argument("--artefact", nargs="+", default=ARTEFACTS, choices=ARTEFACTS)
    parser.add_argument("--no-demo", action="store_true", help="leave out the longest step")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="zoo-gym-matrix-") as scratch:
        built = build(Path(scratch), options.artefact)
        for version in options.python:
            python = find_python(version)
            if python is None:
                print(f"{version:5} SKIPPED: no python{version} found", flush=True)
                continue
            for name, source in built.items():
                folder = Path(scratch) / f"{version}-{name}"
                failed += not try_one(folder, python, source, demo=not options.no_demo)
                shutil.rmtree(folder)
    return 1 if failed else 0


def build(scratch: Path, names: list[str]) -> dict[str, Path]:
    """Makes what is to be installed, from a clean clone of what is committed."""
    clone = scratch / "source"
    run(["git", "clone", "--quiet", str(ROOT), str(clone)], scratch)
    made = {"clone": clone}
    for name, source, kind in (
        ("sdist", clone, "--sdist"),
        ("wheel", clone, "--wheel"),
        ("wheel-of-sdist", None, "--wheel"),
    ):
        if name in names or name == "sdist":
            since = time.monotonic()
            out = scratch / name
            uv("build", kind, "--out-dir", str(out), str(source or made["sdist"]))
            made[name] = next(out.glob("zoo_gym-*"))
            print(f"built {made[name].name} in {time.monotonic() - since:.0f} s", flush=True)
    return {name: made[name] for name in names}


def try_one(folder: Path, python: str, source: Path, *, demo: bool) -> bool:
    """Installs into a fresh environment and runs the program there; returns whether all went."""
    folder.mkdir()
    name = folder.name
    for step, argv in steps(folder, python, source, demo=demo):
        since = time.monotonic()
        done = run(argv, folder, home=folder / "home")
        said = "ok" if done.returncode == 0 else "FAILED"
        print(f"{name:20} {step:8} {said} {time.monotonic() - since:6.1f} s", flush=True)
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-4000:], sep="\n", flush=True)
            return False
        if step == "import" and str(ROOT) in done.stdout:
            print(f"{name}: expected an import from {folder}, got {done.stdout}", flush=True)
            return False
        if step == "doctor":
            print(f"{'':20} {json.loads(done.stdout)['versions']}", flush=True)
    return True


def steps(
    folder: Path, python: str, source: Path, *, demo: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yields the name and the words of each step; a clone is installed by plain pip, with all."""
    venv = folder / "venv"
    bin_folder = venv / ("Scripts" if os.name == "nt" else "bin")
    program = str(bin_folder / "zoo-gym")
    yield "venv", [python, "-m", "venv", str(venv)]
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    if source.is_dir():
        pip = [str(bin_folder / "pip"), "install", "--quiet", "--editable", f"{source}[all]"]
    else:
        pip = [uv_program(), "pip", "install", "--quiet", str(source)]
        pip += ["--python", str(bin_folder / "python"), *constraints]
    yield "install", pip
    yield "import", [str(bin_folder / "python"), "-c", IMPORTED]
    yield "help", [program, "--help"]
    yield "doctor", [program, "doctor", "--json"]
    if demo:
        yield "demo", [program, "demo", "--json"]


def find_python(version: str) -> str | None:
    """Returns an interpreter of that version that starts, or None."""
    found = shutil.which(f"python{version}")
    known = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for program in [*([found] if found else []), *map(str, known)]:
        said = run([program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], ROOT)
        if said.returncode == 0 and said.stdout.strip() == version:
            return program
    return None


def run(
    argv: list[str], folder: Path, *, home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a folder, its files below `home`; one thread, so that times compare."""
    env = {"CARGO_TARGET_DIR": str(TARGET)} | os.environ | {"OMP_NUM_THREADS": "1"}
    env.pop("VIRTUAL_ENV", None)
    env.pop("PYTHONPATH", None)
    if home is not None:
        env |= {"ZOO_GYM_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)


def uv(*words: str) -> None:
    """Runs uv, which must succeed."""
    done = run([uv_program(), *words], ROOT)
    if done.returncode:
        raise SystemExit(f"uv {' '.join(words)}\n{done.stderr}")


def uv_program() -> str:
    """Returns the uv of this environment, or the one on the path."""
    beside = Path(sys.executable).with_name("uv.exe" if os.name == "nt" else "uv")
    return str(beside) if beside.exists() else "uv"


if __name__ == "__main__":
    sys.exit(main())
