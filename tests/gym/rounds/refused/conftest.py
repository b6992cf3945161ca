"""A round of two in a folder, by commands, and what has to stay as it was when one is refused."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.gym.cli.conftest import Outcome, call, write_model

__all__ = ["call"]

Person = Callable[..., Outcome]
UP, DOWN = (f"model.layers.0.mlp.{side}_proj.weight" for side in ("up", "down"))
SHAPES = {UP: (4, 12), DOWN: (12, 4)}
"""Twelve columns: four padding bits in a row of signs."""


def tensors(seed: int) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def write_weights(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Writes a model of these tensors."""
    write_model(folder, 0)
    save_file(dict(arrays), folder / "model.safetensors")
    return folder


def tuned(folder: Path, change: Mapping[str, NDArray[Any]]) -> Path:
    """Writes the base plus a change."""
    arrays = tensors(0)
    return write_weights(
        folder,
        {name: arrays[name] + change[name] if name in change else arrays[name] for name in arrays},
    )


def some_change(seed: int, size: float = 0.1) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return {UP: (size * rng.normal(size=SHAPES[UP])).astype(np.float32)}


@pytest.fixture
def person(call: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Runs a command as one of several people, in a folder with a base and three fine-tunes."""
    write_weights(tmp_path / "base", tensors(0))
    for seed, who in enumerate(("ann", "ben", "eve"), 1):
        tuned(tmp_path / who, some_change(seed))

    def run(who: str, *words: str, stdin: str = "") -> Outcome:
        monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "homes" / who))
        return call(*words, stdin=stdin)

    return run


ROUND = ("--min-contributors", "2", "--method", "mean", "--tensors", "*up_proj*")


def start(person: Person, *more: str, out: str = "round") -> None:
    """Starts a round of two about one matrix."""
    found = person(
        "maker", "round", "create", "tiny", "--base", "base", "--out", out, *ROUND, *more
    )
    assert found.code == 0, found.stderr


def contribute(person: Person, who: str, source: str | None = None, *more: str) -> Outcome:
    words = ("contribute", source or who, "--round", "round", "--base", "base", *more)
    return person(who, "round", *words, "--send")


def files(folder: Path) -> dict[str, bytes]:
    """Returns everything in a storage."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {name: path.read_bytes() for name, path in sorted(found.items()) if path.is_file()}


def check_refused(found: Outcome, code: int, said: str) -> None:
    """Holds a refusal to its exit code and to one sentence that says what was expected."""
    assert (found.code, found.stdout) == (code, ""), found
    errors = [line for line in found.stderr.splitlines() if "error: " in line]
    assert len(errors) == 1, found.stderr
    assert said in errors[0], found.stderr
    assert re.search(r"expected .|has no effect|is in .+ but not in", errors[0]), errors[0]
