"""What must be the same in all processes of a run."""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from zoo.gym.errors import GuardError

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.backends.ranks import Ranks


def check_same_settings(ranks: "Ranks", settings: Mapping[str, object]) -> None:
    """Checks that all processes train with the same settings.

    Raises:
        GuardError: they do not.
    """
    texts = {key: json.dumps(value, sort_keys=True) for key, value in settings.items()}
    first = ranks.share(texts)
    odd = sorted(key for key in first.keys() | texts.keys() if first.get(key) != texts.get(key))
    gathered = ranks.gather_bytes(", ".join(odd).encode())
    differing = next(filter(None, gathered), b"").decode()
    _check_same(ranks, gathered, differing or "settings")


def check_same_weights(policy: "Policy", when: str) -> None:
    """Checks that the trained weights are the same in all processes, bit for bit.

    Of a divided model each process has others.

    Raises:
        GuardError: they are not.
    """
    if policy.ranks.size == 1 or policy.divided:
        return
    digest: Any = blake2b(digest_size=16)
    for name, values in policy.trained():
        digest.update(name.encode() + values.tobytes())
    _check_same(policy.ranks, policy.ranks.gather_bytes(digest.digest()), f"weights at {when}")


def _check_same(ranks: "Ranks", gathered: Sequence[bytes], what: str) -> None:
    odd = next((rank for rank, settings in enumerate(gathered) if settings != gathered[0]), None)
    if odd is not None:
        raise GuardError(
            f"the processes of this run have come apart: expected the same {what} in all "
            f"{ranks.size}, got others in process {odd + 1}",
            hint="use machines with the same processor, GPU and library versions",
            code="train.processes_differ",
        )
