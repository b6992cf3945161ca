"""What is promised of installing, as far as it can be read without installing."""

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.extras import COMPILED, LARGE, PLAIN_PYTHON, extras
from tests.house.matrix import PYTHONS

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]
LOCKED = dict(
    line.split(" ;")[0].split("==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if re.match(r"[a-z0-9]", line)
)


def whole(extra: str) -> set[str]:
    """Returns the distributions that an extra brings, those of its inner extras among them."""
    names: set[str] = set()
    for line in OPTIONAL[extra]:
        inner = re.match(r"zoo-gym\[(.*)\]", line)
        found = re.match(r"[A-Za-z0-9_-]+", line)
        names |= set().union(*map(whole, inner[1].split(","))) if inner else set()
        names |= {found[0]} if found and not inner else set()
    return names


def test_all_brings_every_extra_that_installs_from_wheels() -> None:
    alone = COMPILED | LARGE | {"all"}
    assert whole("all") == set().union(*(whole(extra) for extra in extras() if extra not in alone))


@pytest.mark.parametrize("extra", extras())
def test_the_constraints_hold_every_extra(extra: str) -> None:
    assert whole(extra) <= set(LOCKED)


def test_the_constraints_hold_the_torch_that_the_project_asks_for() -> None:
    assert f"torch=={LOCKED['torch']}" in PROJECT["dependencies"]


def test_every_system_and_python_is_in_the_ci_matrix() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    matrix = yaml.safe_load(text)["jobs"]["test"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    assert matrix["python"] == named
    assert set(PYTHONS) <= set(named)
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_ci_matrix_says_what_was_not_run() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert text.startswith("# Not run yet")


def test_what_may_be_built_from_source_is_locked() -> None:
    assert set(PLAIN_PYTHON) <= set(LOCKED)


NAMED_OTHERWISE = {"pillow": "PIL", "pyyaml": "yaml"}
WITH_ANOTHER = {
    "aiohttp": "textual-serve brings it",
    "botocore": "s3fs brings it",
    "onnx": "torch's exporter needs it",
    "onnx_ir": "onnxscript brings it",
    "onnxscript": "torch's exporter needs it",
    "plotext": "textual-plotext draws with it, and needs it below 6",
    "tokenizers": "transformers brings it",
    "pydantic_core": "pydantic brings it",
    "packaging": "transformers brings it",
    "python_multipart": "fastapi reads uploads with it",
    "rich": "textual brings it",
    "sqlalchemy": "optuna brings it",
    "starlette": "fastapi brings it",
}
"""Declared for another's sake, or imported as part of what is declared."""


@pytest.mark.slow
def test_what_is_declared_is_imported_and_the_other_way_round() -> None:
    lines = [*PROJECT["dependencies"], *(line for name in OPTIONAL for line in OPTIONAL[name])]
    names = {re.split(r"[<>=;\[ ]", line)[0] for line in lines if not line.startswith("zoo-gym")}
    declared = {NAMED_OTHERWISE.get(name, name.replace("-", "_")) for name in names}
    assert declared ^ third_party() == set(WITH_ANOTHER)


def third_party() -> set[str]:
    """Returns the top-level modules of others that our packages import anywhere."""
    found: set[str] = set()
    for folder in ("app", "backends", "models", "core-rs/python"):
        for file in (ROOT / folder / "zoo").rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    found |= {name.name.partition(".")[0] for name in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"zoo"}


def test_the_program_has_its_published_names() -> None:
    names = ("zoo-gym", "gym", "gym-cli")
    assert PROJECT["scripts"] == dict.fromkeys(names, "zoo.gym.cli:main")
