"""`zoo-gym round serve, token, witness, anchor`: servers of rounds, and who watches their logs."""

import asyncio
import getpass
import shlex
import subprocess
import sys
from typing import Annotated

from cyclopts import Parameter

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.options import Positional, Round, opened_round
from zoo.gym.errors import GymError, InputError, NotAvailableError, StorageError
from zoo.gym.files import write_beside
from zoo.gym.paths import ensure_folder, folders, given_path

_GIB = 1 << 30
_JSON = "print one JSON object as stdout's last line, once it listens"
_STDERR = 2  # its file, whatever sys.stderr is


def serve(
    folder: str,
    /,
    *,
    base: str | None = None,
    host: str = "127.0.0.1",
    port: int = 7870,
    name: Annotated[tuple[str, ...], Parameter(name="--name", negative=())] = (),
    origin: Annotated[tuple[str, ...], Parameter(name="--origin", negative=())] = (),
    tls_cert: str | None = None,
    tls_key: str | None = None,
    most_gib: float = 100.0,
    as_json: Annotated[Json, Parameter(help=_JSON)] = False,
) -> int:
    """Serves the rounds in a folder until Ctrl-C, to this machine alone unless --host is given.

    Args:
        folder: has a folder for each round, or is that of one round
        base: the only model that rounds may be about; by default any
        host: address to listen at; others than this machine's own need TLS and --name
        port: port to listen at; 0 takes any free one
        name: what others call this machine, as in the address that you give them
        origin: web pages whose scripts may ask; by default none
        tls_cert: file of the certificates
        tls_key: file of their private key
        most_gib: GiB of all rounds together; what would exceed them is refused
    """
    from zoo.gym.http_guard.run import until_stopped
    from zoo.gym.rounds.server.config import Role
    from zoo.gym.rounds.server.run import CommunityLearningServer, server_config, token_file

    out, path = Output(as_json), given_path(folder).resolve()
    if not 0 < most_gib < 1e6:
        raise InputError(
            f"--most-gib: expected a number above 0, got {most_gib}", code="cli.bad_value"
        )
    fields: dict[str, object] = {"folder": path, "host": host, "port": port, "names": name}
    pem = {"tls_cert": tls_cert, "tls_key": tls_key}
    fields |= {key: given_path(file) for key, file in pem.items() if file is not None}
    config = server_config(fields | {"origins": origin, "most_bytes": round(most_gib * _GIB)})
    server = CommunityLearningServer(base, config)

    def started() -> None:
        token = token_file(path, Role.CONTRIBUTOR)
        out.answer(f"rounds are at {server.url}/rounds/NAME, in {path}")
        out.answer(f"the token for contributors is in {token}: hand them that file")
        out.answer(f"they keep it by: zoo-gym round token {server.url} < FILE")
        out.say("Ctrl-C ends it")
        out.result({"url": server.url, "folder": str(path), "token_file": str(token)})

    asyncio.run(until_stopped(server, started))
    out.say("ended")
    return 0


def _is_tried(origin: str, found: str) -> bool:
    """Returns whether a server took a token; False if it is away."""
    from zoo.gym.http_guard.gate import UNKNOWN_CALLER
    from zoo.gym.rounds.storage.http import HttpStorage

    try:
        HttpStorage(f"{origin}/rounds/any", found).read("manifest.json")
    except (NotAvailableError, StorageError):
        return False
    except InputError as error:
        if not error.message.endswith(UNKNOWN_CALLER):
            raise
        raise InputError(
            f"{origin}: that is not a token of this server",
            hint=f"its maker has it in a file: zoo-gym round token {origin} < FILE",
            code="cli.bad_token",
        ) from None
    return True


def token(address: str, /, *, as_json: Json = False) -> int:
    """Keeps the token of a server of rounds, read from stdin.

    Args:
        address: of the server, or of a round on it
    """
    from zoo.gym.rounds.storage.base import checked_address
    from zoo.gym.rounds.storage.http import keep_token, origin_of, tokens_file

    out, origin = Output(as_json), origin_of(checked_address(address))
    asked = sys.stdin.isatty()
    found = getpass.getpass(f"token of {origin}: ") if asked else sys.stdin.readline()
    if not found.strip():
        raise InputError(
            "token: expected a token on stdin, got nothing",
            hint=f"zoo-gym round token {origin} < FILE",
            code="cli.bad_token",
        )
    if not _is_tried(origin, found.strip()):
        out.say(f"{origin} cannot be reached: the token was not tried")
    keep_token(origin, found.strip())
    out.answer(f"kept the token of {origin} in {tokens_file()}")
    out.result({"server": origin, "file": str(tokens_file())})
    return 0


def witness(round_: Positional = None, /, *, as_json: Json = False) -> int:
    """Signs the head of a round's log, if the log continues what you have seen of it.

    The round names its witnesses; their notes show others a log that was rolled back or forked.

    Args:
        round_: its folder, address, name or id; by default the only open one seen here
    """
    from zoo.gym.rounds.session import opening as witnessing
    from zoo.gym.signing import load_key

    out, opened, key = Output(as_json), opened_round(round_), load_key()
    state, head = opened.state, opened.head
    witnessing.witness(opened, key)
    out.answer(f"signed {head.size} entries of round {state.manifest.name}: {head.root.hex()}")
    fields = {"round": state.id, "size": head.size, "root": head.root.hex()}
    out.result({**fields, "witness": str(key.public)})
    return 0


def anchor(*command: str, round_: Round = None, as_json: Json = False) -> int:
    """Hands the signed head of a round's log to a command, on stdin, and keeps it.

    Args:
        command: a program and its arguments; {} stands for the file of the head
    """
    if not command:
        named = "" if round_ is None else f"--round {shlex.quote(round_)} "
        raise InputError(
            "anchor: expected a command, got nothing",
            hint=f"zoo-gym round anchor {named}-- tee head",
            code="cli.missing_argument",
        )
    out, opened = Output(as_json), opened_round(round_)
    id_, size, root = opened.state.id, opened.head.size, opened.head.root.hex()
    file = ensure_folder(folders().data / "rounds" / "heads" / id_) / f"{size}-{root[:16]}.note"
    write_beside(file, opened.note.decode(), sync=True)
    words = [word.replace("{}", str(file)) for word in command]
    try:
        with file.open("rb") as note:
            done = subprocess.run(words, stdin=note, stdout=_STDERR, check=False)
    except (FileNotFoundError, PermissionError):
        raise NotAvailableError(
            f"anchor: expected a program that can be run, got {words[0]!r}",
            code="cli.no_such_program",
        ) from None
    if done.returncode:
        raise GymError(
            f"anchor: expected {words[0]!r} to succeed, got code {done.returncode}",
            code="cli.program_failed",
        )
    out.answer(f"handed the head of {size} entries to {words[0]}; it is in {file}")
    out.result({"round": id_, "size": size, "root": root, "file": str(file)})
    return 0
