"""A server of variants that lives as long as the app."""

import asyncio
import re
import subprocess
from collections.abc import Sequence

from zoo.gym.jobs.command import Command, end_command, start_command
from zoo.gym.terminal import visible

_ADDRESS = re.compile(r"(.+) is at (http\S+)")
_TOKEN_FILE = re.compile(r"\$\(cat ([^)]+)\)")


class Server:
    """`zoo-gym serve` as a child process: it ends with its input, which ends with the app.

    Attributes:
        lines: what it printed, without the token itself.
        url: its address, empty before it listens.
        models: what it answers for.
        token_file: the file with the token.
    """

    def __init__(self) -> None:
        self._process: Command | None = None
        self.lines: list[str] = []
        self.url = self.models = self.token_file = self.base = ""

    @property
    def is_on(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self, base: str, words: Sequence[str]) -> None:
        """Starts the process; `follow` reads what it prints."""
        self.end()
        self.lines, self.url, self.models, self.token_file = [], "", "", ""
        self.base = base
        self._process = start_command(words, stderr=subprocess.STDOUT, stdin=subprocess.PIPE)

    async def follow(self) -> None:
        """Reads what the process prints until it ends."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        while read := await asyncio.to_thread(process.stdout.readline):
            self._take(visible(read.decode("utf-8", "replace").rstrip()))
        await asyncio.to_thread(process.wait)

    def end(self) -> None:
        """Ends the process, if there is one."""
        if self._process is not None:
            end_command(self._process)
        self._process, self.url = None, ""

    def _take(self, line: str) -> None:
        if line.startswith("token: "):
            return  # a secret: its file is named instead
        if match := _ADDRESS.fullmatch(line):
            self.url = match[2]
        if match := _TOKEN_FILE.search(line):
            self.token_file = match[1]
        if line.startswith("models: "):
            self.models = line.removeprefix("models: ")
        self.lines.append(line)


def server_words(server: Server) -> str:
    """Returns the state of a server in two or three lines."""
    if not server.is_on:
        return "Server: off. S serves the base with all its variants on this machine."
    if not server.url:
        return f"Server: starting with {server.base} ..."
    token = f"\ntoken in {server.token_file}" if server.token_file else ""
    return f"Server: on, {server.url}{token}\nmodels {server.models}"
