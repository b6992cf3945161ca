"""The cap on newcomers: keys with few accepted rounds have a share of seats, weight and points.

Keys cost nothing, so whoever makes a thousand of them must gain no more than whoever makes one.
Who of the newcomers gets a seat is drawn by lot: by a hash of all commitments and of a nonce that
the maker committed to in the manifest and shows when nobody can commit any more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from hashlib import sha256

from zoo.gym.rounds.rewards.points import share_out
from zoo.gym.signing import PublicKey


def nonce_commitment(nonce: str) -> str:
    """Returns what a manifest says of the maker's nonce, 64 hexadecimal digits."""
    return sha256(f"zoo-gym lot 1\n{nonce}\n".encode()).hexdigest()


def drawn(
    newcomers: Iterable[PublicKey], seats: int, commitments: Sequence[str], nonce: str
) -> list[PublicKey]:
    """Returns the newcomers who get a seat.

    Args:
        newcomers: those whose contributions could count.
        seats: how many of them may.
        commitments: of the round, in the order of its log.
        nonce: the maker's.
    """
    lines = "".join(f"{one}\n" for one in commitments)
    root = sha256(lines.encode()).hexdigest()
    seed = sha256(f"zoo-gym lot 1\n{root}\n{nonce}\n".encode()).hexdigest()

    def place(key: PublicKey) -> str:
        return sha256(f"{seed}\n{key}\n".encode()).hexdigest()

    return sorted(newcomers, key=place)[:seats]


def seats_of(established: int, share: float) -> int | None:
    """Returns how many newcomers are at most a share of all; None for any number."""
    part = Fraction(str(share))
    return None if part == 1 else int(part * established / (1 - part))


def capped_weights(
    weights: Mapping[PublicKey, float], newcomers: Collection[PublicKey], share: float
) -> dict[PublicKey, Fraction]:
    """Returns weights of which newcomers have at most a share; the others' stay."""
    part = Fraction(str(share))
    exact = {key: Fraction(weight) for key, weight in weights.items()}
    new = sum((exact[key] for key in newcomers), Fraction(0))
    most = part * sum(exact.values())
    if part == 1 or new <= most:
        return exact
    factor = part * (sum(exact.values()) - new) / ((1 - part) * new)
    return {key: weight * factor if key in newcomers else weight for key, weight in exact.items()}


def capped_points(
    values: Mapping[PublicKey, Fraction],
    newcomers: Collection[PublicKey],
    share: float,
    pool: int,
) -> dict[PublicKey, int]:
    """Returns points of which newcomers have at most a share of the pool.

    What is beyond it goes to the others; to nobody if their values are all 0.
    """
    points = _shared(values, pool)
    most = int(Fraction(str(share)) * pool)
    if sum(points[key] for key in newcomers) <= most:
        return points
    new = {key: value for key, value in values.items() if key in newcomers}
    others = {key: value for key, value in values.items() if key not in newcomers}
    return {**_shared(new, most), **_shared(others, pool - most)}


def _shared(values: Mapping[PublicKey, Fraction], pool: int) -> dict[PublicKey, int]:
    points = share_out({str(key): value for key, value in values.items()}, pool)
    return {key: points[str(key)] for key in values}
