"""Community rounds: how well rewards rank contributors, and the speed of the rules.

Speed: see `bench.round_peers`, and from a Gram matrix to weights for 10,000 contributors (5 GB).
What attacks leave of a rule is in `bench.attack`.
"""

import time
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

from bench import round_peers
from bench.attacks.trial import contributions
from bench.digits.ladder import make_ladder
from bench.isas import kept_as
from bench.measure import Case, Skipped, status_bytes
from zoo.core import hamming, krum_order, mix_gram, nearest, sign_gram, whole_gram
from zoo.gym.rounds.measure.losses import POINTS, values_of

LADDERS = 12
"""Seeds of the ladder of wrong labels."""

MANY, MANY_COLUMNS = 10_000, 100_000


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    if find_spec("sklearn") is None:
        yield Skipped("rewards", "scikit-learn is not installed")
    else:
        yield _rewards()
    yield from round_peers.run()
    yield from _many()


def _rewards() -> Case:
    """How well values rank ten contributors whose labels get worse from one to the next."""
    agreement: list[float] = []
    for seed in range(LADDERS):
        ladder = make_ladder(seed)
        mean = ladder.sent.mean(axis=0)
        gradient = ladder.mean_gradient(mean, POINTS)
        shares = [1 / len(ladder.sent)] * len(ladder.sent)
        values = values_of(gradient, contributions("float", ladder.sent), shares)
        ranks = np.argsort(np.argsort(values))
        agreement.append(float(np.corrcoef(ranks, np.arange(len(shares))[::-1])[0, 1]))
    rank = float(np.mean(agreement))
    return Case(f"rewards: rank, {LADDERS} seeds", rank, "rho", "1", rank, ">= 0.75")


def _many() -> Iterator[Case]:
    """From packed signs to weights, one thread."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, (MANY, MANY_COLUMNS // 8), np.uint8)
    scales = rng.uniform(0.5, 1.5, MANY).astype(np.float32)
    f = MANY * 3 // 10
    started = time.process_time()
    gram = whole_gram(sign_gram(hamming(bits, MANY_COLUMNS, threads=1), MANY_COLUMNS, scales))
    distances = time.process_time()
    mixed = mix_gram(gram, nearest(gram, MANY - f, threads=1), threads=1)
    mixing = time.process_time()
    krum_order(mixed, f, threads=1)
    ended = time.process_time()
    yield Case("10,000 x 1e5: Gram", distances - started, "CPU-s", "1 s", distances - started, "")
    yield Case("10,000 x 1e5: mixing", mixing - distances, "CPU-s", "1 s", mixing - distances, "")
    yield Case("10,000 x 1e5: weights", ended - started, "CPU-s", "1 s", ended - started, "<= 240")
    peak = status_bytes("VmHWM") / 1e9
    yield Case("10,000 x 1e5: memory", peak, "GB", "1 GB", peak, "<= 6")


def result_name() -> str:
    """Returns the name of the result file."""
    return kept_as("rounds")
