"""Rules that no linter knows, each broken by somebody before."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import zoo.gym

ROOT = Path(__file__).parents[2]
ROOTS = ("app", "backends", "models", "core-rs/python")
SOURCES = sorted(path for root in ROOTS for path in (ROOT / root / "zoo").rglob("*.py"))

FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
UNPICKLING = {("torch", "load"), ("torch", "save")}


def test_zoo_is_a_namespace_that_others_may_share() -> None:
    assert not [root for root in ROOTS if (ROOT / root / "zoo" / "__init__.py").exists()]
    assert len(zoo.__path__) >= 1
    assert getattr(zoo, "__file__", None) is None


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_source_reads_or_writes_pickles(source: Path) -> None:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not {alias.name.partition(".")[0] for alias in node.names} & FORBIDDEN
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] not in FORBIDDEN
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in UNPICKLING


@pytest.mark.parametrize("name", zoo.gym.__all__)
def test_every_public_name_works_and_says_what_it_is(name: str) -> None:
    thing = getattr(zoo.gym, name)
    assert isinstance(thing, str) or (thing.__doc__ or "").strip()


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'NoSuchName'"):
        zoo.gym.NoSuchName  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"torch", "mlx", "transformers", "peft", "textual", "numpy", "sqlite_utils"}
    heavy |= {"huggingface_hub", "safetensors", "pydantic", "cyclopts", "yaml"}
    program = "import sys, zoo.gym; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not heavy & {name.partition(".")[0] for name in done.stdout.split()}


IMPORT_ALL = """
import importlib, socket, sys
def refuse(*args, **kwargs):
    raise SystemExit(f"asked for the network: {args}")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
for name in sys.argv[1:]:
    importlib.import_module(name)
from zoo.backends.torch.quantized.library import import_bitsandbytes
import_bitsandbytes()  # as before each import of peft, which imports it without our guard
for name in ("transformers", "peft", "accelerate"):
    importlib.import_module(name)
"""


KERNELS = """
# Stands for the package through which others fetch native code: loading any ends the program.
def refuse(*args, **kwargs):
    raise SystemExit(f"asked the hub for native code: {args}")
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return refuse if name[0].islower() else type(name, (), {"__init__": lambda self, *a, **k: None})
"""


@pytest.mark.slow
def test_nothing_is_fetched_while_importing(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    names = [module_name(source) for source in SOURCES if source.name != "__main__.py"]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *names],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr + done.stdout


ADAFACTOR = """
import torch
from zoo.backends.base import OptimizerSpec
from zoo.backends.torch.optimizers.named import NamedOptimizer
table = {"model.layers.0.mlp.weight": torch.nn.Parameter(torch.ones(2, 2))}
NamedOptimizer(table, OptimizerSpec(name="adafactor"))
"""


@pytest.mark.slow
def test_an_optimizer_of_transformers_fetches_nothing(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    done = subprocess.run(
        [sys.executable, "-c", ADAFACTOR],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *map(str, sys.path)])},
    )
    assert (done.returncode, done.stderr) == (0, "")


def module_name(source: Path) -> str:
    parts = source.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[parts.index("zoo") :]).removesuffix(".__init__")


@pytest.mark.slow
def test_every_module_imports() -> None:
    for source in SOURCES:
        if source.name != "__main__.py":
            importlib.import_module(module_name(source))


@pytest.mark.slow
def test_the_house_keeps_its_sizes() -> None:
    from tests.house import sizes

    assert sizes.main() == 0
