"""A tree of folders in which a file is chosen."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DirectoryTree, Static


class _Files(DirectoryTree):
    """Shows folders and files with some suffixes, without hidden ones."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]

    def __init__(self, folder: Path, suffixes: tuple[str, ...]) -> None:
        super().__init__(folder)
        self.suffixes = suffixes

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        """Leaves out what cannot be chosen."""
        return [
            path
            for path in paths
            if not path.name.startswith(".")
            and (path.is_dir() or path.name.lower().endswith(self.suffixes))
        ]


class BrowseDialog(ModalScreen[str | None]):
    """Answers the path of the chosen file; None after Esc.

    Args:
        folder: where to begin.
        suffixes: the ends of the names that are shown.
        title: what is looked for.
    """

    DEFAULT_CSS: ClassVar[str] = """
    BrowseDialog { align: center middle; }
    BrowseDialog > Vertical {
        width: 80; max-width: 95%; height: 80%; padding: 0 1;
        border: round $primary; background: $surface; border-title-style: bold;
    }
    BrowseDialog DirectoryTree { height: 1fr; background: $surface; scrollbar-size-vertical: 1; }
    BrowseDialog #keys { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", key_display="Esc"),
        Binding("backspace", "up", "Folder above"),
    ]

    def __init__(self, folder: Path, suffixes: tuple[str, ...], *, title: str) -> None:
        super().__init__()
        self.folder, self.suffixes, self.title_text = folder, suffixes, title

    def compose(self) -> ComposeResult:
        """Makes the box."""
        with Vertical() as box:
            box.border_title = self.title_text
            yield _Files(self.folder, self.suffixes)
            yield Static("Enter opens or chooses, Backspace goes up, Esc cancels.", id="keys")

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        """Answers with the file."""
        self.dismiss(str(event.path))

    def action_up(self) -> None:
        """Shows the folder above."""
        tree = self.query_one(_Files)
        tree.path = Path(tree.path).resolve().parent
