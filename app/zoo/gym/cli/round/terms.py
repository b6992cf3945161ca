"""The terms of `zoo-gym round create`: what is measured, and what earlier rounds say."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.cli.round.options import (
    GateOptions,
    LessonOptions,
    known_key,
    known_keys,
    opened_round,
    refuse_given,
)
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError, NotAvailableError

if TYPE_CHECKING:
    from zoo.gym.rounds.protocol.lessons import Lessons
    from zoo.gym.rounds.protocol.manifest import Evaluation, Newcomers
    from zoo.gym.rounds.protocol.records import Purpose
    from zoo.gym.rounds.session.terms import MeasuredTerms
    from zoo.gym.signing import PublicKey

DEFAULT_RANK = 64
PRIVATE_RANK = 8
"""The noise of a private round grows with the square root of the rank."""


def seconds_of(commit_days: float, reveal_days: float) -> tuple[int, int]:
    """Returns the length of both phases in seconds."""
    from zoo.gym.rounds.session.terms import DAY_S

    for option, days in (("--commit-days", commit_days), ("--reveal-days", reveal_days)):
        if not 1 <= days * DAY_S < 10_000 * DAY_S:
            raise InputError(
                f"{option}: expected a number of days above 0, a second or more, got {days}",
                code="cli.bad_value",
            )
    return round(commit_days * DAY_S), round(reveal_days * DAY_S)


def rank_of(rank: int | None, form: str, *, private: bool) -> int:
    """Returns the largest rank of an adapter, which only form lowrank reads."""
    if rank is None:
        return PRIVATE_RANK if private else DEFAULT_RANK
    if form != "lowrank":
        raise InputError(f"--rank: expected none in form {form}, got {rank}", code="cli.no_effect")
    return rank


def newcomers_after(
    after: str | None, rounds: int | None, share: float | None
) -> "tuple[Newcomers | None, bytes | None]":
    """Returns the cap on newcomers, and the standings that an earlier, verified round ended with.

    Without an earlier round there are neither.
    """
    from zoo.core import digest
    from zoo.gym.rounds.compute.applying import refuse_unverified
    from zoo.gym.rounds.compute.publish import work_folder
    from zoo.gym.rounds.compute.verify import published_report
    from zoo.gym.rounds.kind import kind_of
    from zoo.gym.rounds.protocol.manifest import Newcomers
    from zoo.gym.rounds.session.newcomers import new_nonce
    from zoo.gym.rounds.storage.chunks import read_chunk

    if after is None:
        refuse_given({"newcomers_rounds": rounds, "newcomers_share": share}, "without --after")
        return None, None
    if rounds is not None and not 1 <= rounds <= 1000:
        raise InputError(
            f"--newcomers-rounds: expected 1 to 1000 accepted rounds, got {rounds}",
            hint="with --newcomers-share 1 newcomers may have all seats, weight and points",
            code="cli.bad_value",
        )
    if share is not None and not 0 < share <= 1:
        raise InputError(
            f"--newcomers-share: expected a share above 0, up to 1, got {share}",
            code="cli.bad_value",
        )
    earlier = opened_round(after)
    kind_of(earlier.manifest).refuse_as_earlier(earlier.manifest)
    if earlier.state.result is None:
        raise NotAvailableError(
            f"--after: expected a round with a published result, got phase {earlier.state.phase}",
            code="cli.no_result_yet",
        )
    refuse_unverified(earlier, work_folder(earlier.state.id))  # the maker could write any standings
    content = read_chunk(earlier.storage, str(published_report(earlier)["standings"]))
    rounds, share = 3 if rounds is None else rounds, 0.2 if share is None else share
    standings, nonce = digest(content), new_nonce()
    return Newcomers(rounds=rounds, share=share, standings=standings, nonce=nonce), content


def lesson_terms(
    given: LessonOptions, gate: Sequence[str]
) -> "tuple[Lessons, tuple[PublicKey, ...]]":
    """Returns which lessons a round keeps, and the keys of `--gate` that measure them."""
    from zoo.gym.experience.library.library import MOST_ITEMS
    from zoo.gym.experience.sharing.limits import MOST_OF_ONE
    from zoo.gym.rounds.protocol.lessons import Lessons

    least = 2 if given.least is None else given.least
    most = MOST_OF_ONE if given.most is None else given.most
    items = MOST_ITEMS if given.items is None else given.items
    gates = known_keys("--gate", gate)
    if not gates:
        raise InputError(
            "--gate: expected the keys that measure lessons, got none", code="cli.missing_argument"
        )
    for option, value, largest in (
        ("--least", least, len(gates)),
        ("--most", most, MOST_ITEMS),
        ("--items", items, MOST_ITEMS),
    ):
        if not 1 <= value <= largest:
            raise InputError(
                f"{option}: expected 1 to {largest}, got {value}", code="cli.bad_value"
            )
    return Lessons(least=least, clear=given.clear, most=most, items=items), gates


def measured_terms(
    given: GateOptions, gates: Sequence[str], own: "PublicKey"
) -> "MeasuredTerms | None":
    """Returns what `round create` promises to measure, by default with the maker's own key.

    None if nothing is measured.
    """
    from zoo.gym.rounds.measure.examples import promised_digest
    from zoo.gym.rounds.session.terms import MeasuredTerms
    from zoo.gym.rounds.storage.chunks import describe

    refit, previous = (existing(file) if file else None for file in (given.refit, given.previous))
    if given.evaluation is None:
        refuse_given(vars(replace(given, refit=None)), "without --evaluation")
    if given.evaluation is None and refit is None:
        refuse_given({"gate": tuple(gates)}, "without --evaluation or --refit")
        return None
    if len(gates) > 1:
        raise InputError(
            f"--gate: expected one key in a round about weights, got {len(gates)}",
            code="cli.bad_value",
        )
    return MeasuredTerms(
        known_key(gates[0]) if gates else own,
        _evaluation(given),
        None if refit is None else promised_digest(refit),
        None if previous is None else describe(previous)[0].digest,
    )


def _evaluation(given: GateOptions) -> "Evaluation | None":
    """Returns the terms of an evaluation, whose files have been read; None without one."""
    from zoo.gym.rounds.measure.examples import promised_digest
    from zoo.gym.rounds.protocol.manifest import Evaluation

    if given.evaluation is None:
        return None
    evaluation = existing(given.evaluation)
    margin = 0.0 if given.margin is None else given.margin
    threshold = 0.8 if given.quality_threshold is None else given.quality_threshold
    if not 0 <= margin <= 10:
        raise InputError(f"--margin: expected 0 to 10 nats, got {margin}", code="cli.bad_value")
    if not 0 <= threshold <= 1:
        raise InputError(
            f"--quality-threshold: expected 0 to 1, got {threshold}", code="cli.bad_value"
        )
    return Evaluation(
        digest=promised_digest(evaluation),
        bytes=evaluation.stat().st_size,
        margin=margin,
        quality_threshold=threshold,
        validator=None if given.validator is None else _validator(given.validator),
        refusals=_probes(given.refusals, "refusals"),
        triggers=_probes(given.triggers, "triggers"),
    )


def _validator(name: str) -> str:
    """Returns the name of a function that the gate, and nobody before it, imports."""
    from zoo.gym.rounds.protocol.objects import as_function

    try:
        return as_function(name)
    except ValueError as error:
        raise InputError(
            f"--validator: {error}",
            hint="--validator checks:ours is the function ours of checks.py, which whoever "
            "measures has in the folder of the command",
            code="cli.bad_value",
        ) from None


def _probes(given: str | None, purpose: "Purpose") -> str | None:
    """Returns the SHA-256 of a file of prompts, after it was read; None without one."""
    from zoo.gym.rounds.measure.examples import promised_digest
    from zoo.gym.rounds.measure.probes import read_probes

    if given is None:
        return None
    file = existing(given)
    read_probes(file, purpose)
    return promised_digest(file)


def check_measured(measured: GateOptions, base: Path) -> None:
    """Refuses files with which a gate could not measure contributions to a base."""
    from zoo.gym.rounds.measure.measure import check_last_result, check_usable
    from zoo.gym.rounds.protocol.records import PURPOSES

    for purpose in PURPOSES:
        if (file := getattr(measured, purpose)) is not None:
            check_usable(existing(file), purpose, base)
    if measured.previous is not None:
        check_last_result(existing(measured.previous), base)
