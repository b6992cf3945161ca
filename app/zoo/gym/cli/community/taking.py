"""What `round take` asks before it does what cannot be undone."""

from typing import TYPE_CHECKING

from zoo.gym.cli.community.deadlines import is_past
from zoo.gym.cli.options import confirmed
from zoo.gym.cli.output import Output
from zoo.gym.errors import NotAvailableError

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened


def check_copy(opened: "Opened", *, yes: bool) -> None:
    """Asks before the log of a copy of a round is written: that of the original ends by it.

    Raises:
        NotAvailableError: the user does not agree.
    """
    from zoo.gym.rounds.life.places import kept_address, remember_place
    from zoo.gym.rounds.storage.address import is_address

    kept, address = kept_address(opened.state.id), opened.storage.address
    if kept in {None, address} or is_address(str(kept)) or is_address(address):
        return  # a server's folder is the same as its address
    if not confirmed(f"{address} is a copy: the log is in {kept}. Write here? [y/N] ", yes=yes):
        raise NotAvailableError(
            f"{address}: expected the round's folder {kept}, where its log was written, got a copy",
            hint="copy its inbox and chunks there, and take there; or go on in the copy with --yes",
        )
    remember_place(opened, used=True)


def check_close(opened: "Opened", out: Output, *, yes: bool) -> None:
    """Says what closing a phase with too few contributors does, and asks before it does harm.

    An extension is spent before the deadline, or the round is void.

    Raises:
        NotAvailableError: the user does not agree.
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
            f"{counts}: expected your consent, because {what}", hint="agree with --yes"
        )
