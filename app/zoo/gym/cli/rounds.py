"""`zoo-gym round`: community rounds, and what attacks leave of one."""

from typing import Annotated, Literal

from cyclopts import Parameter

from zoo.gym.cli.options import Json, Switch
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.rounds.rules.method import AggregationMethod, Rule, default_f, rule_for, takes_f

MethodName = Literal[
    "byzantine_robust",
    "mean",
    "trimmed_mean",
    "median",
    "majority",
    "krum",
    "multi_krum",
    "bulyan",
    "geometric_median",
    "norm_clip",
]
"""Rules that need no numbers of examples or reputations."""


def attack(
    *names: str,
    method: MethodName = "byzantine_robust",
    mix: Switch = False,
    form: Literal["float", "signs"] = "float",
    refit: Switch = False,
    contributors: int = 50,
    attackers: int | None = None,
    f: int | None = None,
    dirichlet: Annotated[float | None, Parameter(name="--dirichlet", metavar="ALPHA")] = None,
    seeds: int = 3,
    as_json: Json = False,
) -> int:
    """Attacks a round of small fine-tunes on handwritten digits, and shows what a rule keeps.

    Args:
        names: the attacks, such as "sign flip"; by default none and the fourteen usual ones
        method: the aggregation rule
        mix: replace each contribution by the mean of its nearest first (NNM)
        form: what contributors send: plain differences, or signs with one scale for each tensor
        refit: choose the size of the result, one factor of eight, on public examples
        contributors: how many there are
        attackers: how many of them are malicious; by default as many as f, of rules without it 30 %
        f: how many malicious ones the rule withstands; by default 30 %, if the rule can
        dirichlet: digits are shared out unequally, by a Dirichlet distribution with this parameter
        seeds: the number of rounds, each with other data and networks
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.attacks.table import ATTACKS, NAMES
    from zoo.gym.rounds.attacks.trial import Trial, try_attacks

    out = Output(as_json)
    _check_numbers(contributors, attackers, seeds, dirichlet)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise InputError(f"attack: expected one of {', '.join(NAMES)}, got {unknown[0]!r}")
    rule = _rule(AggregationMethod(method), contributors, f, mix=mix)
    withstood = rule.f if takes_f(rule.method) or rule.mixes else default_f(contributors)
    malicious = withstood if attackers is None else attackers
    trial = Trial(rule, form, refit, contributors, malicious, dirichlet, seeds)
    rows = try_attacks(trial, names or tuple(ATTACKS), out.say)
    mixed = ", mixed first" if rule.mixes else ""
    out.answer(f"rule: {rule.method.value}, f = {rule.f}{mixed}")
    out.answer(f"{malicious} of {contributors} contributors are malicious")
    if not malicious and attackers is None:
        out.say(f"note: with {contributors} contributors this rule withstands none: --attackers 1")
    out.answer(f"{'attack':<16} {'gain kept':>9} {'backdoor':>9}")
    for row in rows:
        out.answer(f"{row.attack:<16} {row.recovered:7.1f} % {row.backdoor:7.1f} %")
    worst = min(rows, key=lambda row: row.recovered)
    out.answer(f"worst: {worst.recovered:.1f} % ({worst.attack})")
    out.say("gain kept: of the gain in accuracy of the mean of honest contributions")
    shown = [vars(row) for row in rows]
    answer = {"rows": shown, "worst": vars(worst), "rule": _described(rule)}
    out.result(answer | {"attackers": malicious})
    return 0


def _rule(method: AggregationMethod, contributors: int, f: int | None, *, mix: bool) -> Rule:
    if mix and Rule(method).mixes:
        raise InputError(f"--mix: has no effect on {method.value}, which mixes anyway")
    return rule_for(method, contributors, f, mixed=mix)


def _described(rule: Rule) -> dict[str, object]:
    return {"method": rule.method.value, "f": rule.f, "mixed": rule.mixes}


def _check_numbers(
    contributors: int, attackers: int | None, seeds: int, dirichlet: float | None
) -> None:
    if contributors < 2:
        raise InputError(f"--contributors: expected at least 2, got {contributors}")
    if attackers is not None and not 0 <= attackers < contributors:
        raise InputError(f"--attackers: expected 0 to {contributors - 1}, got {attackers}")
    if seeds < 1:
        raise InputError(f"--seeds: expected at least 1, got {seeds}")
    if dirichlet is not None and not 0 < dirichlet < float("inf"):
        raise InputError(f"--dirichlet: expected a number above 0, got {dirichlet}")
