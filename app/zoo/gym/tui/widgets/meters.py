"""Figures with their names: one per line where there is room, else several per line."""

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from textual.events import Resize
from textual.widgets import Static

from zoo.gym.terminal import visible

Meter: TypeAlias = tuple[str, str]
"""The name of a figure, and the figure as text."""

_NARROW_COLUMN = 24


class Meters(Static):
    """A list of figures; its own width decides how it is laid out."""

    DEFAULT_CSS: ClassVar[str] = "Meters { height: auto; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, markup=False)
        self.meters: tuple[Meter, ...] = ()
        self._rows = 0

    def show(self, meters: Sequence[Meter]) -> None:
        """Replaces all figures."""
        if tuple(meters) != self.meters:
            self.meters = tuple(meters)
            self._write(self.size.width)

    def on_resize(self, event: Resize) -> None:
        """Lays the figures out for the new width."""
        self._write(event.size.width)

    def _write(self, width: int) -> None:
        columns = max(1, width // _NARROW_COLUMN) if width > 2 * _NARROW_COLUMN else 1
        cell = width // columns
        cells = [_cell(name, value, cell) for name, value in self.meters]
        if columns == 1:
            longest = max((len(name) for name, _ in self.meters), default=0)
            cells = [_cell(name.ljust(longest + 1), value, cell) for name, value in self.meters]
        rows = [cells[i : i + columns] for i in range(0, len(cells), columns)]
        text = "\n".join("".join(row).rstrip() for row in rows)
        self.update(text, layout=len(rows) != self._rows)
        self._rows = len(rows)


def _cell(name: str, value: str, width: int) -> str:
    return f"{visible(f'{name} {value}'):<{width}}"


def bar(done: int, total: int | None, width: int) -> str:
    """Returns a progress bar as text, with a percentage."""
    share = min(1.0, done / total) if total else 0.0
    cells = max(4, width - 7)
    full = round(share * cells)
    return f"{'━' * full}{'╌' * (cells - full)} {share:5.0%}"
