"""What attacks leave of the gain of a round, by rule: the tables of docs/reference/aggregation.md.

50 small networks learn digits (`bench.digits`), some of them send malicious deltas
(`bench.attacks`), three seeds; signs are re-fitted. A figure is the worst of fourteen attacks and
none, in % of the gain in accuracy of the mean of honest contributions, or how often a backdoor's
trigger works. The controls with a bar show that the attacks do harm, and that the adaptive attacker
is strong enough.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from bench.attacks.table import ADAPTIVE, ATTACKS, MORE_ATTACKS
from bench.attacks.trial import Row, Trial, try_attacks
from bench.measure import Case, Skipped
from zoo.gym.rounds.rules.method import AggregationMethod, Rule, takes_f

Method = AggregationMethod
SPLITS: dict[str, tuple[float | None, int]] = {"iid": (None, 15), "Dirichlet": (0.3, 10)}
"""Dirichlet's parameter, and how many of 50 are malicious."""

RULES = (Method.MEAN, Method.KRUM, Method.MULTI_KRUM)
"""Those that the default is compared with."""

DEFAULT_BARS = {
    ("iid", "float"): ">= 95",
    ("iid", "signs"): ">= 82",
    ("Dirichlet", "float"): ">= 80",
    ("Dirichlet", "signs"): ">= 65",
}
CONTROL_BARS = {("mean", "iid", "float"): "<= 0", ("krum", "iid", "signs"): "<= 5"}
"""Rules that must fail where everybody's data is alike: the attacks are real."""

GATED_BARS = {("iid", "float"): ">= 40", ("Dirichlet", "float"): ">= 60"}


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    if find_spec("sklearn") is None:
        yield Skipped("attacks", "scikit-learn is not installed")
        return
    for split, form in DEFAULT_BARS:
        yield from _usual(split, form)
        yield from _stronger(split, form)
    row = rows_of(Method.MULTI_KRUM, "iid", "float", ["adaptive"])["adaptive"]
    yield _gain("control: adaptive, multi_krum, iid", row, "<= 25")


def rows_of(method: Method, split: str, form: str, attacks: Sequence[str]) -> dict[str, Row]:
    """Returns what each attack leaves; signs are re-fitted."""
    alpha, attackers = SPLITS[split]
    rule = Rule(method, attackers if takes_f(method) else 0)
    signs = form == "signs"
    trial = Trial(rule, "signs" if signs else "float", signs, attackers=attackers, alpha=alpha)
    return {row.attack: row for row in try_attacks(trial, attacks)}


def _usual(split: str, form: str) -> Iterator[Case]:
    """Fourteen attacks and none: the worst of each rule, and backdoors under the default."""
    for method in RULES:
        rows = rows_of(method, split, form, list(ATTACKS))
        bar = CONTROL_BARS.get((method.value, split, form), "")
        yield _worst(f"{'control: ' if bar else ''}{method.value}, {split}, {form}", rows, bar)
    rows = rows_of(Method.BYZANTINE_ROBUST, split, form, list(ATTACKS))
    yield _worst(f"default, {split}, {form}", rows, DEFAULT_BARS[split, form])
    for name in ("none", "backdoor", "backdoor x5"):
        share = rows[name].backdoor
        limit = "<= 5" if (split, form) == ("iid", "float") else ""
        yield Case(f"trigger: {name}, {split}, {form}", share, "% success", "1 %", share, limit)


def _stronger(split: str, form: str) -> Iterator[Case]:
    """Attackers who know everything, and those with many keys, against the default."""
    names = [*ADAPTIVE, *MORE_ATTACKS]
    for name, row in rows_of(Method.BYZANTINE_ROBUST, split, form, names).items():
        bar = GATED_BARS.get((split, form), "") if name == "adaptive gated" else ""
        yield _gain(f"{name}, {split}, {form}", row, bar)


def _worst(name: str, rows: dict[str, Row], bar: str) -> Case:
    row = min(rows.values(), key=lambda row: row.recovered)
    return _gain(f"{name}: {row.attack}", row, bar)


def _gain(name: str, row: Row, bar: str) -> Case:
    return Case(name, row.recovered, "% kept", "1 % honest gain", row.recovered, bar)
