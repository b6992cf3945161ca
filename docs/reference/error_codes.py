"""Finds the codes of errors in the source: where each is raised, with which class and words."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zoo.gym.errors import EXIT_CODES

ROOT = Path(__file__).parents[2]
CLASSES = {kind.__name__: code for kind, code in EXIT_CODES.items()}


class Raised(NamedTuple):
    """A place where an error is made: its room, code, class, and words with `{...}` for values."""

    place: str
    room: str
    code: str | None
    kind: str
    words: str


def raised(folder: Path = ROOT / "app/zoo/gym") -> Iterator[Raised]:
    """Yields the errors of our classes that the source makes, in the order of files and lines.

    An error that is made again from another one, with `code=error.code`, is none of its own.
    """
    for path in sorted(folder.rglob("*.py")):
        room = path.relative_to(folder).parts[0].removesuffix(".py")
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in CLASSES
        ]
        for call in sorted(calls, key=lambda call: call.lineno):
            assert isinstance(call.func, ast.Name)
            code = next((key.value for key in call.keywords if key.arg == "code"), None)
            if code is None or isinstance(code, ast.Constant):
                text = None if code is None else str(code.value)
                words = _words(call.args[0]) if call.args else ""
                place = f"{path.relative_to(ROOT)}:{call.lineno}"
                yield Raised(place, room, text, call.func.id, words)


def _words(node: ast.expr) -> str:
    """Returns a message with `{...}` in place of its values."""
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
