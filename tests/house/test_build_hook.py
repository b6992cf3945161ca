"""Where the build hook takes its Rust toolchain from."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHIM = """#!/bin/sh
echo "error: rustup could not choose a version of cargo to run" >&2
exit 1
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")


@pytest.fixture
def hook() -> Any:
    spec = importlib.util.spec_from_file_location("hook", ROOT / "core-rs" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cargo of rustup's without a toolchain, alone on PATH."""
    cargo = tmp_path / "cargo"
    cargo.write_text(SHIM)
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    return cargo


def test_a_cargo_without_a_toolchain_is_none(hook: Any, shim: Path) -> None:
    assert hook.CoreHook.dependencies(None) == ["puccinialin"]
    shim.write_text("#!/bin/sh\nexit 0\n")
    assert hook.CoreHook.dependencies(None) == []
    assert hook.rust_from_pypi() == {}


def test_the_build_then_uses_a_fetched_toolchain(
    hook: Any, shim: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched = ModuleType("puccinialin")
    vars(fetched)["setup_rust"] = lambda: {"PATH": "/fetched"}
    monkeypatch.setitem(sys.modules, "puccinialin", fetched)
    assert hook.rust_from_pypi() == {"PATH": "/fetched"}
    assert f"'{shim}' has no toolchain: a toolchain is fetched" in capsys.readouterr().err


def test_without_the_installer_the_build_says_what_to_type(
    hook: Any, shim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "puccinialin", None)
    with pytest.raises(SystemExit, match="has no toolchain\nhint: rustup default stable"):
        hook.rust_from_pypi()
