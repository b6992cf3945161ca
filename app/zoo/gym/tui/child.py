"""Our own commands as processes beside the app: what they load, the app does not."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, cast

from zoo.gym.errors import GymError

_LINE_BYTES = 1 << 26  # an inspection is one line with a whole example in it


async def start_command(words: Sequence[str], *, stderr: int) -> asyncio.subprocess.Process:
    """Starts `zoo-gym WORDS` with nothing to read and a pipe to take its answer from."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "zoo.gym", *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        limit=_LINE_BYTES,
        env=os.environ | {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"},
        start_new_session=True,
    )


async def end_command(process: asyncio.subprocess.Process) -> None:
    """Ends a command that still runs; a run's worker is no part of it and goes on."""
    if process.returncode is None:
        process.kill()
        await process.wait()


async def ask_command(words: Sequence[str], *, finish: bool = False) -> dict[str, Any]:
    """Runs a command with `--json` and returns its object.

    Args:
        words: the command.
        finish: let it come to its end even if nobody waits any more.

    Raises:
        GymError: the command failed; the message and the hint are its own.
    """
    process = await start_command([*words, "--json"], stderr=asyncio.subprocess.PIPE)
    try:
        output, noise = await process.communicate()
    finally:
        if not finish:
            await end_command(process)
    lines = output.decode("utf-8", "replace").splitlines()
    try:
        found: object = json.loads(lines[-1])
    except (IndexError, ValueError):
        last = next(iter(reversed(noise.decode("utf-8", "replace").splitlines())), "no output")
        raise GymError(f"zoo-gym {words[0]} failed: {last}") from None
    answer = cast("dict[str, Any]", found)
    if error := answer.get("error"):
        raise GymError(error["message"], hint=error["hint"])
    return answer
