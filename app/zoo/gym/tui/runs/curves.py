"""The losses of several runs, for curves in lists; each log is read once and then followed."""

from collections.abc import Iterable

from zoo.gym.jobs import EventReader, Run, RunRow
from zoo.gym.paths import folders
from zoo.gym.tui.runs.history import History


class Curves:
    """Follows the logs of the runs that were named last."""

    def __init__(self) -> None:
        self._followed: dict[str, tuple[EventReader, History]] = {}

    def read(self, rows: Iterable[RunRow]) -> dict[str, list[float]]:
        """Returns the losses of each run by id; a log that cannot be read has none."""
        named = {row.id for row in rows}
        kept = {key: value for key, value in self._followed.items() if key in named}
        for run_id in named:
            reader, history = kept.setdefault(run_id, _new(run_id))
            try:
                events = reader.read()
            except OSError:
                continue
            if reader.restarted:
                history = History()
                kept[run_id] = reader, history
            history.take(events)
        self._followed = kept
        return {key: [loss for _, loss in history.losses] for key, (_, history) in kept.items()}


def _new(run_id: str) -> tuple[EventReader, History]:
    return EventReader(Run(folders().runs / run_id).events.path), History()
