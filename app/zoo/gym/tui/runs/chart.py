"""The chart of a run: the only file that knows plotext."""

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content
from textual_plotext import PlotextPlot

from zoo.gym.terminal import visible
from zoo.gym.tui.runs.history import Point, all_losses, thinned

MOST_POINTS = 400
"""More points than a wide terminal can show."""

DOTS = "\u2812\u2824"
LEGEND = f"[$success]{DOTS}[/] training loss  [$warning]x[/] held-out loss  {{}}by step"
"""The marks of both curves in their colours, and the units of the axes."""

_TICKS = 5
_MARGIN = 0.05


class LossChart(PlotextPlot):
    """Training loss as a dotted line, held-out loss as crosses; a single number is drawn too."""

    DEFAULT_CSS: ClassVar[str] = """
    LossChart { border: round $border-blurred; border-title-color: $foreground; min-height: 6; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.curves: tuple[Sequence[Point], Sequence[Point]] = ((), ())
        self._joined = False
        # in the border: a legend inside the plot would cover the curve
        self.border_title = LEGEND.format("nats/token, ")

    def on_mount(self) -> None:
        """Draws the curves again in the colours of another theme."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._again())
        self._again()

    def on_resize(self) -> None:
        """Draws the chart again: how many labels the axis has depends on the height."""
        self._again()

    def _again(self) -> None:
        # the colours of a terminal have no values to draw the axes in
        self.theme = "clear" if self.app.theme.startswith("ansi") else "auto"
        self.show(*self.curves, joined=self._joined)

    def name_unit(self, unit: str) -> None:
        """Names the unit of the losses, if they have one."""
        self.border_title = LEGEND.format(f"{unit}, " if unit else "")

    def name_figure(self, figure: str, run: str, other: str) -> None:
        """Names the figure that is drawn, and whose it is."""
        parts: list[str | tuple[str, str]] = [f"{visible(figure)}  ", (DOTS, "$success"), f" {run}"]
        parts += [(f"  {DOTS}", "$warning"), f" {other}"] if other else []
        self.border_title = Content.assemble(*parts, "  by step")

    def show(
        self, losses: Sequence[Point], held_out: Sequence[Point], *, joined: bool = False
    ) -> None:
        """Draws both curves in full; the second one as crosses unless it is joined."""
        self.curves, self._joined = (losses, held_out), joined
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
            # whole steps at equal distances, both ends included
            parts = min(_TICKS - 1, last - first)
            plot.xticks([first + round(i * (last - first) / parts) for i in range(parts + 1)])
        self._draw(losses, held_out)
        self.refresh()

    def _draw(self, losses: Sequence[Point], held_out: Sequence[Point]) -> None:
        colours = self.app.theme_variables
        if losses:
            x, y = zip(*thinned(losses, MOST_POINTS), strict=True)
            self.plt.plot(x, y, marker="braille", color=_rgb(colours["success"]))
        if held_out:
            most = MOST_POINTS if self._joined else MOST_POINTS // 4
            x, y = zip(*thinned(held_out, most), strict=True)
            draw, marker = (self.plt.plot, "braille") if self._joined else (self.plt.scatter, "x")
            draw(x, y, marker=marker, color=_rgb(colours["warning"]))


def _rgb(colour: str) -> tuple[int, int, int]:
    from textual.color import Color

    return Color.parse(colour).rgb
