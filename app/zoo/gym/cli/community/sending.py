"""Sends a commitment to a round, which cannot be taken back, once, and if the user agrees."""

from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.cli.community.next_step import is_waiting
from zoo.gym.cli.community.opened import command
from zoo.gym.cli.community.showing import NOT_TAKEN, to_reveal
from zoo.gym.cli.options import confirmed
from zoo.gym.cli.output import Output

if TYPE_CHECKING:
    from zoo.gym.rounds.life.contributing import Own
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.signing import PublicKey, Signed


def commit(
    opened: "Opened", own: "Own", entry: "Signed", no: str, out: Output, *, send: bool, yes: bool
) -> str | None:
    """Sends a commitment and returns its receipt, also of one that was sent before; or None.

    Args:
        opened: the round.
        own: what is contributed.
        entry: the signed commitment to it.
        no: what does not leave the machine yet, such as `weights`.
        out: shows what is done.
        send: send it without asking.
        yes: as `send`.
    """
    from zoo.gym.rounds.life.contributing import receipt_of, send_commitment
    from zoo.gym.rounds.life.places import remember_place

    address = opened.storage.address
    what = f"A commitment (a hash, no {no}) goes to {address}."
    receipt = receipt_of(opened, entry)
    if done := _already(opened, entry.key):
        out.answer(done)
    elif receipt and not send:
        out.say(f"committed before in {address}: nothing was sent again")
    elif send or confirmed(f"{what} It cannot be taken back. Send? [y/N] ", yes=yes):
        receipt = send_commitment(own, entry, opened.storage)
        remember_place(opened, used=True)
        out.answer(
            f"committed in {address}; reveal it once this phase is closed, which is due at "
            f"{opened.state.deadline}: {command('show', opened)} says whether it is"
        )
    else:
        out.say(f"nothing was sent. {what} --send sends it")
    return receipt


def _already(opened: "Opened", key: "PublicKey") -> str | None:
    """Returns what to say to a contributor who committed in a phase that is over; or None."""
    from zoo.gym.rounds.life.contributing import NOT_IN_TIME
    from zoo.gym.rounds.protocol import objects
    from zoo.gym.rounds.protocol.state import Phase

    state = opened.state
    if key not in state.commits or state.phase is Phase.COMMIT:
        return None
    if key in state.reveals:
        return "you committed and revealed already"
    if state.phase is Phase.REVEAL:
        if is_waiting(opened, key, objects.REVEAL):
            return f"you committed and revealed already; {NOT_TAKEN}"
        return f"you committed already; reveal now: {to_reveal(opened)}"
    if state.phase is Phase.VOID:
        return "you committed already, and the round is void"
    return NOT_IN_TIME


def say_kept(opened: "Opened", source: Path, base: Path, out: Output) -> None:
    """Says what form signs keeps of an adapter, which rounds of form lowrank take as it is."""
    from zoo.gym.rounds.contribution.kept import kept_of_adapter

    kept = kept_of_adapter(source, base, opened.manifest)
    if kept is not None:
        out.say(f"note: form signs keeps {kept:.0%} of this adapter's change (of its squared norm)")
        out.say("its result may be much worse; a round of form lowrank takes adapters as they are")


def warn_of_other_key(opened: "Opened", key: "PublicKey", out: Output) -> None:
    """Warns a user who committed in this round with another key, which is lost or elsewhere."""
    from zoo.gym.rounds.life.contributing import has_sent

    if has_sent(opened.state.id, but=key):
        out.say("note: this machine has committed in this round with another key than yours now")
        out.say("what you send is a second contributor's; to be the first, restore its key")
