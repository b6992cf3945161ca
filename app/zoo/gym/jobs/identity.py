"""Stores which process works on a run, in `worker.json`."""

import json
from dataclasses import asdict
from pathlib import Path

from zoo.gym.files import read_json_object, write_beside
from zoo.gym.processes import Identity


def write_identity(path: Path, identity: Identity) -> None:
    """Writes `worker.json` atomically: a reader sees the old identity or the new one."""
    write_beside(path, json.dumps(asdict(identity)) + "\n")


def read_identity(path: Path) -> Identity | None:
    """Returns the identity in `worker.json`, or None if it is missing or cannot be read."""
    fields = read_json_object(path)
    if fields is None:
        return None
    pid, create_time = fields.get("pid"), fields.get("create_time")
    if type(pid) is not int or not isinstance(create_time, int | float):
        return None
    return Identity(pid, float(create_time)) if 0 <= create_time < 2**63 else None
