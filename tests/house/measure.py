"""Prints how large the house is, and how much of it is entangled or named by fillers.

usage: python -m tests.house.measure

Counted are the files that git knows, as they are in the working tree.
"""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
APP = "app/zoo/gym/"

FLOORS = (
    {"cli", "__main__"},
    {"tui"},
    {"demo", "doctor"},
    {"published", "client", "hparams", "personalization", "quantization"},
    {"rounds"},
    {"experience"},
    {"chat", "http_guard"},
    {"tuned"},
    {"jobs"},
    {"train"},
    {"delta"},
    {"rewards", "objectives", "measure", "retention"},
    {"config", "arguments"},
    {"data"},
    {
        "engine",
        "errors",
        "files",
        "humanize",
        "no_network",
        "offline",
        "paths",
        "processes",
        "signing",
        "store",
        "terminal",
        "versions",
        "wiring",
    },
)
"""The rooms of `zoo.gym` from the top: an import goes down only."""

FILLERS = frozenset(
    {"about", "after", "again", "before", "few", "found", "given", "how", "item", "kept", "known"}
    | {"made", "meant", "one", "others", "own", "place", "said", "shown", "there", "thing", "told"}
    | {"val", "wanted", "whole"}
)

RUN_SFT = "zoo.gym.published.hparams"
"""What `zoo.gym.train` imports although it is above: `run_sft` is published there."""

WORDED = re.compile(
    r"pytest\.raises\((GymError|InputError|NotAvailableError|StorageError|GuardError"
    r"|DoesNotFitError|InterruptedRunError), match=|\.message\b"
)
"""A test that reads the words of an error which has a code; those of libraries have none."""

KINDS = frozenset({"delta", "experience", "lessons", "weights"})
"""The kinds of round, which a branch compares with."""


def files(*folders: str) -> list[Path]:
    """Returns the Python files of folders."""
    command = ["git", "ls-files", *(f"{folder}*.py" for folder in folders)]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    paths = (ROOT / line for line in listed.stdout.splitlines())
    return [path for path in paths if path.is_file()]


def lines(paths: list[Path]) -> int:
    """Returns the number of lines of all files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def tree(path: Path) -> ast.Module:
    """Returns the parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(paths: list[Path]) -> int:
    """Returns the number of statements of all files."""
    return sum(isinstance(node, ast.stmt) for path in paths for node in ast.walk(tree(path)))


def bound_names(module: ast.Module) -> Iterator[str]:
    """Yields each name that a file binds, once for each binding."""
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def filler_names() -> tuple[Counter[str], dict[str, int]]:
    """Returns how often each name is bound outside tests and benches, and those of fillers."""
    names = Counter(
        name for path in files(APP, "backends/", "models/") for name in bound_names(tree(path))
    )
    return names, {name: names[name] for name in FILLERS if names[name]}


def branches_on_kind(module: ast.Module) -> int:
    """Returns how often a file asks of which kind a round is."""
    return sum(_asks_kind(node) for node in ast.walk(module))


def _asks_kind(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "expect"
    if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Attribute):
        return False
    values = {side.value for side in node.comparators if isinstance(side, ast.Constant)}
    return (node.left.attr == "kind" and bool(values & KINDS)) or (
        node.left.attr == "privacy" and None in values
    )


def imported_rooms(module: ast.Module) -> Iterator[str]:
    """Yields the rooms that a file imports when it runs, in functions too."""
    typing = {
        child
        for node in ast.walk(module)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(module):
        if node in typing:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "zoo.gym":
            names = [f"zoo.gym.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name == RUN_SFT:
                continue
            parts = name.split(".")
            if parts[:2] == ["zoo", "gym"] and len(parts) > 2:
                yield parts[2]


def room_of(path: Path) -> str:
    """Returns the room of `zoo.gym` that a file is in; a file beside the folders is one."""
    return path.relative_to(ROOT / APP).parts[0].removesuffix(".py")


def climbing(imports: Mapping[str, Counter[str]]) -> list[str]:
    """Returns the imports that lead up: `room -> room (number of files)`."""
    floor = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
    return [
        f"{room} -> {other} ({count})"
        for room, others in sorted(imports.items())
        for other, count in sorted(others.items())
        if room in floor and other in floor and floor[other] < floor[room]
    ]


def in_circles(imports: Mapping[str, Counter[str]]) -> list[str]:
    """Returns the rooms from which imports lead back to them."""
    return [room for room in sorted(imports) if room in _reached(imports, room)]


def _reached(imports: Mapping[str, Counter[str]], room: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(imports[room])
    while waiting:
        other = waiting.pop()
        if other not in reached:
            reached.add(other)
            waiting += imports.get(other, ())
    return reached


def wordings(paths: list[Path]) -> tuple[int, int]:
    """Returns how many tests know an error of ours by its words alone, and how many by its code."""
    worded = coded = 0
    for path in paths:
        for test in ast.walk(tree(path)):
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                text = ast.unparse(test)
                has_code = "with raises('" in text or ".code == '" in text or "['code']" in text
                coded += has_code
                worded += not has_code and bool(WORDED.search(text))
    return worded, coded


def main() -> None:
    """Prints the table."""
    app = files(APP)
    rounds = files(f"{APP}rounds/")
    commands = [
        path for path in files(f"{APP}cli/") if "round" in path.relative_to(ROOT / APP).parts
    ]
    print(f"app: {lines(app):,} lines, {statements(app):,} statements in {len(app)} files")
    for room in ("backends/", "models/", "bench/", "tests/"):
        paths = files(room)
        print(f"{room[:-1]}: {lines(paths):,} lines, {statements(paths):,} statements")
    print(f"rounds: {lines(rounds):,} lines in {len(rounds)} files")
    print(f"commands of rounds: {lines(commands):,} lines in {len(commands)} files")

    asking = {path: branches_on_kind(tree(path)) for path in app}
    asking = {path: count for path, count in asking.items() if count}
    print(f"branches on the kind of a round: {sum(asking.values())} in {len(asking)} files")

    names, fillers = filler_names()
    share = sum(fillers.values()) / names.total()
    most = ", ".join(f"{name} {n}" for name, n in Counter(fillers).most_common(8))
    print(f"filler names: {share:.1%} of {names.total():,} bound names ({most})")

    imports: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path in app:
        for room in set(imported_rooms(tree(path))) - {room_of(path)}:
            imports[room_of(path)][room] += 1
    circle, upward = in_circles(imports), climbing(imports)
    print(f"rooms in a circle: {len(circle)}{': ' if circle else ''}{', '.join(circle)}")
    print(f"imports that climb: {len(upward)}")
    for line in upward:
        print(f"  {line}")

    command = [sys.executable, "-m", "tests.house.contribute"]
    called = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    print(f"modules that run in one round contribute: {len(called.splitlines())}")
    worded, coded = wordings(files("tests/"))
    print(f"tests of errors: {worded} match words, {coded} a code")


if __name__ == "__main__":
    main()
