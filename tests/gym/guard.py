"""A guard that enters every Python process of a test through its path, workers included.

It refuses and records each connection and name look-up, and stands in for the `kernels` package,
through which libraries fetch native code. Sockets of this machine's own kind stay open.
"""

import json
import os
from pathlib import Path
from typing import Any

SITE = """
import atexit, json, os, sys

def tell(**found):
    with open({log!r}, "a") as file:
        file.write(json.dumps(found | {{"argv": " ".join(sys.orig_argv)}}) + "\\n")

def watch(event, args):
    if event not in {{"socket.connect", "socket.getaddrinfo", "socket.gethostbyname",
                      "socket.gethostbyaddr", "socket.sendto", "socket.sendmsg"}}:
        return
    if getattr(args[0], "family", None) == 1:  # AF_UNIX
        return
    tell(attempt=event, to=repr(args[1:] if hasattr(args[0], "family") else args))
    raise OSError("the network was asked for: " + event)

def at_exit():
    client = sys.modules.get("huggingface_hub.constants")
    offline = None if client is None else client.HF_HUB_OFFLINE
    said = os.environ.get("HF_HUB_OFFLINE")
    tell(offline=offline, environment=said, torch="torch" in sys.modules)

sys.addaudithook(watch)
atexit.register(at_exit)
"""

KERNELS = """
from sitecustomize import tell

def refuse(*args, **options):
    tell(attempt="kernels", to=repr(args))
    raise RuntimeError(f"native code was asked for: {args}")

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return refuse if name[0].islower() else type(name, (), {"__init__": lambda self, *a, **k: None})
"""


class Guard:
    """The guard's folder, and what it saw.

    Args:
        folder: an empty place for it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder / "guard", folder / "guard.jsonl"
        self.folder.mkdir()
        (self.folder / "sitecustomize.py").write_text(SITE.format(log=str(self.log)))
        (self.folder / "kernels.py").write_text(KERNELS)

    def env(self, home: Path) -> dict[str, str]:
        """The environment of a guarded command, which says nothing about the hub."""
        names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")
        kept = {name: value for name, value in os.environ.items() if name not in names}
        places = {"ZOO_GYM_HOME": str(home), "HF_HOME": str(home / "hf")}
        places |= {"HF_HUB_CACHE": str(home / "hf" / "hub"), "PYTHONPATH": str(self.folder)}
        return kept | places | {"OMP_NUM_THREADS": "1", "TERM": "xterm-256color"}

    def told(self) -> list[dict[str, Any]]:
        """Everything that it wrote."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines]

    def attempts(self) -> list[dict[str, Any]]:
        """Every attempt to reach somebody."""
        return [found for found in self.told() if "attempt" in found]

    def ended(self) -> dict[str, dict[str, Any]]:
        """The processes that ran under it to their end, by their words behind `python`."""
        return {found["argv"].partition(" ")[2]: found for found in self.told() if "torch" in found}
