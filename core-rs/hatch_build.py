"""Builds the Rust core in place with maturin: hatchling's build hook, also usable as a script."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CRATE = Path(__file__).parent
PACKAGE = CRATE / "python" / "zoo" / "core"


def build_core() -> str:
    """Puts the extension module into the package and returns its wheel tag."""
    with tempfile.TemporaryDirectory() as out:
        command = [
            "maturin",
            "build",
            "--release",
            "--locked",
            "--features",
            "python",
            "--out",
            out,
        ]
        command += ["--manifest-path", str(CRATE / "Cargo.toml"), "--interpreter", sys.executable]
        subprocess.run(command, check=True, env=os.environ | rust_from_pypi())
        (wheel,) = Path(out).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (module,) = (n for n in archive.namelist() if n.endswith((".so", ".pyd")))
            # Replaced atomically: a running program keeps the old file.
            fresh = PACKAGE / "_core.new"
            fresh.write_bytes(archive.read(module))
    for stale in [*PACKAGE.glob("_core*.so"), *PACKAGE.glob("_core*.pyd")]:
        stale.unlink()
    fresh.replace(PACKAGE / Path(module).name)
    return wheel.stem.split("-", 2)[2]


def has_rust() -> bool:
    """Returns whether cargo runs: rustup installs one on PATH even without a toolchain."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return False
    # in the folder of the crate, where a rust-toolchain file or an override applies
    command = [cargo, "--version"]
    return subprocess.run(command, cwd=CRATE, capture_output=True, check=False).returncode == 0


def rust_from_pypi() -> dict[str, str]:
    """Returns the environment of a downloaded toolchain, or an empty one if cargo runs."""
    if has_rust():
        return {}
    found = shutil.which("cargo")
    why = f"'{found}' has no toolchain" if found else "there is no cargo"
    try:
        from puccinialin import setup_rust
    except ImportError:
        hint = (
            "rustup default stable" if found else "https://rustup.rs, or: pip install puccinialin"
        )
        raise SystemExit(f"the Rust core cannot be built: {why}\nhint: {hint}") from None
    own = "; with your own: rustup default stable" if found else ""
    print(f"{why}: a toolchain is fetched for this build{own}", file=sys.stderr)
    return setup_rust()


class CoreHook(BuildHookInterface[Any]):
    """Runs `build_core` before hatchling packs a wheel or an editable install."""

    def dependencies(self) -> list[str]:
        """Asks pip or uv for a Rust installer where the machine has no cargo that runs."""
        return [] if has_rust() else ["puccinialin"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds, and makes the wheel a platform wheel."""
        build_data["tag"] = build_core()
        build_data["pure_python"] = False


if __name__ == "__main__":
    print(build_core())
