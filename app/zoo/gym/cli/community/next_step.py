"""What a round waits for from the keys of its terms: its maker, and those that measure."""

from typing import TYPE_CHECKING

from zoo.gym.cli.community.deadlines import is_past
from zoo.gym.cli.community.opened import command
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.rounds.protocol.state import State


def next_step(opened: "Opened") -> str | None:
    """Returns the next command of this user as maker or gate of a round; None if there is none."""
    from zoo.gym.rounds.protocol.state import Phase
    from zoo.gym.signing import has_key, load_key

    state, manifest = opened.state, opened.manifest
    if state.closed or not has_key():
        return None
    key = load_key().public
    is_maker, is_gate = key in manifest.keys_of("log"), key in manifest.keys_of("gate")
    if state.phase is Phase.COMPUTE and (is_maker or is_gate):
        return _to_compute(opened, is_maker=is_maker, is_gate=is_gate)
    if not is_maker:
        return None
    if is_past(state.deadline):
        return f"next: {command('take', opened, '--close')}"
    waiting = _waiting(opened)
    return f"next: {waiting} left in the inbox: {command('take', opened)}" if waiting else None


def _to_compute(opened: "Opened", *, is_maker: bool, is_gate: bool) -> str | None:
    from zoo.gym.rounds.measure.measure import with_inbox
    from zoo.gym.signing import load_key

    state, own = with_inbox(opened), load_key().public
    waits = is_gate and state.manifest.lessons and own not in state.measured.lessons
    if waits or not _is_measured(state):
        if is_gate:
            return f"next: {command('measure', opened)}"
        return f"next: a key of role gate measures: {command('measure', opened)}"
    return f"next: {command('aggregate', opened)}" if is_maker else None


def _is_measured(state: "State") -> bool:
    """Returns whether all records are there that a result needs."""
    measured, manifest = state.measured, state.manifest
    if manifest.lessons and len(measured.lessons) < manifest.lessons.least:
        return False
    if manifest.refit and measured.refit is None:
        return False
    if manifest.evaluation is None:
        return True
    if not measured.results or any(key not in measured.gates for key in state.accepted):
        return False
    failed = [one.refusal(manifest.evaluation.margin) for one in measured.results.values()]
    return any(failed) or not manifest.pool or bool(measured.values)


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
