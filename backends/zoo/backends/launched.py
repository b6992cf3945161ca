"""Processes that a launcher such as torchrun or accelerate started, and how they find each other.

The launcher sets the variables of torch.distributed in each process; the first of them announces
the run folder, through the store that the launcher keeps.
"""

import os
from collections.abc import Mapping
from datetime import timedelta

from zoo.backends.ranks import FROM_ENVIRONMENT, Place
from zoo.core.errors import InputError

PATIENCE = timedelta(days=30)
"""How long a process waits for the others: a run may be paused. A process that ends is noticed at
once, because its connections close."""

_KEY = "zoo-gym/run"


_DIVIDED = "expected --multi_gpu, and sharding=full to divide the model by torch's FSDP2"

REFUSED = {
    "ACCELERATE_USE_DEEPSPEED": f"DeepSpeed is not supported: {_DIVIDED}",
    "ACCELERATE_USE_FSDP": f"its options would have no effect: {_DIVIDED}",
    "ACCELERATE_USE_MEGATRON_LM": f"Megatron-LM is not supported: {_DIVIDED}",
    "ACCELERATE_USE_PARALLELISM_CONFIG": f"its options would have no effect: {_DIVIDED}",
    "ACCELERATE_MIXED_PRECISION": "expected --mixed_precision no: dtype=bf16 is the setting",
    "ACCELERATE_DYNAMO_BACKEND": "expected --dynamo_backend no: nothing is compiled",
}
"""Variables by which accelerate passes on options that would have no effect, and why not."""

_OFF = frozenset({"", "0", "false", "no"})


def launched_place(environ: Mapping[str, str] = os.environ) -> Place | None:
    """Returns the place of this process among those of a launcher; None without a launcher.

    Raises:
        InputError: the variables are incomplete or contradictory.
    """
    for name, why in REFUSED.items():
        if environ.get(name, "").lower() not in _OFF:
            raise InputError(f"{name}: {why}, got {environ[name]}", code="backends.launcher_option")
    if "WORLD_SIZE" not in environ:
        if "MASTER_PORT" in environ and "ACCELERATE_USE_CPU" in environ:
            # accelerate leaves starting processes on CPUs to mpirun, and starts one without it
            raise InputError(
                "the launcher started one process: expected WORLD_SIZE and RANK, got neither",
                hint="num_processes=2 without a launcher, or torchrun --nproc-per-node 2",
                code="backends.launcher_incomplete",
            )
        return None
    size = _number(environ, "WORLD_SIZE", 1)
    if size == 1:
        return None
    rank = _number(environ, "RANK", 0)
    if rank >= size:
        raise InputError(
            f"RANK: expected less than WORLD_SIZE {size}, got {rank}",
            code="backends.launcher_value",
        )
    if missing := [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environ.get(name)]:
        raise InputError(
            f"{missing[0]}: expected the address that the processes meet at, got none",
            code="backends.launcher_incomplete",
        )
    local = _number(environ, "LOCAL_RANK", 0) if "LOCAL_RANK" in environ else rank
    return Place(rank, size, local, FROM_ENVIRONMENT)


def on_one_machine(environ: Mapping[str, str] = os.environ) -> bool:
    """Returns whether the launcher says that all processes are on this machine."""
    return environ.get("LOCAL_WORLD_SIZE") == environ.get("WORLD_SIZE")


def on_this_machine(size: int, environ: Mapping[str, str] = os.environ) -> int:
    """Returns how many of the `size` processes of a run are on this machine."""
    if launched_place(environ) is None or "LOCAL_WORLD_SIZE" not in environ:
        return size
    return min(size, _number(environ, "LOCAL_WORLD_SIZE", 1))


def announce(rank: Place, text: str) -> object:
    """Tells the other processes a text; what is returned must live until they are connected."""
    store = _store(rank)
    store.set(_KEY, text)
    return store


def announced(rank: Place) -> str:
    """Waits for what the first process announces, and returns it."""
    text: bytes = _store(rank).get(_KEY)
    return text.decode()


def _store(rank: Place):  # type: ignore[no-untyped-def]  # noqa: ANN202 - torch is imported late
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous(FROM_ENVIRONMENT, rank.rank, rank.size, timeout=PATIENCE))
    return store


def _number(environ: Mapping[str, str], name: str, least: int) -> int:
    text = environ.get(name, "")
    if not text.isdecimal() or int(text) < least:
        raise InputError(
            f"{name}: expected a whole number of at least {least}, got {text!r}",
            code="backends.launcher_value",
        )
    return int(text)
