"""Folders of packages stay small enough to read, and every module does something of its own."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
PACKAGES = {
    name: HOUSE / folder / "zoo" / name
    for name, folder in {
        "gym": "app",
        "backends": "backends",
        "models": "models",
        "core": "core-rs/python",
    }.items()
}

MODULES = 25
"""The most modules that a folder has, `__init__.py` included."""

LARGER = {"cli": 48}
"""Folders with a limit of their own: cli has a module per verb."""

FORWARDING_LINES = 25
"""A shorter module must do more than call another one."""


def crowded(root: Path) -> Iterator[str]:
    """Yields each folder with more modules than it may have."""
    for folder in (root, *(path for path in sorted(root.rglob("*")) if path.is_dir())):
        name = str(folder.relative_to(root))
        count, most = len(list(folder.glob("*.py"))), LARGER.get(name, MODULES)
        if count > most:
            yield f"{name}: {count} modules: expected at most {most}"


def only_forwards(source: str) -> bool:
    """Says whether each function's body is one call of a function from another module of ours.

    A module without any definition, which only gives imported names again, forwards as well.
    """
    tree = ast.parse(source)
    ours = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zoo.")
        for alias in node.names
    }
    own = [node for node in tree.body if not _is_preamble(node)]
    return all(isinstance(node, ast.FunctionDef) and _forwards(node, ours) for node in own)


def _is_preamble(node: ast.stmt) -> bool:
    """Says whether a statement is a docstring, an import, `if TYPE_CHECKING`, or `__all__`."""
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or isinstance(node, ast.Import | ast.ImportFrom)


def _forwards(function: ast.FunctionDef, ours: set[str]) -> bool:
    body = [node for node in function.body if not _is_preamble(node)]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    return isinstance(call, ast.Call) and ast.unparse(call.func).partition(".")[0] in ours


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_has_too_many_modules(package: str) -> None:
    assert list(crowded(PACKAGES[package])) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_short_module_only_forwards(package: str) -> None:
    published = {
        "client.py",
        "hparams.py",
        "personalization.py",
        "quantization.py",
    }  # these only re-export
    modules = (
        path
        for path in PACKAGES[package].rglob("*.py")
        if not path.name.startswith("__") and path.name not in published
    )
    sources = {path: path.read_text(encoding="utf-8") for path in modules}
    short = {p: text for p, text in sources.items() if text.count("\n") < FORWARDING_LINES}
    assert [path.name for path, text in short.items() if only_forwards(text)] == []


def test_a_module_more_than_the_limit_is_found(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    for number in range(MODULES):
        (tmp_path / "room" / f"{number}.py").touch()
    assert list(crowded(tmp_path)) == []
    (tmp_path / "room" / "one_more.py").touch()
    assert list(crowded(tmp_path)) == ["room: 26 modules: expected at most 25"]


FORWARDING = '''"""Gives a list."""
from zoo.gym.jobs import list_runs
def runs():
    """Returns runs."""
    return list_runs()
'''


@pytest.mark.parametrize(
    ("source", "forwards"),
    [
        (FORWARDING, True),
        ("from zoo.gym.jobs import list_runs as list_runs\n", True),
        (FORWARDING.replace("list_runs()\n", "sorted(list_runs())\n"), False),
        (FORWARDING.replace("    return", "    found = 1\n    return"), False),
        (FORWARDING + "LIMIT = 3\n", False),
        (FORWARDING.replace("zoo.gym", "other"), False),
    ],
    ids=["a call", "names alone", "a call of its own", "two statements", "a constant", "a library"],
)
def test_what_only_forwards_is_known(source: str, *, forwards: bool) -> None:
    assert only_forwards(source) is forwards


def rooms_used_in(room: str) -> set[str]:
    """Returns the rooms of zoo.gym that the modules of a room import."""
    imports = (
        node
        for path in (PACKAGES["gym"] / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    )
    names = (str(node.module).split(".") for node in imports)
    return {name[2] for name in names if name[:2] == ["zoo", "gym"] and len(name) > 2} - {room}


def test_the_app_uses_no_room_that_the_commands_do_not() -> None:
    assert rooms_used_in("tui") - rooms_used_in("cli") == set()
