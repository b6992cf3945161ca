"""The boundary between commands and shell: parses, runs, and turns errors into exit codes."""

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from cyclopts import App, CycloptsError, Group

from zoo.gym.cli import help as help_text
from zoo.gym.cli.usage import joined_switches, usage_error
from zoo.gym.cli.verbs import ALONE, GROUPS, OLD_VERBS, OTHER_NAMES, VERBS
from zoo.gym.errors import (
    EXIT_CTRL_C,
    DoesNotFitError,
    GymError,
    GymWarning,
    InputError,
    NotAvailableError,
    StorageError,
    exit_code,
)
from zoo.gym.paths import FULL, storage_error
from zoo.gym.terminal import json_line, visible

PROGRAM = "zoo-gym"

_NO_FILE = frozenset({errno.EINVAL, errno.ELOOP})  # a pipe or a loop of links in its place


LAUNCHED = frozenset({"WORLD_SIZE", "ACCELERATE_USE_CPU", "ACCELERATE_MIXED_PRECISION"})
"""Variables of a launcher that starts several processes."""


def build_app() -> App:
    """Returns the parser; the module of a command is imported when the command is called."""
    app = _new_app(PROGRAM, "")
    groups = {name: _new_app(name, text) for name, text in GROUPS.items()}
    for group in groups.values():
        app.command(group)
    for verb in VERBS:
        *first, name = verb.words.split()
        usage = f"Usage: {PROGRAM} {verb.words} {verb.usage} [OPTION ...]".replace("  ", " ")
        parent = groups[first[0]] if first else app
        parent.command(
            f"zoo.gym.cli.{verb.target}",
            name=name,
            usage=usage,
            help=verb.summary,
            version_flags=(),
        )
    return app


def run(words: Sequence[str]) -> int:
    """Runs a command and returns its exit code."""
    as_json = "--json" in words
    words = [*(OTHER_NAMES.get(word, word) for word in words[:1]), *words[1:]]
    words[1:2] = [OLD_VERBS.get((words[0], word), word) for word in words[1:2]]
    if words[0] in ALONE and (not words[1:] or _is_option(words[1])):
        words.insert(1, ALONE[words[0]])
    if words[0] in GROUPS and words[1:] in ([], ["--help"], ["-h"]):
        print(help_text.group_help(words[0]))
        return 0
    code: int | None = None
    try:
        if LAUNCHED & os.environ.keys():
            from zoo.gym.jobs.crew.launched import join_launched, other_process

            if (rank := other_process(words)) is not None:
                return join_launched(words, rank)
        return build_app()(joined_switches(words)) or 0
    except BrokenPipeError:  # `main` ends quietly: the reader of our output has exited
        raise
    except KeyboardInterrupt as stop:  # a command may say how it continues
        failure, code = (
            GymError("stopped by Ctrl-C", hint=str(stop) or None, code="cli.stopped"),
            EXIT_CTRL_C,
        )
    except CycloptsError as error:
        failure = usage_error(error, words)
    except GymError as error:
        failure = error
    except OSError as error:
        failure = system_error(error)
    except (MemoryError, ModuleNotFoundError) as error:
        failure = _lacking(error)
    return print_error(failure, as_json=as_json, code=code)


def _lacking(error: MemoryError | ModuleNotFoundError) -> GymError:
    """Returns the error of a machine without enough memory, or without torch.

    Raises:
        ModuleNotFoundError: torch is there; the module is another one.
    """
    if isinstance(error, MemoryError):
        text = str(error) or "an allocation was refused"
        return DoesNotFitError(f"memory: {text}", code="cli.out_of_memory")
    from zoo.backends.libraries.torch_package import require_torch

    try:
        require_torch()  # transformers names a class of its own in place of the package
    except NotAvailableError as absent:
        return absent
    raise error


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in {"--help", "-h"}


def print_error(error: GymError, *, as_json: bool, code: int | None = None) -> int:
    """Prints an error in the standard form and returns its exit code."""
    code = exit_code(error) if code is None else code
    for line in error.message.splitlines():
        print(visible(f"{PROGRAM}: error: {line}"), file=sys.stderr)
    if error.hint:
        print(visible(f"hint: {error.hint}"), file=sys.stderr)
    sys.stderr.flush()
    if as_json:
        body = {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "exit_code": code,
        }
        with suppress(OSError):  # stdout on a full disk; stderr has it already
            print(json_line({"error": body}), flush=True)
    return code


def system_error(error: OSError) -> GymError:
    """Returns a system error as one of ours: a missing, unreadable or unwritable file, a long name.

    Errors of our writers have a file name; a full disk without one is where the shell sends stdout.
    """
    if error.errno in FULL and error.filename is None:
        return storage_error(error, Path("standard output"))
    if error.errno == errno.ENAMETOOLONG and error.filename is not None:
        from zoo.core.paths import too_long

        return too_long(os.fsdecode(error.filename))
    where = f"'{error.filename}': " if error.filename is not None else ""
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, FileNotFoundError):
        return NotAvailableError(f"{where}{reason}", code="cli.no_such_file")
    if isinstance(error, IsADirectoryError | NotADirectoryError) or error.errno in _NO_FILE:
        return InputError(f"{where}{reason}", code="cli.bad_path")
    return StorageError(f"{where}{reason}", code="cli.storage")


def report_bugs(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Prints an unexpected error as one message and writes its details to a file.

    The interpreter calls this for unhandled exceptions, and then exits with 1.
    """
    from zoo.gym.files import write_beside
    from zoo.gym.paths import folders, make_folder

    lines = traceback.format_exception(kind, error, trace)
    try:
        path = folders().log / "crash.txt"
        make_folder(path.parent)
        write_beside(path, "".join(lines))
    except (OSError, GymError):
        sys.stderr.writelines(lines)
        return
    message = f"unexpected {lines[-1].strip()}"
    hint = f"this is a bug in zoo-gym; please report it with the file {path}"
    print_error(GymError(message, hint=hint, code="cli.failed"), as_json="--json" in sys.argv)


_shown: set[str] = set()


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Prints one of our warnings as a message, and a library's with its source location.

    The interpreter calls this for each warning. Like its own, it prints nothing without stderr.
    Python resets its registry when a library changes the filters, so repeats are skipped here.
    """
    stream = file or sys.stderr
    if stream is None:
        return
    text = f"warning: {message}\n"
    if issubclass(category, GymWarning):
        if text in _shown:
            return
        _shown.add(text)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
    with suppress(OSError):
        stream.write(visible(text))


def _new_app(name: str, text: str) -> App:
    return App(
        name=name,
        help=text,
        help_format="plaintext",
        help_formatter=help_text.PlainFormatter(),
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        version_flags=(),
        group_parameters=Group("Options", sort_key=1),
    )
