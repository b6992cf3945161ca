"""The process that runs untrusted code: `python -I -S sandbox_child.py`, started by `sandbox.py`.

It reads one request from stdin, gives up its rights, runs the code and then each test, and writes
one reply to what was its stdout. What the code prints is discarded.
"""

import importlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.gym.rewards.code import confine
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    confine = importlib.import_module("confine")
    sys.path.pop(0)

_MESSAGE_CHARACTERS = 300


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Runs the code and the tests; returns the message of each failed part."""
    space: dict[str, Any] = {"__name__": "solution"}
    if request["others"]:
        _define_missing(request["code"], request["others"], space)
    failed = _attempt(request["code"], "the code", space)
    if failed is not None:
        return {"code": failed, "tests": [failed for _ in request["tests"]]}
    return {"code": None, "tests": [_attempt(test, "test", space) for test in request["tests"]]}


def _define_missing(code: str, solutions: Sequence[str], space: dict[str, Any]) -> None:
    """Executes those definitions of other sources that the code uses and lacks."""
    import ast
    import builtins

    def parse(source: str) -> list[ast.stmt]:
        try:
            return ast.parse(source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []

    def defined(statement: ast.AST) -> set[str]:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return {statement.name}
        if isinstance(statement, ast.Import | ast.ImportFrom):
            return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
        targets = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [getattr(statement, "target", statement)]
        )
        nodes = [node for target in targets for node in ast.walk(target)]
        return {node.id for node in nodes if isinstance(node, ast.Name)}

    functions, imports = (ast.FunctionDef, ast.AsyncFunctionDef), (ast.Import, ast.ImportFrom)
    kinds = (*functions, ast.ClassDef, *imports, ast.Assign, ast.AnnAssign)
    offered = [
        statement
        for other in solutions
        for statement in parse(other)
        if isinstance(statement, kinds)
    ]
    makers = {name: statement for statement in offered for name in defined(statement)}
    pending, chosen = parse(code), set[ast.stmt]()
    defined_here = {name for statement in pending for name in defined(statement)} | set(
        dir(builtins)
    )
    while pending:
        used = {node.id for node in ast.walk(pending.pop()) if isinstance(node, ast.Name)}
        new = {makers[name] for name in used - defined_here if name in makers} - chosen
        chosen |= new
        pending += new
    for statement in offered:
        if statement in chosen or "*" in defined(statement):
            with suppress(BaseException):  # the code then fails for want of it
                exec(compile(ast.Module([statement], []), "<another block>", "exec"), space)  # noqa: S102


def _attempt(source: str, name: str, space: dict[str, Any]) -> str | None:
    """Executes a source; returns None, or what it raised."""
    try:
        exec(compile(source, f"<{name}>", "exec"), space)  # noqa: S102 - that is what it is for
    except BaseException as error:  # noqa: BLE001 - untrusted code raises anything, exits included
        return _message(error)
    return None


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - an error's own text is untrusted code, too
        text = ""
    trace, line = error.__traceback__, 0
    while trace is not None:
        frame: FrameType = trace.tb_frame
        if frame.f_code.co_filename == "<the code>":
            line = trace.tb_lineno
        trace = trace.tb_next
    line_words = f" (line {line})" if line else ""
    return f"{type(error).__name__}: {text[:_MESSAGE_CHARACTERS]}".removesuffix(": ") + line_words


def main() -> None:
    """Answers one request."""
    request = json.loads(sys.stdin.buffer.read())
    reply = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    confine.limit_resources(request["memory_bytes"], request["cpu_s"], request["file_bytes"])
    sys.path += request["packages"]
    done: dict[str, Any] = {"key": request.pop("key")}
    try:
        readable = [*request["readable"], *request["packages"]]
        confine.confine(request["folder"], readable, request["platform"])
    except confine.UnconfinedError as error:
        if not request["unconfined"]:
            os.write(reply, json.dumps(done | {"refused": str(error)}).encode())
            return
    os.write(reply, json.dumps(done | run(request)).encode())
    os._exit(0)  # nothing that the code registered runs afterwards


if __name__ == "__main__":
    main()
