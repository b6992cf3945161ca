"""Community rounds: what attacks leave of the honest gain, and the speed of the rules.

Attacks are those of `zoo-gym round attack`, three seeds, against the bars; the controls show that
the attacks do harm, and that the adaptive attacker is strong enough. Speed: see
`bench.round_peers`, and from a Gram matrix to weights for 10,000 contributors (ten minutes and 5 GB
in all).
"""

import time
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

from bench import round_peers
from bench.isas import kept_as
from bench.measure import Case, Skipped, status_bytes
from zoo.core import hamming, krum_order, mix_gram, nearest, sign_gram, whole_gram
from zoo.gym.rounds.attacks.table import ATTACKS
from zoo.gym.rounds.attacks.trial import Row, Trial, in_form, try_attacks
from zoo.gym.rounds.digits.ladder import make_ladder
from zoo.gym.rounds.measure.value import POINTS, values_of
from zoo.gym.rounds.rules.method import AggregationMethod, Rule, takes_f

Method = AggregationMethod
SPLITS: dict[str, tuple[float | None, int]] = {"iid": (None, 15), "Dirichlet": (0.3, 10)}
"""Dirichlet's parameter, and how many of 50 are malicious."""

DEFAULT_BARS = {
    ("iid", "float"): ">= 95",
    ("iid", "signs"): ">= 82",
    ("Dirichlet", "float"): ">= 80",
    ("Dirichlet", "signs"): ">= 65",
}
GATED_BARS = {("iid", "float"): ">= 40", ("Dirichlet", "float"): ">= 60"}
CONTROLS = (
    (Method.MEAN, "float", "<= 0"),
    (Method.KRUM, "signs", "<= 5"),
)
"""Rules that must fail where everybody's data is alike: the attacks are real."""

BACKDOORS = ("backdoor", "backdoor x5")

LADDERS = 12
"""Seeds of the ladder of wrong labels."""

MANY, MANY_COLUMNS = 10_000, 100_000


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    if find_spec("sklearn") is None:
        yield Skipped("attacks", "scikit-learn is not installed")
    else:
        yield from _attacks()
        yield _rewards()
    yield from round_peers.run()
    yield from _many()


def rows_of(method: Method, split: str, form: str, names: list[str]) -> dict[str, Row]:
    """Returns what each attack leaves; signs are re-fitted."""
    alpha, attackers = SPLITS[split]
    rule = Rule(method, attackers if takes_f(method) else 0)
    signs = form == "signs"
    trial = Trial(rule, "signs" if signs else "float", signs, attackers=attackers, alpha=alpha)
    return {row.attack: row for row in try_attacks(trial, names)}


def _attacks() -> Iterator[Case]:
    for (split, form), bar in DEFAULT_BARS.items():
        rows = rows_of(Method.BYZANTINE_ROBUST, split, form, list(ATTACKS))
        yield _worst(f"default, {split}, {form}", rows, bar)
        for name in BACKDOORS:
            share, limit = rows[name].backdoor, "<= 5" if bar == ">= 95" else ""
            yield Case(f"{name}, {split}, {form}", share, "% success", "1 %", share, limit)
    for method, form, bar in CONTROLS:
        rows = rows_of(method, "iid", form, list(ATTACKS))
        yield _worst(f"control: {method.value}, iid, {form}", rows, bar)
    yield from _adaptive()


def _adaptive() -> Iterator[Case]:
    for split, form in DEFAULT_BARS:
        names = ["adaptive", "adaptive gated", "Sybil split", "mimic"]
        for name, row in rows_of(Method.BYZANTINE_ROBUST, split, form, names).items():
            bar = GATED_BARS.get((split, form), "") if name == "adaptive gated" else ""
            yield _kept(f"{name}, {split}, {form}", row, bar)
    row = rows_of(Method.MULTI_KRUM, "iid", "float", ["adaptive"])["adaptive"]
    yield _kept("control: adaptive, multi_krum, iid", row, "<= 25")


def _rewards() -> Case:
    """How well values rank ten contributors whose labels get worse from one to the next."""
    agreement: list[float] = []
    for seed in range(LADDERS):
        ladder = make_ladder(seed)
        mean = ladder.sent.mean(axis=0)
        gradient = ladder.mean_gradient(mean, POINTS)
        shares = [1 / len(ladder.sent)] * len(ladder.sent)
        found = np.argsort(np.argsort(values_of(gradient, in_form("float", ladder.sent), shares)))
        agreement.append(float(np.corrcoef(found, np.arange(len(shares))[::-1])[0, 1]))
    rank = float(np.mean(agreement))
    return Case(f"rewards: rank, {LADDERS} seeds", rank, "rho", "1", rank, ">= 0.75")


def _worst(name: str, rows: dict[str, Row], bar: str) -> Case:
    row = min(rows.values(), key=lambda row: row.recovered)
    return _kept(f"{name}: {row.attack}", row, bar)


def _kept(name: str, row: Row, bar: str) -> Case:
    return Case(name, row.recovered, "% kept", "1 % honest gain", row.recovered, bar)


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
