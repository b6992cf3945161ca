"""`zoo-gym round contribute, reveal`: commits to a contribution, and sends it when that counts.

A commitment, which cannot be taken back, is sent once, and if the user agrees.
"""

from typing import TYPE_CHECKING

from zoo.gym.cli.options import Json, Offline, Switch, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.next_step import is_waiting
from zoo.gym.cli.round.options import (
    Named,
    Round,
    command,
    opened_round,
    refuse_without_effect,
    round_base,
)
from zoo.gym.cli.round.show import NOT_TAKEN, to_reveal
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.humanize import human_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from zoo.gym.rounds.session.contributing import Prepared
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.signing import PublicKey, Signed
    from zoo.models import Resolved


def contribute(
    source: str,
    /,
    *,
    round_: Round = None,
    base: str | None = None,
    examples: int | None = None,
    send: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Codes a fine-tune for a round and commits to it; its weights stay here until the reveal.

    Args:
        source: a run's id or last, a delta, a peft folder or a full model; of lessons a library's
            NAME, NAME@VERSION or file
        base: the base model's name or folder; by default the round's
        examples: how many examples it was trained on: the federated average weighs by it, and has
            your word alone; no other rule takes it
        send: commit; without it everything is prepared and nothing leaves
        yes: commit, and download, without asking
        offline: never use the network
    """
    from zoo.gym.rounds.kind import Request, kind_of
    from zoo.gym.rounds.session.contributing import has_sent
    from zoo.gym.signing import own_key

    out, opened = Output(as_json), opened_round(round_, offline=offline)
    kind = kind_of(opened.manifest)
    refuse_without_effect(kind, "contribute", {"base": base, "examples": examples})
    key = own_key()
    if has_sent(opened.state.id, but=key.public):  # which is lost, or elsewhere
        out.say("note: this machine has committed in this round with another key than yours now")
        out.say("what you send is a second contributor's; to be the first, restore its key")

    def its_base() -> "Resolved":
        if base is not None:
            _check_base_name(opened, base)
        return round_base(opened, base, yes=yes, offline=offline)

    def fine_tune() -> "Path":
        from zoo.gym.tuned.source import resolve_tuned

        return resolve_tuned(source).path

    given = Request(source, its_base, fine_tune, examples)
    own, entry, fields = kind.contribute(opened, given, key, out)
    receipt = _commit(opened, own, entry, kind.content, out, send=send, yes=yes)
    out.result(_sent(opened, receipt, own) | dict(fields))
    return 0


def _check_base_name(opened: "Opened", given: str) -> None:
    """Refuses another base by its name, before anything is downloaded."""
    from zoo.models.resolve import is_path, is_same_model

    named = opened.manifest.base.model
    if not is_path(given) and not is_same_model(named, given):
        raise InputError(
            f"--base: expected {named}, the base of the round, or a folder of it, got {given}",
            code="cli.other_base",
        )


def reveal(
    round_: Named = None, *, send: Switch = False, yes: Yes = False, as_json: Json = False
) -> int:
    """Sends the weights or lessons that you committed to, once nobody can commit any more.

    Args:
        send: send them; without it nothing leaves
        yes: send without asking
    """
    from zoo.gym.rounds.kind import kind_of
    from zoo.gym.rounds.session.contributing import receipt_of, send_reveal
    from zoo.gym.rounds.session.contributing import reveal as prepared
    from zoo.gym.rounds.session.known_rounds import remember_round
    from zoo.gym.signing import has_key, load_key

    out, opened = Output(as_json), opened_round(round_)
    if not has_key():
        raise NotAvailableError(
            "reveal: expected the key that you committed with, got none",
            hint="it is in the data folder of the machine where you ran: zoo-gym round contribute",
            code="cli.not_committed",
        )
    own, entry = prepared(opened, load_key())
    kind, size = kind_of(opened.manifest), human_bytes(own.bytes)
    what = f"{size} of {kind.sends} go to {opened.storage.address}"
    receipt = receipt_of(opened, entry)
    readers = ", where anybody with access reads them" if kind.is_open else ""
    if receipt and not send:
        out.say(f"revealed before in {opened.storage.address}: nothing was sent again")
    elif send or confirmed(f"{what}{readers}. Send? [y/N] ", yes=yes):
        receipt = send_reveal(own, entry, opened.storage)
        remember_round(opened, used=True)
        out.answer(f"revealed in {opened.storage.address}: {size}")
    else:
        out.say(f"nothing was sent. {what} with --send")
    out.result(_sent(opened, receipt, own))
    return 0


def _sent(opened: "Opened", receipt: str | None, own: "Prepared") -> dict[str, object]:
    """Returns for programs what was contributed, and the name of its entry if it was sent."""
    return {
        "round": opened.state.id,
        "receipt": receipt,
        "digest": own.digest,
        "bytes": own.bytes,
        "phase": opened.state.phase.value,
        "file": str(own.file),
        "address": opened.storage.address,
    }


def _commit(
    opened: "Opened",
    prepared: "Prepared",
    entry: "Signed",
    no: str,
    out: Output,
    *,
    send: bool,
    yes: bool,
) -> str | None:
    """Sends a commitment and returns its receipt, also of one that was sent before; or None."""
    from zoo.gym.rounds.session.contributing import receipt_of, send_commitment
    from zoo.gym.rounds.session.known_rounds import remember_round

    address = opened.storage.address
    what = f"A commitment (a hash, no {no}) goes to {address}."
    receipt = receipt_of(opened, entry)
    if done := _already(opened, entry.key):
        out.answer(done)
    elif receipt and not send:
        out.say(f"committed before in {address}: nothing was sent again")
    elif send or confirmed(f"{what} It cannot be taken back. Send? [y/N] ", yes=yes):
        receipt = send_commitment(prepared, entry, opened.storage)
        remember_round(opened, used=True)
        out.answer(
            f"committed in {address}; reveal it once this phase is closed, which is due at "
            f"{opened.state.deadline}: {command('show', opened)} says whether it is"
        )
    else:
        out.say(f"nothing was sent. {what} --send sends it")
    return receipt


def _already(opened: "Opened", key: "PublicKey") -> str | None:
    """Returns what to say to a contributor who committed in a phase that is over; or None."""
    from zoo.gym.rounds.protocol import objects
    from zoo.gym.rounds.protocol.state import Phase
    from zoo.gym.rounds.session.contributing import NOT_IN_TIME

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
