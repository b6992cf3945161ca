"""Shares a pool of points out by value, exactly, with a cap on newcomers.

Each gets `floor(pool * value / sum)`; the points that are left go to the largest remainders, of
equal ones to the earlier name. Values are compared as exact fractions, so that the result does not
depend on rounding. A value is the measured part of the gain, weighed by quality: what a
contribution gains alone, as a share of the median contribution's gain.

Keys with few accepted rounds have a share of seats, weight and points: keys cost nothing, so
whoever makes a thousand of them must gain no more than whoever makes one. Who of the newcomers gets
a seat is drawn by lot: by a hash of all commitments and of a nonce that the maker committed to in
the manifest and shows when nobody can commit any more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from math import isfinite
from typing import TypeVar

from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol.state import State
from zoo.gym.signing import PublicKey

Key = TypeVar("Key", str, PublicKey)


def share_out(values: Mapping[Key, float | int | Fraction], pool: int) -> dict[Key, int]:
    """Returns each name's points, which add up to the pool.

    Negative values count as nothing. If no value is above 0 nobody gets a point: there is nothing
    that the pool could pay for.

    Args:
        values: what each is worth, in any unit.

    Raises:
        InputError: a value is not finite, or the pool negative.
    """
    if pool < 0:
        raise InputError(
            f"pool: expected at least 0 points, got {pool}", code="rounds.pool_negative"
        )
    worth: dict[Key, Fraction] = {}
    for name, value in values.items():
        if isinstance(value, float) and not isfinite(value):
            raise InputError(
                f"value of {name}: expected a finite number, got {value}", code="rounds.not_finite"
            )
        worth[name] = max(Fraction(0), Fraction(value))
    total = sum(worth.values())
    if not total:
        return dict.fromkeys(worth, 0)
    exact = {name: pool * value / total for name, value in worth.items()}
    points = {name: int(share) for name, share in exact.items()}
    left = pool - sum(points.values())
    by_remainder = sorted(exact, key=lambda name: (points[name] - exact[name], str(name)))
    for name in by_remainder[:left]:
        points[name] += 1
    return points


def drawn(
    newcomers: Iterable[PublicKey], seats: int, commitments: Sequence[str], nonce: str
) -> list[PublicKey]:
    """Returns the newcomers who get a seat, by the maker's nonce and the commitments in the log."""
    lines = "".join(f"{commitment}\n" for commitment in commitments)
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
    """Returns weights that leave newcomers at most a share; the others keep theirs."""
    part = Fraction(str(share))
    exact = {key: Fraction(weight) for key, weight in weights.items()}
    new = sum((exact[key] for key in newcomers), Fraction(0))
    most = part * sum(exact.values())
    if part == 1 or new <= most:
        return exact
    factor = part * (sum(exact.values()) - new) / ((1 - part) * new)
    return {key: weight * factor if key in newcomers else weight for key, weight in exact.items()}


def capped_points(
    values: Mapping[PublicKey, Fraction], newcomers: Collection[PublicKey], share: float, pool: int
) -> dict[PublicKey, int]:
    """Returns points that leave newcomers at most a share of the pool.

    What is beyond it goes to the others; to nobody if their values are all 0.
    """
    points = share_out(values, pool)
    most = int(Fraction(str(share)) * pool)
    if sum(points[key] for key in newcomers) <= most:
        return points
    new = {key: value for key, value in values.items() if key in newcomers}
    established = {key: value for key, value in values.items() if key not in newcomers}
    return {**share_out(new, most), **share_out(established, pool - most)}


def weighed_values(
    state: State, keys: Sequence[PublicKey], result: str
) -> dict[PublicKey, Fraction]:
    """Returns what each contributor's points are proportional to, exactly.

    Args:
        result: its digest; without measured values nobody is worth anything yet.
    """
    measured, terms = state.measured, state.manifest.evaluation
    assert terms is not None
    values, threshold = measured.values.get(result, {}), Fraction(terms.quality_threshold)
    quality = qualities(state, keys)
    weighed: dict[PublicKey, Fraction] = {}
    for key in keys:
        share = min(Fraction(1), quality[key] / threshold) if threshold else Fraction(1)
        weighed[key] = max(Fraction(0), Fraction(values.get(key, 0.0))) * share
    return weighed


def qualities(state: State, keys: Sequence[PublicKey]) -> dict[PublicKey, Fraction]:
    """Returns the quality of each contribution, 0 to 1."""
    gates = state.measured.gates
    losses = {key: gates[key].loss for key in keys if key in gates}
    gains = {key: Fraction(-loss.mean) for key, loss in losses.items() if loss is not None}
    ranked = sorted(gains.values())
    middle = ranked[(len(ranked) - 1) // 2] if ranked else Fraction(0)
    if middle <= 0:
        return {key: Fraction(int(gains.get(key, Fraction(0)) > 0)) for key in keys}
    return {
        key: min(Fraction(1), max(Fraction(0), gains.get(key, Fraction(0)) / middle))
        for key in keys
    }
