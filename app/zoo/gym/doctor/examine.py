"""Puts the findings together; starts the process that is examined and reads what it tells."""

import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, cast

from zoo.gym.doctor.disk import Place, places
from zoo.gym.doctor.extras import Missing, missing_extras, missing_torch
from zoo.gym.doctor.family import Model, models
from zoo.gym.doctor.fits import Job, jobs
from zoo.gym.doctor.kernels import Kernels, kernels
from zoo.gym.doctor.machine import Machine, machine
from zoo.gym.doctor.patient import CHECKS
from zoo.gym.doctor.privacy import scrub
from zoo.gym.words import human_bytes

PATIENT = (sys.executable, "-P", "-m", "zoo.gym.doctor.patient")

LIMIT_S = 600.0
"""How long the self-test may take: a card that hangs must not hang the doctor."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Check:
    """One part of the self-test.

    Attributes:
        name: one of `CHECKS`; `start` where it failed before the first of them.
        state: `ok`, `failed` or `not tried`.
        said: what was measured, or what went wrong.
        seconds: how long it took; None where it did not end well.
    """

    name: str
    state: str
    said: str
    seconds: float | None


@dataclass
class Told:
    """What the examined process has told so far; `current` is the check that it is at."""

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
        ok: the whole self-test went well, so this machine can train.
        products: what the processor multiplies well; None where the self-test did not start.
        missing: the needed first; extras are not needed.
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
    """Looks at the machine and runs the self-test, offline.

    Args:
        progress: told what is tried next.
        argv: starts the process that is examined; None takes `PATIENT`.
    """
    found, told = machine(), run_patient(progress, argv or PATIENT)
    device = told.devices[0]["name"] if told.devices else "cpu"
    free_bytes = found.available_bytes if told.free_bytes is None else told.free_bytes
    torch = missing_torch(gpu=found.gpu, cuda_built=told.cuda_built, device=device)
    report = Report(
        ok=all(check.state == "ok" for check in told.checks),
        machine=found,
        kernels=kernels(),
        products=told.products,
        devices=tuple(told.devices),
        jobs=jobs(device, free_bytes),
        checks=tuple(told.checks),
        disk=places(),
        models=models(),
        missing=(*torch, *missing_extras()),
    )
    return scrub(report)


def run_patient(progress: Progress, argv: Sequence[str], limit_s: float = LIMIT_S) -> Told:
    """Runs the examined process to its end, and returns what it told."""
    told = Told()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        code, late = listen(told, progress, argv, log, limit_s)
        log.seek(0)
        lines = [line.strip() for line in log if line.strip()]
    if code:
        said = told.failed or (f"no answer in {limit_s:g} s" if late else how_ended(code, lines))
        told.checks.append(Check(told.current, "failed", said, None))
    tried = {check.name for check in told.checks}
    told.checks += [Check(name, "not tried", "", None) for name in CHECKS if name not in tried]
    return told


def listen(
    told: Told, progress: Progress, argv: Sequence[str], log: IO[str], limit_s: float
) -> tuple[int, bool]:
    """Reads what a process writes until it ends; returns its code and whether it took too long."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            for line in cast("IO[str]", process.stdout):
                hear(told, json.loads(line), progress)
            return process.wait(), timer.finished.is_set()
        finally:
            timer.cancel()
            process.kill()


def hear(told: Told, fields: dict[str, Any], progress: Progress) -> None:
    """Takes one object that the examined process wrote."""
    if "begin" in fields:
        told.current = str(fields["begin"])
        progress(f"self-test: {told.current}")
    elif "done" in fields:
        told.checks.append(Check(fields["done"], "ok", fields["said"], fields["seconds"]))
    elif "failed" in fields:
        told.failed = str(fields["failed"])
    else:
        told.devices, told.products = fields["devices"], fields.get("products")
        told.cuda_built, told.free_bytes = fields["cuda_built"], fields["free_bytes"]


def how_ended(code: int, log: Sequence[str]) -> str:
    """Returns how a process that told nothing itself came to its end."""
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"the process was ended by {names.get(-code, f'signal {-code}')}"
    return log[-1] if log else f"the process ended with code {code}"


def short(count: int | None) -> str:
    """Returns bytes for people, or that they are not known."""
    return "unknown" if count is None else human_bytes(count)
