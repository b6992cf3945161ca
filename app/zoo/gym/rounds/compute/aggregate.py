"""Computes the result of a round and its report; the same files for everybody.

Nothing is written to the round here: the log's writer publishes what this returns (`publish`), and
whoever verifies the round compares with it (`verify`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pydantic import JsonValue

from zoo.gym.delta.file.reader import Delta
from zoo.gym.errors import InputError
from zoo.gym.rounds.arrays import F32, Gram
from zoo.gym.rounds.compute.collect import (
    Collected,
    NoResultError,
    TooFewError,
    Work,
    collect,
    without_copies,
)
from zoo.gym.rounds.compute.eligibility import Members, members_of, with_cap, with_seats
from zoo.gym.rounds.compute.result import AUMANN_SHAPLEY, BY_WEIGHT, Report, write_result
from zoo.gym.rounds.contribution.check import views_of
from zoo.gym.rounds.encodings import Contributions
from zoo.gym.rounds.kind import kind_of
from zoo.gym.rounds.payouts.points import capped_points, qualities, weighed_values
from zoo.gym.rounds.payouts.reputation import (
    Reputation,
    Standings,
    standings_after,
    write_standings,
)
from zoo.gym.rounds.protocol.records import below
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.rules.aggregate import Selection, combine, gram_of, select
from zoo.gym.rounds.rules.method import Rule, takes_given
from zoo.gym.rounds.storage.chunks import describe
from zoo.gym.signing import PublicKey


@dataclass(frozen=True)
class Computed:
    """A result that was computed here, and the bytes of its Gram matrix and of new standings."""

    delta: Delta
    report: Report
    gram: bytes
    standings: bytes


@dataclass(frozen=True)
class Chosen:
    """What counts in a round, and how much, before any column is combined.

    Attributes:
        contributions: those of `collected`, as the rules see them.
        gram: their exact scalar products.
    """

    work: Work
    collected: Collected
    contributions: Contributions
    selection: Selection
    gram: Gram
    members: Members

    def write(self, out: Path, *, factor: float = 1.0) -> Delta:
        """Writes the result times a factor, and returns it.

        Raises:
            StorageError: it cannot be written.
        """
        rule: dict[str, JsonValue] = {**_described(self.selection.rule)}
        state, divide = self.work.state, self.work.divide
        recipe: dict[str, JsonValue] = {"round": state.id, "rule": rule}
        if factor != 1.0:
            recipe["factor"] = factor
        if divide is None:
            pieces = combine(self.selection, self.contributions, threads=self.work.threads)
        else:
            pieces = divide.combined(self.selection, self.collected.digests)
        return write_result(pieces, state.manifest, recipe, out, factor=factor)


def compute(work: Work) -> Computed:
    """Computes the result of a round.

    Raises:
        InputError: fewer contributions count than the quorum, or than the rule needs, or one was
            not measured that must be.
        StorageError: a file cannot be read or written.
    """
    chosen, state = choose(work), work.state
    refit = state.measured.refit
    if state.manifest.refit and refit is None:
        raise InputError(
            "result: expected a re-fit of its size, got none",
            hint=_measure(state),
            code="rounds.rescale_missing",
        )
    factor = refit.factor if refit else 1.0
    delta = chosen.write(work.folder / "result.safetensors", factor=factor)
    return _computed(chosen, delta)


def choose(work: Work) -> Chosen:
    """Returns which contributions count, and how much; see `compute`."""
    state = work.state
    candidates, products = candidates_of(work)
    collected = _without_refused(candidates, state)
    members = members_of(state, work.storage, collected.keys)
    collected = with_seats(collected, members, state)
    count = len(collected.deltas)
    if count < state.manifest.quorum:
        raise TooFewError(state.manifest, count, collected.refused)
    rule = state.manifest.rule(count)
    contributions = views_of(collected.deltas, state.manifest)
    counted = set(collected.keys)
    gram = gram_of(products, [row for row, key in enumerate(candidates.keys) if key in counted])
    claims = _given(rule, collected, state, members)
    selection = select(rule, contributions, claims, gram=gram, threads=work.threads)
    selection = with_cap(selection, collected, members, state.manifest)
    return Chosen(work, collected, contributions, selection, gram, members)


def candidates_of(work: Work) -> tuple[Collected, Gram]:
    """Returns the allowed contributions without copies, and their Gram matrix."""
    import numpy as np

    state = work.state
    if not kind_of(state.manifest).is_open:
        raise InputError(
            f"round {state.manifest.name}: expected a round whose contributions are public, got a "
            "private one",
            code="rounds.private_round",
        )
    collected = collect(state, work.storage, work.folder)
    if not collected.deltas:
        return collected, np.zeros((0, 0, 2), np.uint64)
    order = {key: number for number, key in enumerate(state.commits)}
    if work.divide is None:
        gram = views_of(collected.deltas, state.manifest).gram(threads=work.threads)
    else:
        gram = work.divide.gram(collected.digests)
    positions = [order[key] for key in collected.keys]
    names = [f"{key.fingerprint}, earlier in the log" for key in collected.keys]
    refused, products = without_copies(gram, positions, state.manifest.form, names)
    reasons = {collected.keys[row]: reason for row, reason in refused.items()}
    return collected.without(reasons), products


def _measure(state: State) -> str:
    manifest = state.manifest
    return (
        f"a key of role gate measures: {manifest.command('measure')}; if it is lost, the round's "
        f"maker can make it void: {manifest.command('void', '--because TEXT')}"
    )


def _without_refused(candidates: Collected, state: State) -> Collected:
    """Leaves out what failed the gate, by the records alone.

    Whatever became of its file since, and whether it is a copy, the reason is the one of the log.
    """
    if state.manifest.evaluation is None:
        return candidates
    missing = [key for key in candidates.keys if key not in state.measured.gates]
    if missing:
        raise InputError(
            f"round {state.manifest.name}: expected measurements of {len(candidates.keys)} "
            f"contributions, got none of {len(missing)}",
            hint=_measure(state),
            code="rounds.measurements_missing",
        )
    return candidates.without(state.gate_refusals)


def _given(rule: Rule, collected: Collected, state: State, members: Members) -> "F32 | None":
    import numpy as np

    what = takes_given(rule.method)
    if not what:
        return None
    if what == "reputations":
        none = Reputation()
        claims = [members.standings.get(key, none).value for key in collected.keys]
    else:
        claims = [state.reveals[key].examples for key in collected.keys]
    if not any(claims):
        expected = f"{rule.method.value}: expected {what} above 0, got none"
        raise NoResultError(state.manifest, expected, f"all {what} are 0", collected.refused)
    return np.array(claims, np.float32)


def _computed(chosen: Chosen, delta: Delta) -> Computed:
    from zoo.core import digest

    state, collected, selection = chosen.work.state, chosen.collected, chosen.selection
    refused = dict(collected.refused)
    refused |= {collected.keys[row]: reason for row, reason in selection.refused.items()}
    newcomers = chosen.members.newcomers
    weighing, stored = selection.weighing, describe(delta.path)[0]
    gram = chosen.gram.astype("<u8", copy=False).tobytes()
    standings = write_standings(_standings(chosen, refused))
    report = Report(
        round=state.id,
        rule=_described(selection.rule),
        contributions=[(key, state.reveals[key].digest) for key in collected.keys],
        refused=refused,
        weights=selection.weights,
        rest=0.0 if weighing is None else float(weighing.rest),
        refit=state.measured.refit.factor if state.measured.refit else None,
        paid_by=AUMANN_SHAPLEY if state.manifest.evaluation else BY_WEIGHT,
        points=_points(chosen, stored.digest),
        newcomers=None if newcomers is None else sorted(newcomers),
        standings=digest(standings),
        gram=digest(gram),
        result=stored,
    )
    return Computed(delta, report, gram, standings)


def _points(chosen: Chosen, result: str) -> dict[PublicKey, int]:
    """Shares the pool out: by what was measured, or without an evaluation set by weight."""
    state, keys = chosen.work.state, chosen.collected.keys
    if state.manifest.evaluation:
        worth = weighed_values(state, keys, result)
    else:
        worth = {
            key: Fraction(part) for key, part in zip(keys, chosen.selection.shares, strict=True)
        }
    terms = state.manifest.newcomers
    new = chosen.members.capped & worth.keys()
    return capped_points(worth, new, terms.share if terms else 1.0, state.manifest.pool)


def _standings(chosen: Chosen, refused: Mapping[PublicKey, str]) -> Standings:
    keys, members, state = chosen.collected.keys, chosen.members, chosen.work.state
    counted = [key for key in keys if key not in refused]
    if state.manifest.evaluation:
        quality = {key: float(share) for key, share in qualities(state, counted).items()}
    else:  # the weight against an equal part
        parts = dict(zip(keys, chosen.selection.shares, strict=True))
        quality = {key: min(1.0, parts[key] * len(counted)) for key in counted}
    failed = [key for key in refused if key not in members.left_out]
    return standings_after(members.standings, quality, refused=failed, unchanged=members.left_out)


def worse_than_one(state: State, report: Report) -> str | None:
    """Returns a warning if the result gains less than one of its contributions alone."""
    gate = state.measured.results.get(report.result.digest)
    gates = state.measured.gates
    alone = {key: gates[key].loss for key in report.counted if key in gates}
    means = {key: loss.mean for key, loss in alone.items() if loss is not None}
    if gate is None or not means:
        return None
    best = min(means, key=lambda key: means[key])
    if gate.base.mean <= means[best]:
        return None
    return (
        f"the result's loss is {below(gate.base.mean)} the base's, worse than that of "
        f"{best.fingerprint} alone, {below(means[best])}"
    )


def _described(rule: Rule) -> dict[str, str | int | bool]:
    return {"method": rule.method.value, "f": rule.f, "mixed": rule.mixes}
