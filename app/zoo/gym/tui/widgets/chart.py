"""The chart of a run: the only file that knows plotext."""

from collections.abc import Sequence
from typing import ClassVar

from textual_plotext import PlotextPlot

from zoo.gym.tui.history import Point, all_losses, thinned

MOST_POINTS = 400
"""More points than a wide terminal can show."""

LEGEND = "[$primary]\u2812\u2824[/] training loss  [$accent]x[/] held-out loss  {}by step"
"""The marks of both curves in their colours, and the units of the axes."""

_TICKS = 5
_MARGIN = 0.05


class LossChart(PlotextPlot):
    """Training loss as a dotted line, held-out loss as crosses; a single number is drawn too."""

    DEFAULT_CSS: ClassVar[str] = """
    LossChart { border: round $panel-lighten-2; border-title-color: $foreground; min-height: 6; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.curves: tuple[Sequence[Point], Sequence[Point]] = ((), ())
        # in the border: a legend inside the plot would cover the curve
        self.border_title = LEGEND.format("nats per token, ")

    def on_mount(self) -> None:
        """Draws the curves again in the colours of another theme."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.show(*self.curves))

    def on_resize(self) -> None:
        """Draws the chart again: how many labels the axis has depends on the height."""
        self.show(*self.curves)

    def name_unit(self, unit: str) -> None:
        """Names the unit of the losses, if they have one."""
        self.border_title = LEGEND.format(f"{unit}, " if unit else "")

    def show(self, losses: Sequence[Point], held_out: Sequence[Point]) -> None:
        """Draws both curves in full."""
        self.curves = losses, held_out
        plot = self.plt
        plot.clear_figure()
        values = all_losses(losses, held_out)
        if values:
            steps = [step for step, _ in (*losses, *held_out)]
            first, last = min(steps), max(*steps, min(steps) + 1)
            low, high = min(values), max(values)
            room = _MARGIN * (high - low) or 0.5
            plot.xlim(first, last)
            plot.ylim(max(0.0, low - room) if low >= 0 else low - room, high + room)
            plot.yfrequency(max(3, self.size.height // 4))
            plot.xticks(_ticks(first, last))
        self._draw(losses, held_out)
        self.refresh()

    def _draw(self, losses: Sequence[Point], held_out: Sequence[Point]) -> None:
        colours = self.app.theme_variables
        if losses:
            x, y = zip(*thinned(losses, MOST_POINTS), strict=True)
            self.plt.plot(x, y, marker="braille", color=_rgb(colours["primary"]))
        if held_out:
            x, y = zip(*thinned(held_out, MOST_POINTS // 4), strict=True)
            self.plt.scatter(x, y, marker="x", color=_rgb(colours["accent"]))


def _ticks(first: int, last: int) -> list[float]:
    """Returns whole steps at equal distances, both ends included."""
    parts = min(_TICKS - 1, last - first)
    return [first + round(i * (last - first) / parts) for i in range(parts + 1)]


def _rgb(colour: str) -> tuple[int, int, int]:
    from textual.color import Color

    return Color.parse(colour).rgb
