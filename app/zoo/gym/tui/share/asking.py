"""A command with its JSON object and the lines that it writes for people as it works."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

from zoo.gym.errors import GymError
from zoo.gym.jobs.command import Command, end_command, start_command
from zoo.gym.terminal import visible


class Answer(NamedTuple):
    """What a command answered: its object, and its lines for people."""

    value: dict[str, Any]
    lines: list[str]


async def ask_lines(words: Sequence[str], line: Callable[[str], object] | None = None) -> Answer:
    """Runs `zoo-gym WORDS --json`; the command ends if the caller is cancelled.

    Args:
        words: the command.
        line: is called with each line for people as it comes, before the command ends.

    Raises:
        GymError: the command failed; the message and the hint are its own.
    """
    process = start_command([*words, "--json"], stderr=subprocess.PIPE)
    try:
        output = asyncio.create_task(_read_all(process))
        lines = await _read_lines(process, line)
        value = await output
        await asyncio.to_thread(process.wait)
    finally:
        end_command(process)
        if process.stderr is not None:
            process.stderr.close()
    return Answer(_object(words, value, lines), lines)


async def _read_all(process: Command) -> str:
    assert process.stdout is not None
    with suppress(ValueError):  # closed, as the caller was cancelled
        return (await asyncio.to_thread(process.stdout.read)).decode("utf-8", "replace")
    return ""


async def _read_lines(process: Command, line: Callable[[str], object] | None) -> list[str]:
    assert process.stderr is not None
    lines: list[str] = []
    while read := await asyncio.to_thread(process.stderr.readline):
        lines.append(visible(read.decode("utf-8", "replace").rstrip()))
        if line is not None:
            line(lines[-1])
    return lines


def _object(words: Sequence[str], output: str, lines: list[str]) -> dict[str, Any]:
    try:
        value: object = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        last = next(iter(reversed(lines)), "no output")
        raise GymError(f"zoo-gym {words[0]} failed: {last}", code="tui.command_failed") from None
    answer = cast("dict[str, Any]", value)
    if error := answer.get("error"):
        code = error["code"] or "jobs.command_refused"
        raise GymError(error["message"], hint=error["hint"], code=code)
    return answer
