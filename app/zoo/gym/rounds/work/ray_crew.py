"""Starts workers on a cluster of Ray; the queue, not Ray, knows what is done.

A worker that Ray loses is started again. If the raylet of this machine is lost the driver goes with
it: the same command starts workers again, and leases that ran out are taken over.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import NotAvailableError

LOCAL = "local"
"""The address of a cluster of this machine alone, started for this command."""

RETRIES = 20
"""How often a worker that was killed is started again."""


def run_on_ray(address: str, words: Sequence[str], count: int, cpus: float) -> list[str]:
    """Runs a command of Python in several tasks of Ray and returns the last line of each.

    Args:
        address: `local`, `auto`, or the host and port of a cluster.
        words: of the command, without the interpreter.
        count: how many run at the same time.
        cpus: processors that each one reserves.

    Raises:
        NotAvailableError: Ray is not installed, or no cluster answers, or it was lost.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # reports to its makers otherwise
    try:
        import ray
        from ray.exceptions import RayError
    except ImportError:
        raise NotAvailableError(
            "ray: expected the package, got none", hint=install_command("cluster")
        ) from None
    library: Any = ray
    local = address == LOCAL
    try:
        library.init(
            address=LOCAL if local else address,
            num_cpus=max(1, int(count * cpus)) if local else None,
            include_dashboard=False if local else None,
            log_to_driver=False,
            configure_logging=False,
        )
        task = library.remote(num_cpus=cpus, max_retries=RETRIES, retry_exceptions=True)(_run)
        found: list[str] = library.get([task.remote(list(words)) for _ in range(count)])
    except (RayError, ConnectionError, ValueError) as error:
        raise NotAvailableError(f"ray: the cluster at {address} is lost: {error}") from error
    finally:
        library.shutdown()
    return found


def _run(words: list[str]) -> str:
    """Runs in a process of Ray: the command has one of its own, which signals reach as usual."""
    done = subprocess.run([sys.executable, *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().rpartition("\n")[2]
