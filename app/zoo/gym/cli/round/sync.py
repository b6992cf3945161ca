"""`zoo-gym round sync, void`: what only the maker of a round does to its log."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.options import Json, Switch, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.next_step import is_past, until
from zoo.gym.cli.round.options import Named, Positional, opened_round
from zoo.gym.errors import NotAvailableError

if TYPE_CHECKING:
    from zoo.gym.rounds.session.opening import Opened


def sync(
    round_: Named = None, *, close: Switch = False, yes: Yes = False, as_json: Json = False
) -> int:
    """Adds what contributors left to the log of your round, and closes phases.

    Args:
        close: close the phase now, whatever its deadline is
        yes: do it without asking: close with too few contributors, even if that spends the
            extension before the deadline or makes the round void; write the log of a copy
    """
    from zoo.gym.rounds.session.writing import close_phase, take
    from zoo.gym.signing import load_key

    out, opened, key = Output(as_json), opened_round(round_), load_key()
    _check_copy(opened, yes=yes)
    taken = take(opened.storage, key)
    out.answer(f"added to the log: {len(taken.added)}")
    for name, reason in taken.refused:
        out.answer(f"refused {name}: {reason}")
    if close:
        _check_close(opened_round(round_), out, yes=yes)
        close_phase(opened.storage, key)
    now = opened_round(round_)
    out.answer(f"phase: {now.state.phase}{until(now)}")
    refused = [{"entry": name, "reason": reason} for name, reason in taken.refused]
    fields = {"round": now.state.id, "phase": now.state.phase.value, "added": len(taken.added)}
    out.result({**fields, "refused": refused})
    return 0


def _check_copy(opened: "Opened", *, yes: bool) -> None:
    """Asks before the log of a copy of a round is written: that of the original ends by it."""
    from zoo.gym.rounds.session.known_rounds import kept_address, remember_round
    from zoo.gym.rounds.storage.base import is_address

    kept, address = kept_address(opened.state.id), opened.storage.address
    if kept in {None, address} or is_address(str(kept)) or is_address(address):
        return  # a server's folder is the same as its address
    if not confirmed(f"{address} is a copy: the log is in {kept}. Write here? [y/N] ", yes=yes):
        raise NotAvailableError(
            f"{address}: expected the round's folder {kept}, where its log was written, got a copy",
            hint="copy its inbox and chunks there, and sync there; or go on in the copy with --yes",
            code="cli.is_copy",
        )
    remember_round(opened, used=True)


def _check_close(opened: "Opened", out: Output, *, yes: bool) -> None:
    """Says what closing a phase with too few contributors does, and asks before it does harm.

    An extension is spent before the deadline, or the round is void.
    """
    state = opened.state
    if not state.misses_quorum:
        return
    counts = state.too_few
    if state.phase in state.extended:
        what = "closing makes the round void for good"
    elif is_past(state.deadline):
        out.say(f"{counts}: the phase is extended, once; closed again, the round is void")
        return
    else:
        what = f"it is due at {state.deadline}, and closing now spends its only extension"
    if not confirmed(f"{counts}: {what}. Close? [y/N] ", yes=yes):
        raise NotAvailableError(
            f"{counts}: expected your consent, because {what}",
            hint="agree with --yes",
            code="cli.no_consent",
        )


def void(
    round_: Positional = None,
    /,
    *,
    because: Annotated[str, Parameter(name="--because", metavar="TEXT")],
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Makes your round void for good, whatever it waits for: it will have no result.

    The log keeps the reason. The key that opens the contributions of a private round is deleted.

    Args:
        round_: its folder, address, name or id; by default the only open one seen here
        because: the reason, in one line, which everybody reads
        yes: make it void without asking
    """
    from zoo.gym.rounds.kind import kind_of
    from zoo.gym.rounds.session.known_rounds import remember_round
    from zoo.gym.rounds.session.writing import void_round
    from zoo.gym.signing import load_key

    out, opened, key = Output(as_json), opened_round(round_), load_key()
    name = opened.manifest.name
    if opened.state.closed:
        raise NotAvailableError(
            f"round {name}: expected one that has not ended, got phase {opened.state.phase}",
            code="cli.round_ended",
        )
    if not confirmed(f"round {name}: make it void for good? [y/N] ", yes=yes):
        raise NotAvailableError(
            f"round {name}: expected your consent, because it will have no result",
            hint="agree with --yes",
            code="cli.no_consent",
        )
    state = void_round(opened.storage, key, because)
    remember_round(replace(opened, state=state))
    out.answer(f"round {name} is void: {because}")
    if note := kind_of(opened.manifest).void_note:
        out.answer(note)
    out.result({"round": state.id, "phase": state.phase.value, "reason": state.reason})
    return 0
