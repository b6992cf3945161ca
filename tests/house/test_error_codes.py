"""Codes of errors are words that a program may rely on."""

import importlib.util
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BELOW_THE_APP = ("backends/zoo/backends", "models/zoo/models", "core-rs/python/zoo")
REFERENCE = ROOT / "docs" / "reference"
FORM = re.compile(r"[a-z_]+\.[a-z_]+")
NO_CODES = (".json", ".meet", ".safetensors", ".yaml", ".completion", ".tcss", ".token")


@pytest.fixture(scope="module")
def errors() -> list[Any]:
    """Every error that the source makes, by docs/reference/error_codes.py."""
    spec = importlib.util.spec_from_file_location("error_codes", REFERENCE / "error_codes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.raised())


def test_every_error_has_a_code(errors: list[Any]) -> None:
    assert [error.place for error in errors if error.code is None] == []


def test_a_code_names_its_room_and_a_reason(errors: list[Any]) -> None:
    assert [
        error
        for error in errors
        if not (FORM.fullmatch(error.code) and error.code.partition(".")[0] in error.rooms)
    ] == []


def test_engines_share_codes_with_each_other_and_with_models(errors: list[Any]) -> None:
    rooms = {error.place.partition(":")[0]: error.rooms for error in errors}
    assert rooms["backends/zoo/backends/torch/probe.py"] == ("torch", "backends", "models")
    assert rooms["backends/zoo/backends/mlx_files.py"] == ("mlx", "backends", "models")
    assert rooms["backends/zoo/backends/ranks.py"] == ("backends", "models")
    assert rooms["models/zoo/models/gguf/parts.py"] == ("models",)
    assert rooms["core-rs/python/zoo/core/paths.py"] == ("core",)
    assert rooms["app/zoo/gym/jobs/state.py"] == ("jobs",)


def test_a_code_stands_for_one_class_of_errors(errors: list[Any]) -> None:
    classes: defaultdict[str, set[str]] = defaultdict(set)
    for error in errors:
        classes[error.code].add(error.kind)
    assert {code: kinds for code, kinds in classes.items() if len(kinds) > 1} == {}


def test_a_code_that_a_class_of_errors_sets_is_raised_by_the_class(errors: list[Any]) -> None:
    kinds = {error.code: error.kind for error in errors}
    assert kinds["experience.cap_reached"] == "InterruptedRunError"  # by its constructor
    assert kinds["data.render_limit"] == "InputError"  # by who raises it
    assert kinds["openai.endless_answer"] == "InterruptedRunError"  # by its constructor
    assert kinds["torch.lost_process"] == "InterruptedRunError"  # its class is of another file


def test_words_are_those_of_the_name_that_holds_them(errors: list[Any]) -> None:
    words = {error.code: error.words for error in errors}
    assert words["models.gated"].startswith("model '{...}' is gated: ")  # in an except block
    assert words["models.no_weights"] == "no weights in '{...}': expected '{...}' or '{...}'"
    assert words["models.is_adapter"].startswith("'{...}' is an adapter: ")  # not the last of three


def test_every_code_in_the_source_is_listed() -> None:
    app = ROOT / "app/zoo/gym"
    rooms = {path.stem for path in app.iterdir()}
    named = set(re.findall(r'"([a-z_]+\.[a-z_]+)"', _source(app)))
    codes = {
        text for text in named if text.partition(".")[0] in rooms and not text.endswith(NO_CODES)
    }
    for folder in BELOW_THE_APP:  # where many other words have dots
        codes |= set(re.findall(r'\bcode="([^"]+)"', _source(ROOT / folder)))
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\S+)` \|", page, re.MULTILINE)) == codes


def _source(folder: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
