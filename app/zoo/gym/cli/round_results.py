"""`zoo-gym round aggregate, rewards, verify`: results that anybody can compute again."""

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.communities import Given, Named
from zoo.gym.cli.community.lessons import LESSONS, aggregate_lessons, rewards_of_lessons
from zoo.gym.cli.community.opened import command, opened_round, round_base
from zoo.gym.cli.community.options import refuse_given
from zoo.gym.cli.community.shares import LEFT_OUT, left_out
from zoo.gym.cli.community.voiding import or_void
from zoo.gym.cli.delta import BROKEN
from zoo.gym.cli.ending import fail
from zoo.gym.cli.options import Json, Offline, Switch, Threads, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.round_private import aggregate_private, rewards_private
from zoo.gym.config.items import existing
from zoo.gym.errors import (
    DoesNotFitError,
    GymError,
    InputError,
    NotAvailableError,
    StorageError,
    exit_code,
)
from zoo.gym.humanize import counted, human_bytes
from zoo.gym.paths import given_path
from zoo.gym.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zoo.gym.rounds.compute.aggregate import Computed
    from zoo.gym.rounds.compute.checks import Check
    from zoo.gym.rounds.compute.report import Report
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.rounds.protocol.state import State


def aggregate(
    round_: Named = None,
    *,
    method: Annotated[str | None, Parameter(name="--method")] = None,
    min_contributors: int | None = None,
    ray: Annotated[str | None, Parameter(name="--ray", metavar="CLUSTER")] = None,
    force: Switch = False,
    threads: Threads = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Computes the result of your round from what was revealed, and publishes it.

    Args:
        round_: the round's folder, address, name or id, also by --round; by default the only open
            one seen here
        method: the rule that you expect; the round's terms have fixed it
        min_contributors: publish nothing with fewer reveals than this, or if fewer of them count in
            a round about weights that is not private
        ray: compute on a cluster of Ray: local, auto or HOST:PORT; a task takes as many processors
            as --threads says, by default one
        force: publish a private result even if its noise is larger than any signal; end a round
            of lessons before all keys have measured
        threads: how many threads; by default all, which changes no byte
        yes: make the round void without asking if too few contributions count, or none has weight
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.compute.on_ray import dividing_on_ray
    from zoo.gym.rounds.compute.publish import publish
    from zoo.gym.signing import load_key

    out, opened = Output(as_json), opened_round(round_)
    _check_expected(opened, method, min_contributors)
    if opened.manifest.kind == "experience":
        typed: dict[str, object] = {"ray": ray, "threads": threads}
        return aggregate_lessons(opened, typed, out, force=force, yes=yes)
    if opened.manifest.privacy is not None:
        return aggregate_private(opened, out, ray=ray, force=force, threads=threads, yes=yes)
    if force:
        raise InputError("--force: has no effect in a round that is neither private nor of lessons")
    dividing = None
    if ray is not None:
        address = opened.storage.address
        dividing = partial(dividing_on_ray, cluster=ray, address=address, threads=threads)
    act = partial(publish, opened.storage, load_key(), threads=threads, dividing=dividing)
    computed = or_void(partial(act, least=min_contributors or 0), yes=yes)
    return _show(computed, opened, out)


def _show(computed: "Computed", opened: "Opened", out: Output) -> int:
    """Prints a result that was published."""
    from zoo.gym.rounds.life.opening import open_round
    from zoo.gym.rounds.measure.figures import probe_lines

    found = computed.report
    gated = opened.manifest.evaluation is not None  # records are taken with the result
    taken = open_round(opened.storage).state if gated else opened.state
    warnings = _warnings(found, taken)
    out.answer(
        f"result {found.result.digest[:12]}, {human_bytes(found.result.bytes)}: "
        f"{counted(len(found.contributions), 'contribution')}, {found.rule['method']} with f = "
        f"{found.rule['f']}"
    )
    if found.refit is not None:
        out.answer(f"re-fit: the change times {found.refit:g}")
    measured = taken.measured.results.get(found.result.digest)
    for line in [] if measured is None else probe_lines(measured):
        out.answer(line)
    for key, reason in found.refused.items():
        out.answer(f"refused {key.fingerprint}: {reason}")
    for key in left_out(found):
        out.answer(f"{LEFT_OUT}, weight 0: {key.fingerprint}")
    out.answer(f"the result is a delta: zoo-gym delta apply {computed.delta.path}")
    for warning in warnings:
        out.say(f"note: {warning}")
    keys = [str(key) for key, _ in found.contributions]
    weights = None if found.weights is None else dict(zip(keys, found.weights, strict=True))
    out.result(
        {
            "result": str(computed.delta.path),
            "digest": found.result.digest,
            "rule": found.rule["method"],
            "f": found.rule["f"],
            "weights": weights,
            "refused": [{"contributor": str(k), "reason": r} for k, r in found.refused.items()],
            "refit": found.refit,
            "warnings": warnings,
        }
    )
    return 0


def _warnings(found: "Report", state: "State") -> list[str]:
    from zoo.gym.rounds.compute.aggregate import worse_than_one
    from zoo.gym.rounds.compute.members import fill_quorum
    from zoo.gym.rounds.measure.figures import probe_warnings

    warnings = [] if found.rule["f"] else ["the rule withstands no malicious contributor"]
    if found.rule["method"] == "federated_average":
        warnings.append("contributors are weighed by the numbers of examples that they name")
    if found.newcomers is None:
        warnings.append("all keys are new: there is no cap on newcomers")
    if fill_quorum(found, state.manifest):
        warnings.append("newcomers fill up the quorum: they have more than their share of seats")
    worse = worse_than_one(state, found)
    warnings += [worse] if worse else []
    measured = state.measured.results.get(found.result.digest)
    return warnings if measured is None else [*warnings, *probe_warnings(measured)]


def _check_expected(opened: "Opened", method: str | None, least: int | None) -> None:
    """Refuses a round with another rule, or fewer reveals, than the user expects."""
    manifest, found = opened.manifest, len(opened.state.reveals)
    if method is not None and method.replace("-", "_") != manifest.method:
        raise InputError(
            f"--method: expected {manifest.method}, the rule of round {manifest.name}, got "
            f"{method}",
            hint="the terms cannot change: zoo-gym round create --method starts another round",
        )
    if least is not None and found < least:
        raise InputError(f"--min-contributors: expected at least {least}, got {found} of {least}")


def rewards(round_: Given = None, /, *, as_json: Json = False) -> int:
    """Computes a published round again and shows how its points are shared out.

    By what each contribution was measured to gain, or the lessons that are kept of it; in a round
    without a gate by weight.

    Args:
        round_: its folder, address, name or id; by default the only one with a result
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.compute.aggregate import compute
    from zoo.gym.rounds.compute.publish import work_folder

    out, opened = Output(as_json), opened_round(round_, published=True)
    if opened.state.result is None:
        raise NotAvailableError(
            f"round {opened.manifest.name}: expected a published result, got phase "
            f"{opened.state.phase}"
        )
    if opened.manifest.kind == "experience":
        return rewards_of_lessons(opened, out)
    if opened.manifest.privacy is not None:
        return rewards_private(opened, out)
    report = compute(opened.state, opened.storage, work_folder(opened.state.id)).report
    if report.result.digest != opened.state.result:
        raise InputError(
            f"round {opened.manifest.name}: expected the published result, computed another one",
            hint=f"{command('verify', opened)} shows what differs",
        )
    for key, points in sorted(report.points.items(), key=lambda item: -item[1]):
        out.answer(f"{points:>8}  {key.fingerprint}")
    shown = {str(key): points for key, points in sorted(report.points.items())}
    out.result({"pool": opened.manifest.pool, "rule": report.paid_by, "rewards": shown})
    return 0


def verify(
    round_: Given = None,
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
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.compute.publish import work_folder
    from zoo.gym.rounds.compute.verify import kept_head_check
    from zoo.gym.rounds.compute.verify import verify as checks_of

    out, opened = Output(as_json), opened_round(round_, offline=offline, published=True)
    folder = work_folder(opened.state.id)
    if opened.manifest.kind == "experience":
        typed = {"measure": measure, "previous": previous, "base": base, "threads": threads}
        refuse_given(typed, LESSONS)
    if measure and opened.manifest.privacy is not None:
        raise InputError("--measure: has no effect in a private round, which no gate measures")
    for name, given in (("base", base), ("previous", previous)):
        if given is not None and not measure:
            raise InputError(f"--{name}: has no effect without --measure")
    steps = [checks_of(opened, folder, threads=threads)]
    if measure and not (opened.manifest.evaluation or opened.manifest.refit):
        raise InputError("--measure: has no effect in a round without a gate")
    found = opened.state.measured
    if measure and opened.state.result is None and not (found.results or found.gates):
        steps.append(iter([_nothing_measured(opened)]))
    elif measure:
        from zoo.gym.rounds.measure.repeat import repeated

        model = round_base(opened, base, yes=yes, offline=offline)
        last = None if previous is None else existing(previous, "the last result")
        steps.append(repeated(opened, folder, model.folder, previous=last, threads=threads))
    if head is not None:
        steps.insert(0, iter([kept_head_check(opened, given_path(head))]))
    return _report_checks(chain.from_iterable(steps), opened, out)


def _nothing_measured(opened: "Opened") -> "Check":
    from zoo.gym.rounds.compute.checks import Check

    said = f"the round is in phase {opened.state.phase}: no result was measured"
    return Check("measured figures", said, ok=None)


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
        counts = [len([one for one in checks if one.ok is state]) for state in (True, False)]
        out.answer(f"{counts[0]} checks hold, {counts[1]} failed: {_verdict(checks, opened)}")
        out.result(answer)
        return BROKEN if broken else 0
    return fail(out, answer, failure.message, failure.hint, exit_code(failure))


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
