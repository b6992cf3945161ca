"""What a run's chart draws: its losses, another figure, or a figure beside that of another run."""

from contextlib import suppress
from typing import TYPE_CHECKING

from zoo.gym.jobs import Run
from zoo.gym.tui.runs.history import History
from zoo.gym.tui.runs.series import Series

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
