"""What a round waits for from its contributors, its maker, and the keys that measure."""

from typing import TYPE_CHECKING

from zoo.gym.cli.community.deadlines import is_past
from zoo.gym.cli.community.opened import command
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.rounds.protocol.state import State
    from zoo.gym.signing import PublicKey


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
        return f"next: {command('take', opened, '--close')}"
    waiting = _waiting(opened)
    return f"next: {waiting} left in the inbox: {command('take', opened)}" if waiting else None


def _to_contribute(opened: "Opened", key: "PublicKey | None") -> str | None:
    """Returns how this user commits, who has not; None if no seat is left."""
    from zoo.gym.rounds.life.places import word_for
    from zoo.gym.rounds.protocol import objects

    state, manifest = opened.state, opened.manifest
    if key in state.commits or len(state.commits) >= manifest.most:
        return None
    if key is not None and is_waiting(opened, key, objects.COMMIT):
        return None
    word = word_for(opened)
    what = "LIBRARY" if manifest.lessons else "last"
    claims = " --examples N" if manifest.method == "federated_average" else ""
    sends = f"zoo-gym round contribute {what} --round {word}{claims} --send"
    trains = "" if manifest.privacy is None else f"zoo-gym train FILE round={word}, then "
    return f"next: {trains}{sends}"


def to_measure(opened: "Opened") -> str:
    """Returns the command by which a key of role gate measures, with all that it needs."""
    from zoo.gym.rounds.measure.measure import with_inbox
    from zoo.gym.rounds.protocol.records import measure_options

    return command("measure", opened, measure_options(opened.manifest, with_inbox(opened).measured))


def _to_compute(opened: "Opened", *, is_maker: bool, is_gate: bool) -> str | None:
    from zoo.gym.rounds.measure.measure import with_inbox
    from zoo.gym.signing import load_key

    state, own = with_inbox(opened), load_key().public
    has_measured = own in state.measured.lessons
    if is_gate and state.manifest.lessons and not has_measured:
        return f"next: {to_measure(opened)}"
    if not _is_measured(state):
        if has_measured:
            keys = counted(len(state.measured.lessons), "key")
            all_keys = len(state.manifest.keys_of("gate"))
            said = f"next: others measure their part: {keys} of {all_keys} measured so far"
            return said if is_maker else None
        if is_gate:
            return f"next: {to_measure(opened)}"
        return f"next: a key of role gate measures: {to_measure(opened)}"
    return f"next: {command('aggregate', opened)}" if is_maker else None


def _is_measured(state: "State") -> bool:
    """Returns whether all records are there that a result needs.

    A result is measured after all contributions that are no copies and can be read.
    """
    measured, manifest = state.measured, state.manifest
    if manifest.lessons and len(measured.lessons) < manifest.lessons.least:
        return False
    if manifest.refit and measured.refit is None:
        return False
    if manifest.evaluation is None:
        return True
    failed = [one.refusal(manifest.evaluation.margin) for one in measured.results.values()]
    return any(failed) or bool(measured.values if manifest.pool else measured.results)


def is_waiting(opened: "Opened", key: "PublicKey", context: str) -> bool:
    """Returns whether an entry of a key lies in the inbox."""
    from zoo.gym.rounds.life.inbox import left_entries
    from zoo.gym.signing import Signed

    entries = [entry for _, entry in left_entries(opened.storage) if isinstance(entry, Signed)]
    return any(entry.key == key and entry.context == context for entry in entries)


def _waiting(opened: "Opened") -> int:
    """Returns how many entries in the inbox may follow."""
    from zoo.gym.rounds.life.inbox import left_entries
    from zoo.gym.signing import Signed

    state, found = opened.state, 0
    for _, entry in left_entries(opened.storage, set(opened.entries)):
        if not isinstance(entry, Signed):
            continue
        try:
            state = state.after(entry)
        except InputError:
            continue
        found += 1
    return found
