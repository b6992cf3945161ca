"""Tries a rule against attacks on the digits, and reports what is left of the honest gain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.attacks.adaptive import adapt
from bench.attacks.table import ADAPTIVE, ATTACKS, MORE_ATTACKS
from bench.attacks.view import View
from bench.digits.network import Floats, slices
from bench.digits.setting import Setting, make_setting
from bench.round_forms import in_form
from zoo.gym.rounds.encodings import Contributions
from zoo.gym.rounds.rules.aggregate import combine, select
from zoo.gym.rounds.rules.method import Rule

REFIT_FACTORS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""What a re-fit multiplies a result by: the one with the lowest loss on public examples."""


@dataclass(frozen=True)
class Trial:
    """What is tried.

    Attributes:
        rule: the aggregation rule, with its f.
        form: `float`, or `signs` with one scale for each tensor.
        refit: whether the result's size is chosen on public examples.
        contributors: how many there are.
        attackers: how many of them are malicious.
        alpha: see `make_setting`.
        seeds: how many rounds are tried.
    """

    rule: Rule
    form: Literal["float", "signs"] = "float"
    refit: bool = False
    contributors: int = 50
    attackers: int = 15
    alpha: float | None = None
    seeds: int = 3


@dataclass(frozen=True)
class Row:
    """What an attack leaves, mean over the seeds.

    Attributes:
        attack: its name.
        recovered: the gain in accuracy over the base, as % of that of the honest mean of all.
        backdoor: % of other digits that the trigger turns into the target.
    """

    attack: str
    recovered: float
    backdoor: float


def try_attacks(trial: Trial, attacks: Sequence[str]) -> list[Row]:
    """Returns a row for each attack.

    Raises:
        InputError: a form, or a number of contributors, that the rule cannot take.
        ModuleNotFoundError: scikit-learn is not installed.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in attacks}
    for seed in range(trial.seeds):
        setting = make_setting(seed, trial.contributors, trial.alpha)
        for name in attacks:
            view = View(setting, trial.attackers, seed)
            found[name].append(_measure(setting, attacked(trial, view, name)))
    return [
        Row(
            name,
            sum(gain for gain, _ in each) / len(each),
            sum(share for _, share in each) / len(each),
        )
        for name, each in found.items()
    ]


def attacked(trial: Trial, view: View, attack: str) -> Floats:
    """Returns the result of a round under an attack, [D]; malicious contributions come first.

    Without attackers each attack is the round of the honest.
    """

    def result(sent: Floats) -> Floats:
        return aggregate(trial, view.setting, sent)

    if not view.f:
        return result(view.honest)
    if attack in ADAPTIVE:
        coded = values_of(trial.form)
        return adapt(view, result, coded, gated=ADAPTIVE[attack])
    malicious = (ATTACKS | MORE_ATTACKS)[attack](view).astype(np.float32)
    return result(np.concatenate([malicious, view.honest]))


def values_of(form: Literal["float", "signs"]) -> Callable[[Floats], Floats]:
    """Returns what makes of contributions, [n, D], the values that they have in a form."""

    def coded(sent: Floats) -> Floats:
        columns = contributions(form, sent).columns(threads=1)
        parts = {tensor: np.stack(rows) for tensor, _, rows in columns}
        return np.concatenate([parts[name] for name in slices()], axis=1)

    return coded


def aggregate(trial: Trial, setting: Setting, sent: Floats) -> Floats:
    """Returns what the rule makes of the contributions, [D]."""
    everyone = contributions(trial.form, sent)
    selection = select(trial.rule, everyone, threads=1)
    parts, result = slices(), np.zeros(sent.shape[1], np.float32)
    for piece in combine(selection, everyone, threads=1):
        first = parts[piece.tensor].start + piece.start
        result[first : first + piece.values.size] = piece.values
    return refit(setting, result) if trial.refit else result


def contributions(form: Literal["float", "signs"], sent: Floats) -> Contributions:
    """Returns contributions [n, D] tensor by tensor, in a form of rounds."""
    return in_form(
        form, {name: np.ascontiguousarray(sent[:, part]) for name, part in slices().items()}
    )


def refit(setting: Setting, delta: Floats) -> Floats:
    """Returns the delta times the factor that the public examples like best."""
    loss = [float(setting.public_losses(delta * np.float32(k)).mean()) for k in REFIT_FACTORS]
    return delta * np.float32(REFIT_FACTORS[loss.index(min(loss))])


def _measure(setting: Setting, result: Floats) -> tuple[float, float]:
    base = setting.accuracy()
    honest = setting.accuracy(setting.honest.mean(axis=0)) - base
    recovered = 100 * (setting.accuracy(result) - base) / honest
    return recovered, 100 * setting.backdoor(result)
