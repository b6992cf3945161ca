"""The command line: one file per verb, `verbs.py` has the table of them.

This file handles what needs no parser, so that `zoo-gym --help` imports almost nothing.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from types import TracebackType

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code, see `zoo.gym.errors`.

    Args:
        argv: the arguments after the program's name; None uses those of the process.
    """
    if argv is None:
        sys.excepthook = _report_bugs
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv), is_program=argv is None)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has exited; a second error at exit would only hide that.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _run(words: list[str], *, is_program: bool) -> int:
    if not words and on_terminal():
        from zoo.gym.errors import GymError
        from zoo.gym.tui import open_app

        try:
            return open_app()
        except GymError as error:
            from zoo.gym.cli.boundary import print_error

            return print_error(error, as_json=False)
    if words == ["--plain"] or (not words and _is_dumb_terminal()):
        from zoo.gym.tui.plain.talk import talk

        return talk()
    if words in ([], ["--help"], ["-h"], ["help"]):
        from zoo.gym.cli.help import root_help

        print(root_help())
        return 0
    if words == ["--version"]:
        from importlib.metadata import version

        print(version("zoo-gym"))
        return 0
    from zoo.gym.cli.boundary import run, show_warning

    # Otherwise the hub's library identifies itself and its caller in every request.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if is_program:
        warnings.showwarning = show_warning
    return run(words)


def _report_bugs(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    from zoo.gym.cli.boundary import report_bugs

    report_bugs(kind, error, trace)


def on_terminal() -> bool:
    """Returns whether input and output are a terminal that the app can use."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    drawable = os.environ.get("TERM", "") != "dumb"
    return drawable and all(stream is not None and stream.isatty() for stream in streams)


def _is_dumb_terminal() -> bool:
    """Returns whether a person sits at a terminal that can only print lines."""
    is_person = sys.stdin is not None and sys.stdin.isatty()
    return is_person and os.environ.get("TERM", "") == "dumb"
