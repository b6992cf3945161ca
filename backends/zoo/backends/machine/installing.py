"""The command that installs an extra, which depends on how zoo-gym itself was installed."""

import json
import shlex
from collections.abc import Iterator
from importlib.metadata import distribution, requires
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "zoo-gym"


def install_command(extra: str) -> str:
    """Returns the command that installs an extra: in a clone by its name, otherwise its packages.

    No package index has zoo-gym, so outside of a clone its name installs nothing.
    """
    if (clone := clone_folder()) is not None:
        change = "" if clone == Path.cwd() else f"cd {shlex.quote(str(clone))} && "
        return f'{change}{installer()} install -e ".[{extra}]"'
    packages = " ".join(f'"{_without_marker(package)}"' for package in requirements_of(extra))
    return f"{installer()} install {packages}"


def requirements_of(extra: str) -> "Iterator[Requirement]":
    """Yields what an extra, and those within it, need on this system."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, requires(DISTRIBUTION) or []):
        marker = requirement.marker
        if (
            marker is None
            or marker.evaluate({"extra": ""})
            or not marker.evaluate({"extra": extra})
        ):
            continue
        if requirement.name == DISTRIBUTION:
            for inner in requirement.extras:
                yield from requirements_of(inner)
        else:
            yield requirement


def installer() -> str:
    """Returns the program that installs into this environment."""
    return "pip" if find_spec("pip") else "uv pip"


def clone_folder() -> Path | None:
    """Returns the folder that zoo-gym was installed from as an editable package (PEP 610)."""
    content = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    if not content.get("dir_info", {}).get("editable"):
        return None
    folder = Path(url2pathname(urlsplit(content["url"]).path))
    return folder if folder.is_dir() else None


def _without_marker(requirement: "Requirement") -> str:
    return str(requirement).partition(";")[0].strip()
