"""Every figure of a run by step, read from its log from the first event on and then followed."""

from zoo.gym.jobs import EventReader, Run
from zoo.gym.jobs.figures import figures_of
from zoo.gym.tui.runs.history import Point


class Series:
    """The points of each figure by name: `train/loss`, `eval/loss`, `train/reward` ...

    Args:
        run: whose log is followed.
    """

    def __init__(self, run: Run) -> None:
        self.points: dict[str, list[Point]] = {}
        self._reader = EventReader(run.events.path)

    def read(self) -> None:
        """Takes what is new; steps that are trained again replace those before.

        Raises:
            OSError: the log cannot be read.
        """
        events = self._reader.read()
        if self._reader.restarted:
            self.points = {}
        for event in events:
            if (figures := figures_of(event)) is not None:
                for name, value in figures.values.items():
                    points = self.points.setdefault(name, [])
                    while points and points[-1][0] >= figures.step:
                        points.pop()
                    points.append((figures.step, value))

    def next_name(self, name: str, by: int) -> str:
        """Returns the figure that stands `by` places after another; training's come first."""
        names = sorted(self.points, key=lambda each: (not each.startswith("train/"), each))
        if not names:
            return name
        return names[(names.index(name) + by) % len(names)] if name in names else names[0]
