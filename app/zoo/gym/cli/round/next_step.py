"""What a round waits for from its contributors, its maker, and the keys that measure."""

import datetime as dt
from contextlib import suppress
from typing import TYPE_CHECKING

from zoo.gym.cli.round.options import command
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.signing import PublicKey


def until(opened: "Opened") -> str:
    """Returns until when a phase goes, or why a round is void."""
    state = opened.state
    if state.reason:
        return f": {state.reason}"
    if not state.deadline:
        return ""
    extended = " (extended)" if state.extended else ""
    late = "; that is past: the round's maker may close it any time"
    passed = late if is_past(state.deadline) else ""
    return f" until {state.deadline}{extended}{passed}"


def is_past(deadline: str | None) -> bool:
    """Returns whether a deadline was before now, on this machine's clock."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return deadline is not None and now > deadline


def next_step(opened: "Opened") -> str | None:
    """Returns the next command of this user in a round; None if there is none.

    Who has a key without a role, or none yet, may contribute.
    """
    from zoo.gym.rounds.protocol.state import Phase
    from zoo.gym.signing import has_key, load_key

    state, manifest = opened.state, opened.manifest
    if state.closed:
        return None
    key = load_key().public if has_key() else None
    is_maker, is_gate = key in manifest.keys_of("log"), key in manifest.keys_of("gate")
    if state.phase is Phase.COMPUTE and (is_maker or is_gate):
        return _to_compute(opened, is_maker=is_maker, is_gate=is_gate)
    if not is_maker:
        early = state.phase is Phase.COMMIT and not is_gate
        return _to_contribute(opened, key) if early else None
    if is_past(state.deadline):
        return f"next: {command('sync', opened, '--close')}"
    waiting = _waiting(opened)
    return f"next: {waiting} left in the inbox: {command('sync', opened)}" if waiting else None


def _to_contribute(opened: "Opened", key: "PublicKey | None") -> str | None:
    """Returns how this user commits, who has not; None if no seat is left."""
    from zoo.gym.rounds.kind import kind_of
    from zoo.gym.rounds.protocol import objects
    from zoo.gym.rounds.session.known_rounds import word_for

    state, manifest = opened.state, opened.manifest
    if key in state.commits or len(state.commits) >= manifest.most:
        return None
    if key is not None and is_waiting(opened, key, objects.COMMIT):
        return None
    word, kind = word_for(opened), kind_of(manifest)
    claims = " --examples N" if manifest.method == "federated_average" else ""
    sends = f"zoo-gym round contribute {kind.example} --round {word}{claims} --send"
    trains = f"zoo-gym train FILE round={word}, then " if kind.fixes_training else ""
    return f"next: {trains}{sends}"


def to_measure(opened: "Opened") -> str:
    """Returns the command by which a key of role gate measures, with all that it needs."""
    from zoo.gym.rounds.kind import kind_of
    from zoo.gym.rounds.measure.measure import with_inbox

    options = kind_of(opened.manifest).measure_options(opened.manifest, with_inbox(opened).measured)
    return command("measure", opened, options)


def _to_compute(opened: "Opened", *, is_maker: bool, is_gate: bool) -> str | None:
    from zoo.gym.rounds.kind import kind_of
    from zoo.gym.rounds.measure.measure import with_inbox
    from zoo.gym.signing import load_key

    state, own, kind = with_inbox(opened), load_key().public, kind_of(opened.manifest)
    has_measured, is_measured = own in state.measured.lessons, kind.is_measured(state)
    if is_gate and not has_measured and (kind.each_key_measures or not is_measured):
        return f"next: {to_measure(opened)}"
    if not is_maker:
        return None
    if is_measured:
        return f"next: {command('aggregate', opened)}"
    if has_measured:
        keys = counted(len(state.measured.lessons), "key")
        all_keys = len(state.manifest.keys_of("gate"))
        return f"next: others measure their part: {keys} of {all_keys} measured so far"
    return f"next: a key of role gate measures: {to_measure(opened)}"


def is_waiting(opened: "Opened", key: "PublicKey", context: str) -> bool:
    """Returns whether an entry of a key lies in the inbox."""
    from zoo.gym.rounds.session.opening import left_entries
    from zoo.gym.signing import Signed

    entries = [entry for _, entry in left_entries(opened.storage) if isinstance(entry, Signed)]
    return any(entry.key == key and entry.context == context for entry in entries)


def _waiting(opened: "Opened") -> int:
    """Returns how many entries in the inbox may follow."""
    from zoo.gym.rounds.session.opening import left_entries
    from zoo.gym.signing import Signed

    state, count = opened.state, 0
    for _, entry in left_entries(opened.storage, set(opened.entries)):
        if isinstance(entry, Signed):
            with suppress(InputError):
                state, count = state.after(entry), count + 1
    return count
