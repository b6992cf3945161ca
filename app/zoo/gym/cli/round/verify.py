"""`zoo-gym round verify`: computes a round again and compares every byte."""

from itertools import chain
from typing import TYPE_CHECKING

from zoo.gym.cli.ending import fail
from zoo.gym.cli.options import Json, Offline, Switch, Threads, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.options import (
    Positional,
    command,
    opened_round,
    refuse_given,
    refuse_without_effect,
    round_base,
)
from zoo.gym.config.items import existing
from zoo.gym.errors import DoesNotFitError, GymError, InputError, StorageError
from zoo.gym.paths import given_path
from zoo.gym.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zoo.gym.rounds.compute.verify import Check
    from zoo.gym.rounds.session.opening import Opened

BROKEN = 2
"""Exit code of a round that differs from its report."""


def verify(
    round_: Positional = None,
    /,
    *,
    measure: Switch = False,
    previous: str | None = None,
    head: str | None = None,
    base: str | None = None,
    threads: Threads = None,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Computes a round again from its log and files, and compares every byte.

    Args:
        round_: its folder, address, name or id; by default the only one with a result
        measure: load the model and repeat what the gate measured, too, to 1e-3 nats
        previous: the file of the last result, with --measure, if the round's terms name one
        head: a file that round anchor kept: the log must continue it
        base: the base model's name or folder, with --measure; by default the round's
        threads: how many threads; by default all
        yes: download without asking
        offline: never use the network
    """
    from zoo.gym.rounds.compute.publish import work_folder
    from zoo.gym.rounds.compute.verify import Check, kept_head_check
    from zoo.gym.rounds.compute.verify import verify as checks_of
    from zoo.gym.rounds.kind import kind_of

    out, opened = Output(as_json), opened_round(round_, offline=offline, published=True)
    folder = work_folder(opened.state.id)
    typed = {"measure": measure, "previous": previous, "base": base, "threads": threads}
    refuse_without_effect(kind_of(opened.manifest), "verify", typed)
    if not measure:
        refuse_given({"base": base, "previous": previous}, "without --measure")
    steps = [checks_of(opened, folder, threads=threads)]
    if measure and not (opened.manifest.evaluation or opened.manifest.refit):
        raise InputError("--measure: has no effect in a round without a gate", code="cli.no_effect")
    found = opened.state.measured
    if measure and opened.state.result is None and not (found.results or found.gates):
        said = f"the round is in phase {opened.state.phase}: no result was measured"
        steps.append(iter([Check("measured figures", said, ok=None)]))
    elif measure:
        from zoo.gym.rounds.measure.repeat import repeated

        model = round_base(opened, base, yes=yes, offline=offline)
        last = None if previous is None else existing(previous, "the last result")
        steps.append(repeated(opened, folder, model.folder, previous=last, threads=threads))
    if head is not None:
        steps.insert(0, iter([kept_head_check(opened, given_path(head))]))
    return _report_checks(chain.from_iterable(steps), opened, out)


def _report_checks(steps: "Iterator[Check]", opened: "Opened", out: Output) -> int:
    """Makes the checks, shows each and returns the exit code.

    Where a storage fails, or this machine, no more is said of the round: the command ends with that
    error, unless a check has failed before.
    """
    checks: list[Check] = []
    failure: GymError | None = None
    try:
        for check in steps:
            checks.append(check)
            mark = {True: "ok", False: "FAILED", None: "not checked"}[check.ok]
            out.answer(f"{mark:<12}{check.name}: {one_line(check.detail)}")
    except (StorageError, DoesNotFitError) as error:
        failure = error
        out.answer(f"{'not checked':<12}all else: {error.message}")
    broken = any(check.ok is False for check in checks)
    passed = not broken and failure is None
    answer = {
        "checks": [vars(one) for one in checks],
        "recomputed": any(check.name == "result" and check.ok for check in checks),
        "passed": None if passed and opened.state.result is None else passed,
    }
    if failure is None or broken:
        hold, failed = (sum(check.ok is state for check in checks) for state in (True, False))
        out.answer(f"{hold} checks hold, {failed} failed: {_verdict(checks, opened)}")
        out.result(answer)
        return BROKEN if broken else 0
    return fail(out, answer, failure)


def _verdict(checks: "list[Check]", opened: "Opened") -> str:
    broken = any(check.ok is False for check in checks)
    if opened.state.phase == "void":
        return f"the round is void, {'but not as it says' if broken else 'there is no result'}"
    if broken:
        return "do not use the result"
    if opened.state.result is None:
        return "there is no result yet"
    if not any(check.name == "result" and check.ok for check in checks):
        return "nothing was computed again"
    return f"whoever recomputes it gets this result; {command('apply', opened)} uses it"
