"""`zoo-gym round aggregate, rewards`: the result that anybody can compute again, and its points."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Parameter

from zoo.gym.cli.ending import fail
from zoo.gym.cli.options import Json, Switch, Threads, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.options import Named, Positional, opened_round, refuse_without_effect
from zoo.gym.errors import GymError, InputError, NotAvailableError

if TYPE_CHECKING:
    from zoo.gym.rounds.kind import Choices
    from zoo.gym.rounds.session.opening import Opened

Result = TypeVar("Result")


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
        method: the rule that you expect; the round's terms have fixed it
        min_contributors: publish nothing with fewer reveals than this, or if fewer of them count in
            a round about weights that is not private
        ray: compute on a cluster of Ray: local, auto or HOST:PORT; a task takes as many processors
            as --threads says, by default one
        force: publish a private result even if its noise is larger than any signal; end a round
            of lessons before all keys have measured
        threads: how many threads; by default all, which changes no byte
        yes: make the round void without asking if too few contributions count, or none has weight
    """
    from zoo.gym.rounds.kind import Choices, kind_of
    from zoo.gym.signing import load_key

    out, opened = Output(as_json), opened_round(round_)
    _check_expected(opened, method, min_contributors)
    kind = kind_of(opened.manifest)
    typed: dict[str, object] = {"ray": ray, "threads": threads, "force": force}
    refuse_without_effect(kind, "aggregate", typed)
    choices = Choices(force, threads, ray, min_contributors or 0, yes)
    result = _or_void(partial(kind.publish, opened, load_key()), choices)
    fields, failure = kind.show(result, opened, out)
    if failure is not None:
        return fail(out, fields, GymError(failure, code="cli.round_void"))
    out.result(fields)
    return 0


def _check_expected(opened: "Opened", method: str | None, least: int | None) -> None:
    """Refuses a round with another rule, or fewer reveals, than the user expects."""
    manifest, found = opened.manifest, len(opened.state.reveals)
    if method is not None and method.replace("-", "_") != manifest.method:
        rule = f"{manifest.method}, the rule of round {manifest.name}"
        raise InputError(
            f"--method: expected {rule}, got {method}",
            hint="the terms cannot change: zoo-gym round create --method starts another round",
            code="cli.other_terms",
        )
    if least is not None and found < least:
        raise InputError(
            f"--min-contributors: expected at least {least}, got {found} of {least}",
            code="cli.other_terms",
        )


def _or_void(publish: "Callable[[Choices], Result]", choices: "Choices") -> Result:
    """Publishes a result; if none can come of the round, makes it void after a yes."""
    from zoo.gym.rounds.compute.collect import NoResultError

    try:
        return publish(choices)
    except NoResultError as error:
        asked = f"{error.message}: make the round void for good? [y/N] "
        if not confirmed(asked, yes=False):
            raise
    return publish(replace(choices, void=True))


def rewards(round_: Positional = None, /, *, as_json: Json = False) -> int:
    """Computes a published round again and shows how its points are shared out.

    By what each contribution was measured to gain, or the lessons that are kept of it; in a round
    without a gate by weight.

    Args:
        round_: its folder, address, name or id; by default the only one with a result
    """
    from zoo.gym.rounds.compute.publish import work_folder
    from zoo.gym.rounds.kind import kind_of
    from zoo.gym.signing import parse_key

    out, opened = Output(as_json), opened_round(round_, published=True)
    if opened.state.result is None:
        raise NotAvailableError(
            f"round {opened.manifest.name}: expected a published result, got phase "
            f"{opened.state.phase}",
            code="cli.no_result_yet",
        )
    rule, points = kind_of(opened.manifest).rewards(opened, work_folder(opened.state.id))
    for key, share in sorted(points.items(), key=lambda item: -item[1]):
        out.answer(f"{share:>8}  {parse_key(key).fingerprint}")
    shown = dict(sorted(points.items()))
    out.result({"pool": opened.manifest.pool, "rule": rule, "rewards": shown})
    return 0
