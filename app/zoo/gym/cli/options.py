"""Options shared by several commands."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from zoo.gym.errors import InputError
from zoo.gym.humanize import download_time, human_bytes
from zoo.gym.terminal import visible
from zoo.models import cache_folder, registry

Switch = Annotated[bool, Parameter(negative=(), show_default=False)]
Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative=(),
        show_default=False,
        help="print one JSON object as stdout's last line",
    ),
]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), show_default=False)]
Offline = Annotated[bool, Parameter(name="--offline", negative=(), show_default=False)]
Files = Annotated[tuple[str, ...], Parameter(metavar="FILE", negative=(), show_default=False)]
Model = Annotated[str | None, Parameter(name=["--model", "--model_name_or_path"], metavar="MODEL")]
Template = Annotated[str | None, Parameter(name="--template", metavar="NAME|FILE")]


def _at_least_one(_: type, value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"expected at least 1, got {value}")


Threads = Annotated[int | None, Parameter(name="--threads", validator=_at_least_one)]


def output_path(name: str | None, default: str) -> Path:
    """Returns the path given with `--out`, or the default.

    Raises:
        InputError: it is empty.
    """
    if name is not None and not name.strip():
        raise InputError(
            "--out: expected a name, got nothing",
            hint=f"without it: {default}",
            code="cli.bad_value",
        )
    return Path(default if name is None else name)


def consent(*, yes: bool) -> Callable[[str, int], bool] | None:
    """Returns the `confirm` function for `resolve`: of a download, or of the import of a file.

    It asks on a terminal; without one it is None, unless `--yes` was given.
    """
    if not yes and not sys.stdin.isatty():
        return None

    def ask(model_id: str, size_bytes: int) -> bool:
        return yes or confirmed(_question(model_id, size_bytes), yes=False)

    return ask


def _question(model_id: str, size_bytes: int) -> str:
    """Returns the question for a download or an import, with licence and source where known."""
    size = human_bytes(size_bytes)
    if model_id.lower().endswith(".gguf"):
        return f"{model_id} was not imported yet. Write a model folder of {size}? [y/N] "
    entry = next((each for each in registry() if model_id in {each.alias, each.hub_id}), None)
    details = f" ({entry.licence}, from {entry.source})" if entry else ""
    free = human_bytes(shutil.disk_usage(_there(cache_folder())).free)
    there = f"{free} are free there, it takes {download_time(size_bytes)}"
    return f"{model_id} is not on this machine. Download {size}{details}? {there} [y/N] "


def _there(folder: Path) -> Path:
    """Returns the nearest folder above that exists."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def confirmed(question: str, *, yes: bool) -> bool:
    """Asks on a terminal and returns whether the answer is yes; without a terminal it is no.

    Args:
        question: the question, ending with `[y/N]` and a blank.
        yes: `--yes` was given.
    """
    if yes or not sys.stdin.isatty():
        return yes
    print(visible(question), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
