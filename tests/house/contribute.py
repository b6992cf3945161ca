"""Prints the modules of zoo.gym in which one `round contribute` calls a function.

usage: python -m tests.house.contribute
"""

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path
from types import FrameType

from tests.gym.delta.lora import write_lora
from zoo.gym.cli import main

ROUND = ("--form", "lowrank", "--method", "mean", "--min-contributors", "2")


def modules() -> set[str]:
    """Returns them: an adapter of zen-pico is contributed to a new round in a folder."""
    called: set[str] = set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("zoo.gym"):
            called.add(name)

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["ZOO_GYM_HOME"] = str(Path(folder, "home"))
        write_lora(Path("adapter"), "zen-pico")
        _run("keys", "create")
        _run("round", "create", "tiny", "--base", "zen-pico", "--out", "tiny", *ROUND)
        sys.setprofile(watch)
        _run("round", "contribute", "adapter", "--round", "tiny", "--send", "--yes")
        sys.setprofile(None)
    return called


def _run(*words: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = main(words)
    if code:
        raise SystemExit(output.getvalue())


if __name__ == "__main__":
    print("\n".join(sorted(modules())))
