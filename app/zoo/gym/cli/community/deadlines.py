"""Until when a phase of a round goes."""

import datetime as dt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened


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
