"""What can be wrong with the layout of a screen, found by program: each check returns sentences.

Off the checks are what stands over a screen on purpose (tooltips, messages, opened lists), and what
scrolls in the direction in which it is too long. A text that is cut on purpose ends with an
ellipsis and is listed in `ENDS_IN_ELLIPSIS`.
"""

import re
from collections.abc import Iterator
from itertools import combinations

from rich.style import Style
from rich.text import Text
from textual.color import Color
from textual.content import Content
from textual.errors import NoWidget
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button, DataTable, Footer, Input, RadioButton, Static
from textual.widgets._footer import FooterKey
from textual.widgets.data_table import Column

ENDS_IN_ELLIPSIS = (
    "Bar, FooterKey, HomeScreen #runs, HomeScreen #machine, ModelsScreen #folders, RadioButton"
)
"""Lines that may end with an ellipsis where they are too long: the whole stands elsewhere."""

_OVER = {"ToastRack", "ToastHolder", "Toast", "Tooltip", "SelectOverlay", "_Loading"}


def parts(screen: Screen[object]) -> list[Widget]:
    """Returns the widgets that are on the screen, what stands over it on purpose left out."""
    return [*_below(screen)]


def _below(parent: Widget) -> Iterator[Widget]:
    for widget in parent.displayed_children:
        if type(widget).__name__ in _OVER or widget.styles.overlay == "screen":
            continue
        yield widget
        yield from _below(widget)


def leaves(screen: Screen[object]) -> list[Widget]:
    """Returns the widgets without others inside."""
    return [widget for widget in parts(screen) if not widget.displayed_children]


def name_of(widget: Widget) -> str:
    """Returns what a widget is called in a finding."""
    kind = type(widget).__name__
    return f"{kind} #{widget.id}" if widget.id else f"{kind} {'.'.join(sorted(widget.classes))}"


def overlaps(screen: Screen[object]) -> list[str]:
    """Finds leaves of which one covers a part of another."""
    seen = [(widget, _seen(screen, widget)) for widget in leaves(screen)]
    return [
        f"{name_of(one)} and {name_of(other)} overlap in {here.intersection(there)}"
        for (one, here), (other, there) in combinations(seen, 2)
        if here.intersection(there).area
    ]


def outside(screen: Screen[object]) -> list[str]:
    """Finds widgets that are partly outside of one that does not scroll, or have no room at all."""
    found = []
    for widget in parts(screen):
        parent = widget.parent
        if not isinstance(parent, Widget):
            continue
        box, room = widget.region, parent.region
        if not _scrolls_x(parent) and (box.x < room.x or box.right > room.right):
            found.append(f"{name_of(widget)} is wider than {name_of(parent)}: {box} in {room}")
        if not _scrolls_y(parent) and (box.y < room.y or box.bottom > room.bottom):
            found.append(f"{name_of(widget)} is higher than {name_of(parent)}: {box} in {room}")
        if not widget.displayed_children and not box.area and _says_something(widget):
            found.append(f"{name_of(widget)} has no room")
    return found


def cut_texts(screen: Screen[object]) -> list[str]:
    """Finds texts that are wider or higher than their widget, and titles longer than a border."""
    found = [name for widget in parts(screen) for name in _cut_titles(widget)]
    for widget in leaves(screen):
        if not widget.region.area or widget in screen.query(ENDS_IN_ELLIPSIS):
            continue
        if isinstance(widget, Input):
            found += _cut_placeholder(widget)
        elif isinstance(widget, DataTable):
            found += _cut_cells(widget)
        elif isinstance(widget, Button | RadioButton | Static):
            found += _cut_text(widget)
    return found


def footer_rest(screen: Screen[object]) -> list[str]:
    """Finds keys that are not whole in the bottom line."""
    return [
        f"{key.description or key.key_display} is not whole in the footer: {key.region.right} of "
        f"{footer.region.right} cells"
        for footer in screen.query(Footer)
        for key in footer.query(FooterKey)
        if key.display and key.region.right > footer.region.right
    ]


def without_focus(screen: Screen[object]) -> list[str]:
    """Finds a screen without focus, and what can be seen or scrolled by the mouse alone."""
    chain = screen.focus_chain
    found = ["nothing has the focus"] if chain and screen.focused is None else []
    for widget in parts(screen):
        if widget.focusable and widget not in chain:
            found.append(f"{name_of(widget)} is not reached by Tab")
        inside = [each for each in _below(widget) if each in chain]
        if widget.max_scroll_y > 0 and _scrolls_y(widget) and widget not in chain and not inside:
            found.append(f"{name_of(widget)} scrolls by the mouse alone")
    return found


def colours_alone(screen: Screen[object]) -> list[str]:
    """Finds cells of a table whose colour says what no word says."""
    found = []
    for table in screen.query(DataTable):
        for row in table.ordered_rows:
            for cell in table.get_row(row.key):
                if (
                    isinstance(cell, Text)
                    and _is_coloured(cell)
                    and not re.search(r"\w", cell.plain)
                ):
                    found.append(f"{cell.plain!r} of {name_of(table)} is told by colour alone")
    return found


CHECKS = (overlaps, outside, cut_texts, footer_rest, without_focus, colours_alone)


def problems(screen: Screen[object]) -> list[str]:
    """Returns what all checks find."""
    return [sentence for check in CHECKS for sentence in check(screen)]


def _seen(screen: Screen[object], widget: Widget) -> Region:
    try:
        place = screen.find_widget(widget)
    except NoWidget:  # it is new, or on its way out
        return Region()
    return place.region.intersection(place.clip)


def _scrolls_x(widget: Widget) -> bool:
    return str(widget.styles.overflow_x) != "hidden"


def _scrolls_y(widget: Widget) -> bool:
    return str(widget.styles.overflow_y) != "hidden"


def _says_something(widget: Widget) -> bool:
    if isinstance(widget, DataTable):
        return bool(widget.row_count)
    return widget.focusable or (isinstance(widget, Static) and bool(str(widget.content).strip()))


def _cut_titles(widget: Widget) -> list[str]:
    if not widget.styles.has_rule("border_top") or not widget.region.area:
        return []
    both = (widget.border_title, widget.border_subtitle)
    titles = [Content.from_markup(str(title or "")) for title in both]
    return [
        f"the title {title.plain!r} of {name_of(widget)} is longer than its border"
        for title in titles
        if title.cell_length > widget.region.width - 4
    ]


def _cut_placeholder(field: Input) -> list[str]:
    if field.value or len(field.placeholder) <= field.content_size.width:
        return []
    return [f"{field.placeholder!r} is longer than {name_of(field)}"]


def _cut_cells(table: DataTable[object]) -> list[str]:
    return [
        f"the column {column.label.plain!r} of {name_of(table)} cuts its cells"
        for column in table.ordered_columns
        if not column.auto_width and column.width < max(_lengths(table, column), default=0)
    ]


def _lengths(table: "DataTable[object]", column: Column) -> list[int]:
    return [cell.cell_len for cell in table.get_column(column.key) if isinstance(cell, Text)]


def _cut_text(widget: Widget) -> list[str]:
    size, screen = widget.content_size, widget.screen.size
    found = []
    if widget.get_content_height(size, screen, size.width) > size.height:
        found.append(f"{name_of(widget)} is cut below: {_start(widget)!r}")
    is_line = widget.styles.text_wrap == "nowrap" or size.height == 1
    if is_line and widget.get_content_width(size, screen) > size.width:
        found.append(f"{name_of(widget)} is cut at the right: {_start(widget)!r}")
    return found


def _start(widget: Widget) -> str:
    return str(getattr(widget, "content", "") or getattr(widget, "label", ""))[:40]


def _is_coloured(text: Text) -> bool:
    styles = [text.style, *(span.style for span in text.spans)]
    parsed = [Style.parse(style) if isinstance(style, str) else style for style in styles]
    colours = [Color.from_rich_color(style.color) for style in parsed if style.color is not None]
    return any(max(rgb) - min(rgb) > 40 for rgb in (colour.rgb for colour in colours))
