"""What a run's chart draws: its losses, another figure, or a figure beside that of another run.

The figures are read from its log from the first event on, which is then followed.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from zoo.gym.jobs import EventReader, Run
from zoo.gym.jobs.figures import figures_of
from zoo.gym.tui.runs.history import History, Point

if TYPE_CHECKING:
    from zoo.gym.tui.runs.chart import LossChart

LOSS = "train/loss"


class Charts:
    """The choice of what is drawn, and the logs that it needs.

    Args:
        run: the run of the screen.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.other: Run | None = None
        self.figure = LOSS
        self._series: Series | None = None
        self._other_series: Series | None = None

    def step(self, by: int) -> None:
        """Chooses the next figure; the first time, all figures are read."""
        if self._series is None:
            self._series = Series(self.run)
            self.read()
        self.figure = self._series.next_name(self.figure, by)

    def overlay(self, other: Run) -> None:
        """Draws another run beside this one; the same one again removes it."""
        is_same = self.other is not None and self.other.id == other.id
        self.other = None if is_same else other
        self._other_series = None if is_same else Series(other)
        self._series = self._series or Series(self.run)

    def read(self) -> None:
        """Takes what is new in the logs; one that cannot be read keeps what it had."""
        for series in (self._series, self._other_series):
            if series is not None:
                with suppress(OSError):
                    series.read()

    def draw(self, chart: "LossChart", history: History) -> None:
        """Draws what is chosen."""
        if self.other is None and self.figure == LOSS:
            chart.name_unit(history.loss_unit)
            chart.show(history.losses, history.held_out)
            return
        own = self._series.points.get(self.figure, []) if self._series else []
        other = self._other_series.points.get(self.figure, []) if self._other_series else []
        chart.name_figure(self.figure, self.run.id, self.other.id if self.other else "")
        chart.show(own, other, joined=True)


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
