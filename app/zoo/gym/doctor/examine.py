"""Collects everything that the doctor reports, and runs the self-test in a separate process.

A self-test that crashes or hangs is reported too. The parts of the report come from the other
modules of this package.
"""

import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, cast

from zoo.gym.doctor.capacity import Job, jobs
from zoo.gym.doctor.extras import Missing, missing_extras, missing_torch
from zoo.gym.doctor.machine import Kernels, Machine, Place, kernels, machine, places
from zoo.gym.doctor.models import Model, models
from zoo.gym.doctor.privacy import scrub
from zoo.gym.doctor.self_test import CHECKS
from zoo.gym.humanize import human_bytes

SELF_TEST = (sys.executable, "-P", "-m", "zoo.gym.doctor.self_test")

LIMIT_S = 600.0
"""How long the self-test may take: a hanging GPU must not hang the doctor."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Check:
    """One part of the self-test.

    Attributes:
        name: one of `CHECKS`; `start` if it failed before the first of them.
        state: `ok`, `failed` or `not tried`.
        said: what was measured, or what went wrong.
        seconds: how long it took; None unless it passed.
    """

    name: str
    state: str
    said: str
    seconds: float | None


@dataclass
class Findings:
    """What the self-test has reported so far; `current` is the check in progress."""

    devices: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    products: str | None = None
    cuda_built: bool = False
    free_bytes: int | None = None
    checks: list[Check] = field(default_factory=list[Check])
    current: str = "start"
    failed: str | None = None


@dataclass(frozen=True)
class Report:
    """Everything that the doctor found.

    Attributes:
        ok: the whole self-test passed, so this machine can train.
        products: the speeds of matrix products; None if the self-test did not start.
        missing: needed packages first; extras are not needed.
    """

    ok: bool
    machine: Machine
    kernels: Kernels
    products: str | None
    devices: tuple[dict[str, Any], ...]
    jobs: tuple[Job, ...]
    checks: tuple[Check, ...]
    disk: tuple[Place, ...]
    models: tuple[Model, ...]
    missing: tuple[Missing, ...]


def examine(progress: Progress, argv: Sequence[str] | None = None) -> Report:
    """Examines the machine and runs the self-test, offline.

    Args:
        progress: called with the name of each check.
        argv: the command of the self-test; None uses `SELF_TEST`.
    """
    computer, findings = machine(), run_self_test(progress, argv or SELF_TEST)
    device = findings.devices[0]["name"] if findings.devices else "cpu"
    free_bytes = computer.available_bytes if findings.free_bytes is None else findings.free_bytes
    torch = missing_torch(gpu=computer.gpu, cuda_built=findings.cuda_built, device=device)
    report = Report(
        ok=all(check.state == "ok" for check in findings.checks),
        machine=computer,
        kernels=kernels(),
        products=findings.products,
        devices=tuple(findings.devices),
        jobs=jobs(device, free_bytes),
        checks=tuple(findings.checks),
        disk=places(),
        models=models(),
        missing=(*torch, *missing_extras()),
    )
    return scrub(report)


def run_self_test(progress: Progress, argv: Sequence[str], limit_s: float = LIMIT_S) -> Findings:
    """Runs the self-test to its end, and returns what it reported."""
    findings = Findings()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        code, late = listen(findings, progress, argv, log, limit_s)
        log.seek(0)
        lines = [line.strip() for line in log if line.strip()]
    if code:
        message = findings.failed or (
            f"no answer in {limit_s:g} s" if late else how_ended(code, lines)
        )
        findings.checks.append(Check(findings.current, "failed", message, None))
    tried = {check.name for check in findings.checks}
    findings.checks += [Check(name, "not tried", "", None) for name in CHECKS if name not in tried]
    return findings


def listen(
    findings: Findings, progress: Progress, argv: Sequence[str], log: IO[str], limit_s: float
) -> tuple[int, bool]:
    """Reads the output of a process until it ends; returns its code and whether it timed out."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            for line in cast("IO[str]", process.stdout):
                record(findings, json.loads(line), progress)
            return process.wait(), timer.finished.is_set()
        finally:
            timer.cancel()
            process.kill()


def record(findings: Findings, fields: dict[str, Any], progress: Progress) -> None:
    """Records one object that the self-test wrote."""
    if "begin" in fields:
        findings.current = str(fields["begin"])
        progress(f"self-test: {findings.current}")
    elif "done" in fields:
        findings.checks.append(Check(fields["done"], "ok", fields["said"], fields["seconds"]))
    elif "failed" in fields:
        findings.failed = str(fields["failed"])
    else:
        findings.devices, findings.products = fields["devices"], fields.get("products")
        findings.cuda_built, findings.free_bytes = fields["cuda_built"], fields["free_bytes"]


def how_ended(code: int, log: Sequence[str]) -> str:
    """Returns how a process ended that did not report a failure itself."""
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"the process was killed by {names.get(-code, f'signal {-code}')}"
    return log[-1] if log else f"the process exited with code {code}"


def short(count: int | None) -> str:
    """Returns a size for people, or that it is unknown."""
    return "unknown" if count is None else human_bytes(count)
