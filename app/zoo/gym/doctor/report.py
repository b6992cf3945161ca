"""Formats a report as text of at most 80 columns, and as JSON with the same content."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from zoo.gym.doctor.capacity import RANK, TOKENS, WAYS, Job
from zoo.gym.doctor.examine import Check, Report, short
from zoo.gym.doctor.extras import Missing
from zoo.gym.doctor.models import Model

WIDTH = 80
NAME = 14
"""Width of a row's name."""

QUIET = "no telemetry, no update check; network access only after your consent"


def as_json(report: Report, versions: Mapping[str, str]) -> dict[str, Any]:
    """Returns the report as one object."""
    found = asdict(report)
    checks = found.pop("checks")
    estimates = found.pop("jobs")
    return {**found, "self_test": checks, "fits": estimates, "versions": dict(versions)}


def as_lines(report: Report, versions: Mapping[str, str]) -> list[str]:
    """Returns the report as lines; each command is on its own line."""
    return [line.rstrip() for line in _lines(report, versions)]


def _lines(report: Report, versions: Mapping[str, str]) -> Iterator[str]:
    yield "Machine"
    yield from _machine(report)
    yield "Versions"
    listed = ", ".join(f"{name} {text}".replace(" ", "\xa0") for name, text in versions.items())
    yield from (line.replace("\xa0", " ") for line in row("packages", listed))
    yield "Devices"
    for device in report.devices:
        used = "used: " if device["used"] else "not used: "
        yield from row(device["name"], used + device["reason"])
    yield f"What fits now (estimates, {TOKENS:,} tokens at a time, LoRA of rank {RANK})"
    for before, job in pairwise((None, *report.jobs)):
        assert job is not None
        is_next = before is not None and before.model == job.model
        first, *others = _job(job)
        yield from row("" if is_next else job.model, first)
        yield from (command(line) for line in others)
    yield "Self-test on zen-pico"
    for check in report.checks:
        yield from row(check.name, _check(check))
    yield "Disk"
    for place in report.disk:
        yield from row(place.role, f"{short(place.free_bytes)} free")
    yield "Models"
    for model in report.models:
        yield from _model(model)
    for title, needed in (("Missing", True), ("Not installed, and not needed for training", False)):
        things = [thing for thing in report.missing if thing.needed is needed]
        yield from [title] if things else []
        for thing in things:
            yield from _missing(thing)
    yield ""
    yield QUIET
    yield _verdict(report)


def row(name: str, text: str) -> list[str]:
    """Returns a name and a text in two columns, the text wrapped."""
    indent = " " * (NAME + 3)
    lines = textwrap.wrap(text, WIDTH - len(indent), break_on_hyphens=False) or [""]
    first = f"  {name:<{NAME}} {lines[0]}"
    return [first, *(indent + line for line in lines[1:])]


def command(text: str) -> str:
    """Returns a command as one line, never wrapped."""
    return " " * (NAME + 3) + text


def _machine(report: Report) -> Iterator[str]:
    found = report.machine
    yield from row("system", f"{found.system}, {found.architecture}, {found.python}")
    cores = f"{found.cores} core{'s' if found.cores > 1 else ''}"
    yield from row("processor", f"{found.processor}, {cores}")
    memory = f"{short(found.memory_bytes)}, {short(found.available_bytes)} available"
    yield from row("memory", memory)
    core = report.kernels
    others = [name for name in core.available if name != core.chosen]
    also = f"; also available: {', '.join(others)}" if others else ""
    yield from row("kernels", f"{core.chosen} in use{also} (zoo.core {core.version})")
    if report.products is not None:
        yield from row("products", report.products)


def _job(job: Job) -> list[str]:
    """Returns the estimate of a training with its first setting, and a line for each other."""
    words = [_word(key, value) for key, value in job.settings.items()] or [""]
    verdict = "fits" if job.fits else "too large"
    found = f"{WAYS[job.method].name:<18} {short(job.needs_bytes):>8} {verdict:<9}  "
    return [found + words[0], *(" " * len(found) + word for word in words[1:])]


def _word(key: str, value: object) -> str:
    """Returns a setting as it is given to `zoo-gym train`."""
    return f"{key}={'true' if value is True else value}"


def _check(check: Check) -> str:
    took = "" if check.seconds is None else f" ({check.seconds:.1f} s)"
    said = f": {check.said}" if check.said else ""
    return f"{check.state}{said}{took}"


def _model(model: Model) -> Iterator[str]:
    size = f"{model.parameters / 1e6:,.1f} M parameters"
    if model.command is None:
        yield from row(model.name, f"{size}, on this machine")
        return
    yield from row(
        model.name, f"{size}, {model.licence}, not here; to download {short(model.download_bytes)}:"
    )
    yield command(model.command)


def _missing(thing: Missing) -> Iterator[str]:
    yield from row(thing.what, f"{thing.why} ({', '.join(thing.packages)})")
    yield command(thing.command)


def _verdict(report: Report) -> str:
    if report.ok:
        return "All good: this machine can train."
    bad = next(check.name for check in report.checks if check.state == "failed")
    return f"The self-test failed at '{bad}': do not rely on training on this machine."
