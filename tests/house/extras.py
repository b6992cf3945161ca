"""Resolves every extra to wheels for each system, none of which has to be this one.

`python -m tests.house.extras`, with the index. An extra without wheels needs a compiler, unless
what has no wheel is plain Python, which any machine can build.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.house.matrix import ROOT, uv_program

SYSTEMS = ("x86_64-manylinux_2_35", "aarch64-apple-darwin", "x86_64-pc-windows-msvc")
PYTHONS = ("3.11", "3.12", "3.13")
PLAIN_PYTHON: tuple[str, ...] = ()
"""Sources on the index that became `py3-none-any` wheels where no compiler was in the path."""

COMPILED = {"environments"}
"""Extras that may need a compiler."""

LARGE = {"cluster"}
"""Extras that are too large for `all`."""

LEAST_MACOS = "14.0"
"""The oldest macOS that mlx has wheels for."""


def main() -> int:
    """Prints a line for each system, Python and extra; returns 1 where one is not as it should."""
    wrong = 0
    for system in SYSTEMS:
        for version in PYTHONS:
            for extra in ("", *extras()):
                lacking = without_wheel(extra, system, version)
                wrong += bool(lacking) and extra not in COMPILED
                said = f"no wheel of {lacking}" if lacking else "wheels"
                print(f"{system:24} {version:5} {extra or 'base':14} {said}", flush=True)
    return 1 if wrong else 0


def extras() -> list[str]:
    """Returns the extras that the project declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"])


def without_wheel(extra: str, system: str, python: str) -> str | None:
    """Returns the first package of an extra that has to be compiled, None where there is none."""
    words = ["pip", "compile", "--quiet", "pyproject.toml", "--no-header", "--only-binary", ":all:"]
    words += ["--python-platform", system, "--python-version", python]
    words += ["--constraints", "constraints.txt", *(["--extra", extra] if extra else [])]
    with tempfile.TemporaryDirectory() as scratch:
        overrides = Path(scratch) / "plain.txt"
        # What is plain Python counts as there: a marker that never holds leaves it out.
        lines = (f"{name} ; python_version < '3'\n" for name in PLAIN_PYTHON)
        overrides.write_text("".join(lines), encoding="utf-8")
        words += ["--overrides", str(overrides), "--output-file", str(Path(scratch) / "out.txt")]
        done = subprocess.run(
            [uv_program(), *words],
            cwd=ROOT,
            env=os.environ | {"MACOSX_DEPLOYMENT_TARGET": LEAST_MACOS},
            capture_output=True,
            text=True,
            check=False,
        )
    if not done.returncode:
        return None
    found = re.search(r"Because (\S+?)(?:\{.*?\})?==\S+ has no", done.stderr)
    return found[1] if found else done.stderr.strip()


if __name__ == "__main__":
    sys.exit(main())
