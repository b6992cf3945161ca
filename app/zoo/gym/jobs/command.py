"""zoo-gym commands as processes of their own, which do not load what they load into the caller."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

from zoo.gym.errors import GymError, InputError
from zoo.gym.terminal import visible

Command: TypeAlias = "subprocess.Popen[bytes]"


def start_command(words: Sequence[str], *, stderr: int, stdin: int = subprocess.DEVNULL) -> Command:
    """Starts `zoo-gym WORDS` with an empty input and its output in a pipe.

    Args:
        words: the command.
        stderr: where its errors go, as of `subprocess.Popen`.
        stdin: its input, if not empty: a pipe ends when this process does.

    Raises:
        InputError: the system takes a word as no argument: it is too long, has a NUL or is no text.
    """
    try:
        return subprocess.Popen[bytes](
            [sys.executable, "-P", "-m", "zoo.gym", *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=os.environ | {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # UnicodeError is a ValueError
        longest = max(words, key=len, default="")
        raise InputError(
            f"zoo-gym cannot be started with what was entered: {error}",
            hint=f"the longest value has {len(longest):,} characters: '{visible(longest[:40])}'",
            code="jobs.command_not_started",
        ) from None


def end_command(process: Command) -> None:
    """Ends a command and its children; a run's worker, in its own session, keeps running."""
    _kill(process)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


async def ask_command(words: Sequence[str], *, finish: bool = False) -> dict[str, Any]:
    """Runs a command with `--json` and returns its object.

    Args:
        words: the command.
        finish: let the command finish even if the caller is cancelled.

    Raises:
        GymError: the command failed; the message and the hint are its own.
    """
    process = start_command([*words, "--json"], stderr=subprocess.PIPE)
    try:
        output, noise = await asyncio.to_thread(process.communicate)
    except asyncio.CancelledError:
        if not finish:
            _kill(process)  # the waiting thread collects the rest and the exit code
        raise
    lines = output.decode("utf-8", "replace").splitlines()
    try:
        value: object = json.loads(lines[-1])
    except (IndexError, ValueError):
        last = next(iter(reversed(noise.decode("utf-8", "replace").splitlines())), "no output")
        raise GymError(f"zoo-gym {words[0]} failed: {last}", code="jobs.command_failed") from None
    answer = cast("dict[str, Any]", value)
    if error := answer.get("error"):
        raise GymError(
            error["message"], hint=error["hint"], code=error["code"] or "jobs.command_refused"
        )
    return answer


def _kill(process: Command) -> None:
    """Kills a command with its children, which would keep the pipe open and a reader waiting."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):  # it ended in between
            os.killpg(process.pid, signal.SIGKILL)
