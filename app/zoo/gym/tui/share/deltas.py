"""Small files and the runs that can become one: where they lie, and what is said of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from zoo.gym.humanize import human_bytes
from zoo.gym.jobs import Run, RunRow, kind_of, list_runs
from zoo.gym.paths import folders
from zoo.gym.tui.share.words import Part, day, facts, note, problem, title

ENDING = ".delta.safetensors"

_CODING = re.compile(r"\s+(\S+ (?:bytes|[kMGT]B))  (?:KL (\d+\.\d+)|not measured)  (--.+)")
"""A line of `delta create --max-bytes`: size, KL and the options of a coding."""


@dataclass(frozen=True)
class DeltaRow:
    """A small file, or a run that can become one.

    Attributes:
        path: the file, or the folder of the run.
        size_bytes: of the file.
        at: when it was written or ended, in Unix seconds.
        run: the run.
    """

    path: Path
    size_bytes: int = 0
    at: float = 0.0
    run: RunRow | None = None


class Coding(NamedTuple):
    """A coding as it was measured: its options, size, and KL to the fine-tune."""

    options: str
    size: str
    kl: str


def deltas_folder() -> Path:
    """Returns the folder that the app writes small files to."""
    return folders().data / "deltas"


def delta_rows() -> list[DeltaRow]:
    """Returns all small files, newest first, then the runs that are done."""
    places = (deltas_folder(), Path.cwd())
    paths = {path.resolve() for parent in places for path in parent.glob(f"*{ENDING}")}
    paths |= {path.resolve() for path in folders().runs.glob(f"*/*{ENDING}")}
    rows = [DeltaRow(path, path.stat().st_size, path.stat().st_mtime) for path in paths]
    return [
        *sorted(rows, key=lambda row: -row.at),
        *(DeltaRow(Path(run.folder), at=run.updated, run=run) for run in done_runs()),
    ]


def done_runs() -> list[RunRow]:
    """Returns the runs that ended with weights, newest first."""
    return [
        row for row in list_runs() if row.state == "done" and _has_weights(Run(Path(row.folder)))
    ]


def coding_of(line: str) -> Coding | None:
    """Returns the coding that a line of `delta create` measures, None for another line.

    >>> coding_of("     36.2 kB  KL 0.0849  --bits 2")
    Coding(options='--bits 2', size='36.2 kB', kl='0.0849')
    """
    found = _CODING.fullmatch(line)
    return Coding(found[3], found[1], found[2] or "not measured") if found else None


def run_parts(row: DeltaRow) -> list[Part]:
    """Returns what is said of a run that can become a small file."""
    run = row.run
    assert run is not None
    known = [("base", run.model or ""), ("steps", str(run.step)), ("ended", day(run.updated))]
    loss = run.best
    known += [("best loss", f"{loss:.4f}")] if isinstance(loss, float) else []
    advice = "c compresses it to a small file: each coding is measured beside the fine-tune, on "
    advice += "the examples that the run held out."
    return [facts(known), note(advice), note("e exports it for other programs: GGUF, Ollama, MLX.")]


def file_parts(info: Mapping[str, Any]) -> list[Part]:
    """Returns what `delta info` says of a small file."""
    base = info.get("base") or {}
    name = base.get("id") if isinstance(base, dict) else base
    known = [
        ("size", f"{human_bytes(info['bytes'])}, {human_bytes(info['payload_bytes'])} of values"),
        ("base", str(name or "")),
        ("form", f"{info['form']}, {len(info['tensors'])} tensors"),
        ("digest", str(info["digest"])[:16]),
        ("file", str(info["file"])),
    ]
    quality = info.get("quality")
    return [facts(known), title("Measured by its maker"), *quality_parts(quality)]


def quality_parts(quality: Mapping[str, Any] | None) -> list[Part]:
    """Returns the measured quality of a small file beside its fine-tune."""
    if not quality:
        return [problem("Not measured: there were no held-out rows.")]
    rows, tokens = quality.get("rows"), quality.get("tokens")
    figures = [
        ("loss", f"base {_loss(quality, 'base')}, fine-tune {_loss(quality, 'tuned')}, "
         f"this file {_loss(quality, 'delta')}"),
        ("gain kept", _share(quality.get("recovered"))),
        ("same top token", _share(quality.get("top1"))),
        ("KL", _nats(quality.get("kl"))),
        ("plain text", _nats(quality.get("drift"), sign=True)),
        ("on", f"{tokens} tokens of {rows} rows"),
    ]  # fmt: skip
    figures += [
        (f"control {one['kind']}", f"loss {one['loss']:.4f}") for one in quality.get("controls", ())
    ]
    return [facts(figures)]


def check_parts(answer: Mapping[str, Any]) -> str:
    """Returns the verdict of `delta check` in a sentence."""
    bad = [check["name"] for check in answer["checks"] if check["ok"] is False]
    if bad:
        return f"Failed: {', '.join(bad)}. Do not use this file."
    return f"{sum(check['ok'] is True for check in answer['checks'])} checks hold."


def _has_weights(run: Run) -> bool:
    return kind_of(run) != "lessons" and run.result.exists()


def _loss(quality: Mapping[str, Any], key: str) -> str:
    return "-" if quality.get(key) is None else f"{quality[key]:.4f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _nats(value: float | None, *, sign: bool = False) -> str:
    return (
        ""
        if value is None
        else f"{value:+.4f} nats a token"
        if sign
        else f"{value:.4f} nats a token"
    )
