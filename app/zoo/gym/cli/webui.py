"""`zoo-gym webui`: the app in a browser of this machine."""

import asyncio
from pathlib import Path

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError

PORT, MOST_PORT = 7860, 65_535


def webui(*, port: int = PORT, as_json: Json = False) -> int:
    """Shows the app in a browser of this machine, until Ctrl-C.

    Only this machine can connect, at 127.0.0.1; from another one: ssh -L 7860:127.0.0.1:7860 HOST.

    Args:
        port: port to listen at; 0 takes any free one
        as_json: print one JSON object as stdout's last line, once it listens
    """
    if not 0 <= port <= MOST_PORT:
        raise InputError(f"--port: expected 0 to {MOST_PORT}, got {port}", code="cli.bad_port")
    from zoo.gym.http_guard.run import until_stopped
    from zoo.gym.webui.server import WebServer

    screen = Output(as_json)
    server = WebServer(port)
    server.listen()

    def started() -> None:
        screen.answer(f"open {server.url}")
        screen.say(f"the token is kept in {_short(server.token_file)}; Ctrl-C ends the server")
        screen.result({"url": server.url, "token_file": str(server.token_file)})

    asyncio.run(until_stopped(server, started))
    return 0


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
