"""A home for imported models, and the reference files of the tests here."""

from pathlib import Path

import pytest

from tests.models.gguf.files import LLAMA, llama_tensors, settings, write_gguf


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of imported models, which does not exist yet."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "data" / "models"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """A tiny Llama in float32 without a chat template."""
    return write_gguf(tmp_path / "tiny.gguf", settings("llama", LLAMA), llama_tensors())
