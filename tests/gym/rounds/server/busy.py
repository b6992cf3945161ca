"""A client that works until it is killed, and writes down each answer before it goes on.

`python -m tests.gym.rounds.server.busy contributor ADDRESS TOKEN ANSWERS` leaves commitments and
chunks; `maker` takes commitments into the log. Each line of ANSWERS is what the server has
acknowledged: a name, or a size and a root of the log.
"""

import os
import secrets
import sys
import time
from pathlib import Path

from tests.gym.rounds.protocol.people import LOG, person
from zoo.core import digest
from zoo.gym.errors import GymError
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import leave, take
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.rounds.storage.http import HttpStorage
from zoo.gym.signing import sign


def contribute(storage: Storage, round_: str, answers: Path) -> None:
    """Leaves one commitment and one chunk."""
    who = person(secrets.token_hex(8))
    body = objects.body_of(round_, commitment=secrets.token_hex(32))
    note(answers, leave(storage, sign(who, objects.COMMIT, body)))
    content = os.urandom(200_000)
    name = chunk_name(digest(content))
    storage.write(name, content)
    note(answers, name)
    time.sleep(0.05)


def write_log(storage: Storage, round_: str, answers: Path) -> None:
    """Takes what was left."""
    take(storage, LOG)
    head = open_round(storage, expected=round_).head
    note(answers, f"{head.size} {head.root.hex()}")


def note(path: Path, line: str) -> None:
    """Writes a line down, durably."""
    with path.open("a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    """Works for ever; errors of a server that is away are no reason to end."""
    role, address, token, answers = sys.argv[1:]
    act = {"contributor": contribute, "maker": write_log}[role]
    storage = HttpStorage(address, token)
    round_ = ""
    while True:
        try:
            round_ = round_ or open_round(storage).state.id
            act(storage, round_, Path(answers))
        except GymError as error:
            print(error, file=sys.stderr, flush=True)
            time.sleep(0.1)


if __name__ == "__main__":
    main()
