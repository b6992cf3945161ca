"""Small files, variants, rounds and lessons: what a fine-tune becomes once it is shared."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, TabbedContent, TabPane, Tabs

from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.share.deltas_pane import DeltasPane
from zoo.gym.tui.share.lessons_pane import LessonsPane
from zoo.gym.tui.share.pane import SharePane
from zoo.gym.tui.share.rounds_pane import RoundsPane
from zoo.gym.tui.share.variants_pane import VariantsPane
from zoo.gym.tui.widgets.bar import Bar

TABS = {"deltas": "Deltas", "variants": "Variants", "rounds": "Rounds", "lessons": "Lessons"}


class ShareScreen(GymScreen):
    """Four tabs; the keys of a tab act on the row under its cursor."""

    HELP = """
Deltas     a fine-tune as one small file: the coded difference from its base.
Variants   fine-tunes of many people on one base, served by one model.
Rounds     people contribute fine-tunes of one base and get one better delta. All of them can
           compute it again, to the byte. C creates one of lessons, X makes yours void.
Lessons    what a model learned as text in its prompt; no weights change.

In Deltas V stores a file as a variant; in Variants R renames one and e copies it to a file; in \
both t opens it in Chat. In Lessons m measures a library again, p prunes it, b rolls it back, e \
writes it to a file and w turns it to weights. Left and right change the tab. Every key opens a \
form that shows its command before it runs, and nothing leaves this machine without a yes.
"""
    CSS_PATH = "share.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "tab(-1)", "Tab", key_display="←→", priority=True),
        Binding("right", "tab(1)", show=False, priority=True),
    ]

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar()
        panes: tuple[SharePane[Any], ...] = (
            DeltasPane(),
            VariantsPane(),
            RoundsPane(),
            LessonsPane(),
        )
        with TabbedContent(initial=next(iter(TABS))):
            for (name, label), pane in zip(TABS.items(), panes, strict=True):
                with TabPane(label, id=name):
                    yield pane
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Keeps the focus in the tabs' contents: left and right change the tab."""
        self.query_one(Tabs).can_focus = False

    def on_screen_resume(self) -> None:
        """Reads the tab that is shown, also after a form."""
        self.pane.reload()

    def on_tabbed_content_tab_activated(self) -> None:
        """Reads the tab that is shown."""
        self.pane.reload()
        self.pane.take_focus()

    def action_tab(self, by: int) -> None:
        """Shows the next tab, or the one before."""
        tabs, names = self.query_one(TabbedContent), list(TABS)
        tabs.active = names[(names.index(tabs.active) + by) % len(names)]

    @property
    def pane(self) -> SharePane[Any]:
        """The contents of the tab that is shown."""
        active = self.query_one(TabbedContent).active
        return self.query_one(f"#{active}").query_one(SharePane)
