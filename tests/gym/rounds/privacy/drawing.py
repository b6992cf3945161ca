"""`zoo-gym round aggregate --force` as a process that writes down, before each draw, that it draws.

It is forked from a process that has imported everything, so that a kill at a random moment hits the
work and not the imports.
"""

import multiprocessing
import os
from collections.abc import Sequence
from functools import wraps
from importlib import import_module
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

PRELOAD = [
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "cryptography.hazmat.primitives.ciphers.aead",
    "numpy",
    "zoo.core.aggregate",
    "zoo.core.delta",
    "zoo.core.identity",
    "zoo.gym.cli.boundary",
    "zoo.gym.cli.round.aggregate",
    "zoo.gym.rounds.kinds.private",
    "zoo.gym.rounds.compute.on_ray",
    "zoo.gym.rounds.compute.private",
    "zoo.gym.rounds.session.known_rounds",
    "zoo.gym.rounds.privacy.contribution",
    "zoo.gym.rounds.storage.base",
    "zoo.models.fixed_factor",
]


def server() -> ForkServerContext:
    """Returns the process that is forked, which starts with the first use of it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


def work(home: str, address: str, notes: str) -> None:
    """Computes and publishes the result of a private round, and ends with the command's code."""
    os.environ["ZOO_GYM_HOME"] = home
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    log = os.open(f"{notes}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    private: Any = import_module("zoo.gym.rounds.compute.private")
    ledger: Any = import_module("zoo.gym.rounds.privacy.ledger")
    draw, spend = private.add_noise, ledger.spend

    @wraps(draw)
    def drawing(*given: Any, **more: Any) -> None:
        note(notes, "drawing")
        draw(*given, **more)

    @wraps(spend)
    def booked(round_: str, keys: Sequence[str], what: object) -> int:
        number: int = spend(round_, keys, what)
        note(notes, f"booked {number}")
        return number

    private.add_noise, ledger.spend = drawing, booked
    cli: Any = import_module("zoo.gym.cli")
    os._exit(cli.main(("round", "aggregate", "--round", address, "--force")))


def note(path: str, line: str) -> None:
    """Writes a line, which a kill of this process leaves whole."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def notes_in(path: Path) -> list[str]:
    """Returns the lines that were written down."""
    return path.read_text().splitlines() if path.exists() else []
