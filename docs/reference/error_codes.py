"""Finds the codes of errors in the source: where each is raised, with which class and words."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from zoo.gym.errors import EXIT_CODES

ROOT = Path(__file__).parents[2]
APP, BACKENDS, MODELS, CORE = PACKAGES = tuple(
    ROOT / name
    for name in ("app/zoo/gym", "backends/zoo/backends", "models/zoo/models", "core-rs/python/zoo")
)
ENGINES = {"llamacpp", "mlx", "openai", "torch"}
BLOCKS = ("body", "orelse", "finalbody")
CLASSES = {kind.__name__: code for kind, code in EXIT_CODES.items()}


class Raised(NamedTuple):
    """A place that creates an error.

    Attributes:
        place: file and line.
        rooms: those whose codes it may have, its own first.
        code: the error's; None if it has none.
        kind: its class.
        words: its message with `{...}` for values.
    """

    place: str
    rooms: tuple[str, ...]
    code: str | None
    kind: str
    words: str


def raised() -> Iterator[Raised]:
    """Yields each place in the source that creates one of our errors, by file and line.

    A place that only passes on another error's code, as `code=error.code` does, is left out;
    `code=error.code or "room.reason"` is not.
    """
    paths = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]
    trees = {path: ast.parse(path.read_text("utf-8")) for path in paths}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    kinds = _kinds([node for node in nodes if isinstance(node, ast.ClassDef)])
    for path, tree in trees.items():
        texts = dict(_texts(tree.body, {}))
        for call, kind in sorted(_calls(tree, kinds), key=lambda pair: pair[0].lineno):
            value = next((key.value for key in call.keywords if key.arg == "code"), None)
            words = _words(call.args[0], texts.get(call)) if call.args else ""
            place = f"{path.relative_to(ROOT)}:{call.lineno}"
            for code in [None] if value is None else _codes(value):
                yield Raised(place, rooms_of(path), code, kind, words)


def rooms_of(path: Path) -> tuple[str, ...]:
    """Returns the rooms whose codes a file of the source may have, its own first.

    Engines share the codes of `backends`, and have those of `models` for the same faults.
    """
    package = next(package for package in PACKAGES if path.is_relative_to(package))
    first = path.relative_to(package).parts[0].removesuffix(".py")
    if package in (APP, CORE):
        return (first,)
    if package == MODELS:
        return (MODELS.name,)
    engine = {first.removesuffix("_files")} & ENGINES
    return (*engine, BACKENDS.name, MODELS.name)


def _kinds(classes: Iterable[ast.ClassDef]) -> dict[str, str]:
    """Returns the classes that are called with a code, each with the class of its exit code.

    A subclass with its own constructor is not: it passes a code to `super().__init__`.
    """
    kinds = {name: name for name in CLASSES}
    subclasses = {node.name: node for node in classes}
    while derived := {
        name: kinds[base]
        for name, node in subclasses.items()
        if name not in kinds and _constructor(node) is None
        for base in _bases(node) & kinds.keys()
    }:
        kinds |= derived
    return kinds


def _calls(tree: ast.Module, kinds: Mapping[str, str]) -> Iterator[tuple[ast.Call, str]]:
    """Yields the calls that create an error, each with the class that decides its exit code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
            yield node, kinds[node.func.id]
        elif isinstance(node, ast.ClassDef) and (constructor := _constructor(node)) is not None:
            for base in _bases(node) & kinds.keys():
                for call in ast.walk(constructor):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
                        yield call, kinds[base]


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    methods = (method for method in node.body if isinstance(method, ast.FunctionDef))
    return next((method for method in methods if method.name == "__init__"), None)


def _bases(node: ast.ClassDef) -> set[str]:
    return {base.id for base in node.bases if isinstance(base, ast.Name)}


def _codes(value: ast.expr) -> list[str]:
    """Returns the codes that an expression names."""
    parts = value.values if isinstance(value, ast.BoolOp) else [value]
    return [str(part.value) for part in parts if isinstance(part, ast.Constant)]


def _texts(
    body: Iterable[ast.stmt], names: Mapping[str, ast.expr]
) -> Iterator[tuple[ast.expr, Mapping[str, ast.expr]]]:
    """Yields each call, with what the names of its block and those around it were set to."""
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            names = {**names, statement.targets[0].id: statement.value}
        parts = [statement, *getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
        blocks = [getattr(part, name, []) for part in parts for name in BLOCKS]
        for block in blocks:
            yield from _texts(block, names)
        if not any(blocks):
            yield from ((call, names) for call in ast.walk(statement) if isinstance(call, ast.Call))


def _words(node: ast.expr, names: Mapping[str, ast.expr] | None = None) -> str:
    """Returns a message with `{...}` in place of its values."""
    if isinstance(node, ast.Name) and names is not None:
        node = names.get(node.id, node)
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _words(node.left) + _words(node.right)
    return "{...}"


def page() -> str:
    """Returns the table of docs/reference/errors.md."""
    by_code: defaultdict[str, list[Raised]] = defaultdict(list)
    for error in raised():
        if error.code is not None:
            by_code[error.code].append(error)
    lines = ["| code | exit code | message |", "|---|---|---|"]
    for code, errors in sorted(by_code.items()):
        words = "<br>".join(dict.fromkeys(_cell(error.words) for error in errors))
        lines.append(f"| `{code}` | {CLASSES[errors[0].kind]} | {words} |")
    return "\n".join(lines) + "\n"


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
