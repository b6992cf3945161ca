"""Formats a report as text of at most 80 columns, and as JSON with the same content."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from zoo.gym.doctor.capacity import RANK, WAYS, Job
from zoo.gym.doctor.examine import Check, Report, short
from zoo.gym.doctor.extras import Missing
from zoo.gym.doctor.models import Model
from zoo.gym.train.planning.shape import TOKENS

WIDTH = 80
NAME = 14
"""Width of a row's name."""

QUIET = "no telemetry, no update check; network access only after your consent"


def as_json(report: Report, versions: Mapping[str, str]) -> dict[str, Any]:
    """Returns the report as one object."""
    values = asdict(report)
    checks = values.pop("checks")
    estimates = values.pop("jobs")
    return {**values, "self_test": checks, "fits": estimates, "versions": dict(versions)}


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
    for previous, job in pairwise((None, *report.jobs)):
        assert job is not None
        is_next = previous is not None and previous.model == job.model
        first, *rest = _job(job)
        yield from row("" if is_next else job.model, first)
        yield from (command(line) for line in rest)
    yield "Self-test on zen-pico"
    for check in report.checks:
        yield from row(check.name, _check(check))
    yield "Disk"
    for disk in report.disk:
        yield from row(disk.role, f"{short(disk.free_bytes)} free")
    yield "Models"
    for model in report.models:
        yield from _model(model)
    for title, needed in (("Missing", True), ("Not installed, and not needed for training", False)):
        things = [package for package in report.missing if package.needed is needed]
        yield from [title] if things else []
        for package in things:
            yield from _missing(package)
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
    machine = report.machine
    yield from row("system", f"{machine.system}, {machine.architecture}, {machine.python}")
    cores = f"{machine.cores} core{'s' if machine.cores > 1 else ''}"
    yield from row("processor", f"{machine.processor}, {cores}")
    memory = f"{short(machine.memory_bytes)}, {short(machine.available_bytes)} available"
    yield from row("memory", memory)
    if machine.gpu:
        yield from row("driver", f"NVIDIA {machine.driver or 'of unknown version'}")
    core = report.kernels
    other_isas = [name for name in core.available if name != core.chosen]
    also = f"; also available: {', '.join(other_isas)}" if other_isas else ""
    yield from row("kernels", f"{core.chosen} in use{also} (zoo.core {core.version})")
    if report.products is not None:
        yield from row("products", report.products)


def _job(job: Job) -> list[str]:
    """Returns the estimate of a training with its first setting, and a line for each other."""
    words = [_word(key, value) for key, value in job.settings.items()] or [""]
    verdict = "fits" if job.fits else "too large"
    line = f"{WAYS[job.method].name:<18} {short(job.needs_bytes):>8} {verdict:<9}  "
    return [line + words[0], *(" " * len(line) + word for word in words[1:])]


def _word(key: str, value: object) -> str:
    """Returns a setting as it is given to `zoo-gym train`."""
    return f"{key}={'true' if value is True else value}"


def _check(check: Check) -> str:
    took = "" if check.seconds is None else f" ({check.seconds:.1f} s)"
    detail = f": {check.said}" if check.said else ""
    return f"{check.state}{detail}{took}"


def _model(model: Model) -> Iterator[str]:
    size = f"{model.parameters / 1e6:,.1f} M parameters"
    if model.command is None:
        yield from row(model.name, f"{size}, on this machine")
        return
    yield from row(
        model.name, f"{size}, {model.licence}, not here; to download {short(model.download_bytes)}:"
    )
    yield command(model.command)


def _missing(package: Missing) -> Iterator[str]:
    yield from row(package.what, f"{package.why} ({', '.join(package.packages)})")
    yield command(package.command)


def _verdict(report: Report) -> str:
    if report.ok:
        return "All good: this machine can train."
    bad = next(check.name for check in report.checks if check.state == "failed")
    return f"The self-test failed at '{bad}': do not rely on training on this machine."
