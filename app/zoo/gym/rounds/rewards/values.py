"""What contributions earn points for: their measured part of the gain, weighed by quality.

The quality of a contribution is what it gains alone, as a share of the median contribution's gain:
1 from the median on. Below the threshold of the round its value shrinks in proportion.
"""

from collections.abc import Sequence
from fractions import Fraction

from zoo.gym.rounds.protocol.state import State
from zoo.gym.signing import PublicKey


def weighed_values(
    state: State, keys: Sequence[PublicKey], result: str
) -> dict[PublicKey, Fraction]:
    """Returns what each contributor's points are proportional to, exactly.

    Args:
        state: of a round with an evaluation set.
        keys: whose contributions count.
        result: its digest; without measured values nobody is worth anything yet.
    """
    measured, terms = state.measured, state.manifest.evaluation
    assert terms is not None
    values, threshold = measured.values.get(result, {}), Fraction(terms.quality_threshold)
    quality = qualities(state, keys)
    found: dict[PublicKey, Fraction] = {}
    for key in keys:
        share = min(Fraction(1), quality[key] / threshold) if threshold else Fraction(1)
        found[key] = max(Fraction(0), Fraction(values.get(key, 0.0))) * share
    return found


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
