"""Finds out which statements of unit tests check anything when they are executed.

It reads the syntax alone: an assert of a value that is always true by its form, a comparison whose
result is dropped, and a function that nothing calls check nothing.
"""

import ast
import builtins
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

_SHOWN_CHARACTERS = 60
_BUILTINS = frozenset(dir(builtins))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_TRUE = (ast.Tuple, ast.GeneratorExp, ast.Lambda)
_DROPPED = (ast.Compare, ast.UnaryOp, ast.BinOp, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Name)
"""Expressions whose value is lost where they are statements."""


class UselessTestsError(Exception):
    """Tests cannot be run, or check nothing; the message says which and why."""


def parsed(source: str) -> list[ast.stmt]:
    """Returns the statements of a source that are executed where it is no main program.

    Raises:
        UselessTestsError: it cannot be compiled.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<test>", "exec", dont_inherit=True)
            tree = ast.parse(source)
    except SyntaxError as error:
        raise UselessTestsError(f"not Python: {error.msg}: {_shown(source)}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UselessTestsError(f"not Python: {error}: {_shown(source)}") from None
    return [statement for statement in tree.body if not _is_for_main(statement)]


def _is_for_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in _loaded([statement.test])


def _shown(source: str) -> str:
    line = " ".join(source.split())
    return repr(line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "...")


def _loaded(nodes: Sequence[ast.AST]) -> set[str]:
    """Returns the names that are read anywhere in some nodes."""
    every = (node for root in nodes for node in ast.walk(root))
    return {node.id for node in every if isinstance(node, ast.Name)}


def implied_calls(statements: Sequence[ast.stmt], entry: str) -> list[str]:
    """Returns calls of the functions that contain tests and that nothing calls.

    Args:
        statements: the statements of all tests.
        entry: the name of the function that `check` tests; empty if the row has none.

    Raises:
        UselessTestsError: there are tests that cannot be called.
    """
    used, calls = _loaded(statements), list[str]()
    for statement in statements:
        if isinstance(statement, ast.ClassDef) and statement.name not in used:
            if any(
                isinstance(part, _FUNCTIONS) and part.name[:4] == "test" for part in statement.body
            ):
                raise UselessTestsError(
                    f"class {statement.name} is not run: expected asserts, or functions test_*"
                )
        elif isinstance(statement, _FUNCTIONS) and statement.name not in used:
            if statement.name == "check":
                if not entry:
                    raise UselessTestsError("check is not called: expected an entry_point as well")
                calls.append(f"check({entry})")
            elif statement.name.startswith("test"):
                _require_plain(statement)
                calls.append(f"{statement.name}()")
    return calls


def _require_plain(function: _Function) -> None:
    arguments = function.args
    needed = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    needed += sum(default is None for default in arguments.kw_defaults)
    if needed or function.decorator_list or isinstance(function, ast.AsyncFunctionDef):
        raise UselessTestsError(
            f"{function.name} is not called: expected a function without parameters and decorators"
        )


def checks_anything(statements: Sequence[ast.stmt], everything: Sequence[ast.stmt]) -> bool:
    """Returns whether executing some statements can fail because of the code under test.

    Args:
        statements: those of one test.
        everything: the statements of all tests, whose functions they may call.

    Raises:
        UselessTestsError: a statement looks like a check and checks nothing.
    """
    functions = {
        statement.name: statement for statement in everything if isinstance(statement, _FUNCTIONS)
    }
    checks = [
        _checks(statement, functions) for statement in _executed(statements)
    ]  # all, to refuse any
    return any(checks)


def _executed(statements: Sequence[ast.stmt], *, catching: bool = False) -> Iterator[ast.stmt]:
    """Yields the statements that are executed, without those in functions and classes.

    Raises:
        UselessTestsError: one is always true, or its value is lost although it need not raise.
    """
    for statement in statements:
        if isinstance(statement, ast.Assert) and isinstance(statement.test, _TRUE):
            raise UselessTestsError(f"{_shown(ast.unparse(statement))} is always true")
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, _DROPPED)
            and not catching
        ):
            raise UselessTestsError(f"{_shown(ast.unparse(statement))} is not asserted")
        yield statement
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            continue
        inner = catching or isinstance(statement, ast.With | ast.AsyncWith | ast.Try)
        for part in (
            statement,
            *getattr(statement, "handlers", ()),
            *getattr(statement, "cases", ()),
        ):
            for field in ("body", "orelse", "finalbody"):
                yield from _executed(getattr(part, field, []), catching=inner)


def _checks(statement: ast.stmt, functions: Mapping[str, _Function]) -> bool:
    if isinstance(statement, ast.Assert):  # some tests of HumanEval begin with assert True
        return not (isinstance(statement.test, ast.Constant) and statement.test.value)
    if not isinstance(statement, ast.Expr):
        return isinstance(statement, ast.Raise)
    called = statement.value.func if isinstance(statement.value, ast.Call) else None
    if not isinstance(called, ast.Name):  # a method, or calls within another expression
        return any(isinstance(node, ast.Call) for node in ast.walk(statement))
    if called.id not in functions:
        return called.id not in _BUILTINS
    rest = {name: function for name, function in functions.items() if name != called.id}
    checks = [_checks(inner, rest) for inner in _executed(functions[called.id].body)]
    return any(checks)
