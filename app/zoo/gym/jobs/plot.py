"""Draws the figures of a run as a picture: a panel a figure, the losses together.

By pillow, which comes with TensorBoard (the extra `track`). Left out: smoothing, other axes than
steps; the CSV has every number.
"""

import io
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import NotAvailableError
from zoo.gym.humanize import figure

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

Points = Sequence[tuple[int, float]]

WIDTH, HEIGHT, COLUMNS = 640, 320, 2
"""Pixels of a panel, and panels beside each other."""

_SCALE = 2  # drawn larger, so that lines are smooth
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 36
_COLOURS = ("#1f5fa8", "#c2410c", "#15803d", "#7e22ce")
_GREY, _BLACK = "#d4d4d4", "#262626"
_TOGETHER = ("train/loss", "eval/loss")
_LEFT_OUT = "train/tokens"


def panels_of(series: Mapping[str, Points]) -> list[dict[str, Points]]:
    """Returns what is drawn in each panel: the losses, then one figure each, by name."""
    losses = {name: series[name] for name in _TOGETHER if name in series}
    others = sorted(series.keys() - {*_TOGETHER, _LEFT_OUT})
    return [*([losses] if losses else []), *({name: series[name]} for name in others)]


def png_of(title: str, series: Mapping[str, Points]) -> bytes:
    """Returns a PNG of the figures of a run.

    Args:
        title: the name of the run.
        series: see `zoo.gym.jobs.figures.series`; at least one figure.

    Raises:
        NotAvailableError: pillow is not installed.
    """
    if find_spec("PIL") is None:
        raise NotAvailableError(
            "a PNG needs the package pillow, which is not installed",
            hint=f"{install_command('track')}, or --out NAME.csv",
            code="jobs.missing_pillow",
        )
    from PIL import Image, ImageDraw

    panels = panels_of(series)
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = (WIDTH * columns * _SCALE, HEIGHT * rows * _SCALE)
    picture = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(picture)
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        named = f"{title}: {' and '.join(panel)}"
        _draw_panel(draw, column * WIDTH * _SCALE, row * HEIGHT * _SCALE, named, panel)
    picture = picture.resize((WIDTH * columns, HEIGHT * rows), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    picture.save(content, "PNG")
    return content.getvalue()


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Returns round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of 10.

    >>> ticks(0, 10)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _draw_panel(
    draw: "ImageDraw", left: int, top: int, title: str, panel: Mapping[str, Points]
) -> None:
    steps = [step for points in panel.values() for step, _ in points]
    values = [value for points in panel.values() for _, value in points]
    x_range, y_range = _range(steps), _range(values)
    box = (
        left + _LEFT * _SCALE,
        top + _TOP * _SCALE,
        left + (WIDTH - _RIGHT) * _SCALE,
        top + (HEIGHT - _BOTTOM) * _SCALE,
    )
    font = _font(13)
    draw.text((box[0], top + 12 * _SCALE), title, _BLACK, _font(14))
    for value in ticks(*y_range):
        y = _along(value, y_range, box[3], box[1])
        draw.line((box[0], y, box[2], y), _GREY, _SCALE)
        draw.text((box[0] - 6 * _SCALE, y), figure(value), _BLACK, font, anchor="rm")
    for value in (tick for tick in ticks(*x_range) if tick == int(tick)):
        x = _along(value, x_range, box[0], box[2])
        draw.line((x, box[3], x, box[3] + 4 * _SCALE), _BLACK, _SCALE)
        draw.text((x, box[3] + 8 * _SCALE), f"{value:.0f}", _BLACK, font, anchor="ma")
    draw.line((box[0], box[3], box[2], box[3]), _BLACK, _SCALE)
    for number, (name, points) in enumerate(panel.items()):
        places = [
            (_along(step, x_range, box[0], box[2]), _along(value, y_range, box[3], box[1]))
            for step, value in points
        ]
        _draw_line(draw, places, _COLOURS[number % len(_COLOURS)])
        if len(panel) > 1:
            spot = (box[2] - 4 * _SCALE, box[1] + (4 + 18 * number) * _SCALE)
            draw.text(spot, name, _COLOURS[number % len(_COLOURS)], font, anchor="ra")


def _draw_line(draw: "ImageDraw", places: Sequence[tuple[float, float]], colour: str) -> None:
    draw.line(places, colour, 2 * _SCALE, joint="curve")
    if len(places) <= 50:  # few points are seen as such
        for x, y in places:
            r = 3 * _SCALE
            draw.ellipse((x - r, y - r, x + r, y + r), colour)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Returns least and largest, apart where they are equal."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return (low, high + margin) if low == 0 and high > 0 else (low - margin, high + margin)


def _along(value: float, limits: tuple[float, float], start: float, stop: float) -> float:
    low, high = limits
    return start + (value - low) / (high - low) * (stop - start)


def _font(size: int) -> Any:  # noqa: ANN401 - without a font of a file or with
    from PIL import ImageFont

    return ImageFont.load_default(size * _SCALE)
