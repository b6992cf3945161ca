"""Prints how long files and functions are, and fails past the limits of the house.

usage: python -m tests.house.sizes

A function counts from its `def` (or `fn`) to its last line, its docstring left out.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "backends", "models", "core-rs", "bench")

FILE_LINES = 500
FUNCTION_LINES = 80
MEDIAN_LINES, P90_LINES = 10, 30

EXCEPTIONS: dict[str, tuple[int, str]] = {}
"""Function to the limit it has instead, and why: a training loop or a SIMD kernel may need one."""


@dataclass(frozen=True)
class Piece:
    """A file, or a function of one, with its number of lines."""

    name: str
    lines: int


def files(suffix: str) -> list[Path]:
    """Returns the source files of every room, built and fetched ones left out."""
    found = (path for room in ROOMS for path in (ROOT / room).rglob(f"*{suffix}"))
    return sorted(path for path in found if "target" not in path.parts)


def python_functions(path: Path) -> Iterator[Piece]:
    """Yields every function and method of a Python file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            docstring = node.body[0] if ast.get_docstring(node) is not None else None
            if docstring is not None and docstring.end_lineno is not None:
                lines -= docstring.end_lineno - docstring.lineno + 1
            yield Piece(f"{path.relative_to(ROOT)}:{node.name}", lines)


FUNCTION = re.compile(r"^\s*(?:pub(?:\([\w:]+\))? )?(?:const |unsafe |extern \"C\" )*fn (\w+)")


def rust_functions(path: Path) -> Iterator[Piece]:
    """Yields every function of a Rust file, by counting braces as rustfmt sets them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for start, line in enumerate(lines):
        found = FUNCTION.match(line)
        if not found:
            continue
        indent = len(line) - len(line.lstrip())
        closing = " " * indent + "}"
        end = next((i for i in range(start, len(lines)) if lines[i].startswith(closing)), start)
        yield Piece(f"{path.relative_to(ROOT)}:{found[1]}", end - start + 1)


def row(title: str, pieces: list[Piece]) -> str:
    """Returns one line of the table."""
    sizes = [piece.lines for piece in pieces]
    largest = max(pieces, key=lambda piece: piece.lines)
    p90 = quantiles(sizes, n=10)[-1]
    return (
        f"{title:18} {len(sizes):>6} {median(sizes):>7.0f} {p90:>5.0f} "
        f"{largest.lines:>8}  {largest.name}"
    )


def faults(all_files: list[Piece], functions: list[Piece]) -> Iterator[str]:
    """Yields a sentence for each limit that is passed."""
    for piece in all_files:
        if piece.lines > FILE_LINES:
            yield f"{piece.name}: {piece.lines} lines: expected at most {FILE_LINES}"
    for piece in functions:
        limit, _ = EXCEPTIONS.get(piece.name, (FUNCTION_LINES, ""))
        if piece.lines > limit:
            yield f"{piece.name}: {piece.lines} lines: expected at most {limit}"
    sizes = [piece.lines for piece in functions]
    if median(sizes) > MEDIAN_LINES:
        yield f"median function: {median(sizes)} lines: expected at most {MEDIAN_LINES}"
    if quantiles(sizes, n=10)[-1] > P90_LINES:
        yield f"a tenth of the functions is longer than {P90_LINES} lines"


def main() -> int:
    """Prints the table and returns 1 where a limit is passed."""
    print(f"{'':18} {'count':>6} {'median':>7} {'p90':>5} {'largest':>8}")
    found: list[str] = []
    for language, suffix, functions_of in (
        ("Python", ".py", python_functions),
        ("Rust", ".rs", rust_functions),
    ):
        paths = files(suffix)
        whole = [
            Piece(str(path.relative_to(ROOT)), len(path.read_text(encoding="utf-8").splitlines()))
            for path in paths
        ]
        functions = [piece for path in paths for piece in functions_of(path)]
        print(row(f"{language} files", whole))
        print(row(f"{language} functions", functions))
        found += faults(whole, functions)
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
