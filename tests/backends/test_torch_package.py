"""Without torch a command names what installs it for this machine; the app opens."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.backends.libraries import torch_package

WITHOUT = """
import importlib.machinery, sys
real = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = staticmethod(
    lambda name, path=None, target=None: None if name == "torch" else real(name, path, target)
)
"""
"""The start of a process that has no torch."""

HIDDEN = f"""{WITHOUT}
from zoo.gym.cli import main
sys.exit(main(sys.argv[1:]))
"""

OPENS = f"""{WITHOUT}
import asyncio
from zoo.gym.tui.app import GymApp
from tests.gym.tui.conftest import screen_text, shows

async def look():
    app = GymApp()
    async with app.run_test(size=(100, 30)) as pilot:
        for key, text in (("2", "zen-pico"), ("1", "What to do next")):
            await pilot.press(key)
            await shows(pilot, text)
        print(screen_text(app))

asyncio.run(look())
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A machine by its system, its processor, and whether it has an NVIDIA GPU."""
    system, architecture, has_gpu = request.param
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: architecture)
    monkeypatch.setattr(torch_package, "nvidia_there", lambda: has_gpu)
    monkeypatch.setattr(torch_package, "installer", lambda: "pip")
    monkeypatch.setattr(torch_package, "install_command", "[{}]".format)
    needed = ["torchvision>=1", "torch==2.13.0", "x ; extra == 'y'"]
    monkeypatch.setattr(torch_package, "requires", {"zoo-gym": needed}.get)
    monkeypatch.setattr(torch_package, "find_spec", {}.get)


@pytest.mark.parametrize(
    ("machine", "hint"),
    [
        (
            ("linux", "x86_64", False),
            "pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu",
        ),
        (("linux", "x86_64", True), "pip install torch==2.13.0; then [qlora]"),
        (("darwin", "arm64", False), "pip install torch==2.13.0; then [mlx]"),
        (("win32", "AMD64", False), "pip install torch==2.13.0"),
        (
            ("win32", "AMD64", True),
            "pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cu130; "
            "then [qlora]",
        ),
    ],
    indirect=["machine"],
)
@pytest.mark.usefixtures("machine")
def test_each_machine_gets_its_build_and_its_extra(hint: str) -> None:
    with raises("backends.missing_package", "torch, which is not installed") as caught:
        torch_package.require_torch()
    assert caught.value.hint == hint


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("words", "code"),
    [("train rows.jsonl --model zen-pico", 4), ("chat --model zen-pico", 4), ("models", 0)],
)
def test_a_command_without_torch_says_what_to_install(
    words: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    (tmp_path / "rows.jsonl").write_text('{"prompt": "hi", "completion": "ho"}\n' * 3)
    argv = [sys.executable, "-c", HIDDEN, *words.split()]
    done = subprocess.run(
        argv, input="hi", cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    named = "error: training and chat need the package torch, which is not installed" in done.stderr
    assert named == (code == 4)
    assert "unexpected" not in done.stderr


def test_the_app_opens_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    argv = [sys.executable, "-c", OPENS]
    root = Path(__file__).parents[2]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True)
    assert "What to do next" in done.stdout
