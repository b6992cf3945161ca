"""A run or a delta for other programs: the formats, what each would write, and the command."""

import shlex
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from zoo.gym.errors import GymError
from zoo.gym.humanize import human_bytes
from zoo.gym.jobs.command import ask_command
from zoo.gym.terminal import visible
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.lists import Choices


class Target(NamedTuple):
    """A format: its options on the command line, its name, and the programs that read it."""

    options: str
    name: str
    reads: str


TARGETS = (
    Target("--format ollama", "Ollama", "GGUF and Modelfile, with chat template"),
    Target("--format lmstudio", "LM Studio", "a GGUF file in its folder of models"),
    Target("--format gguf --quantization q8_0", "GGUF, 8 bits", "llama.cpp and what stands on it"),
    Target("--format gguf --quantization q4_k_m", "GGUF, 4 bits", "the usual size for laptops"),
    Target("--format gguf --quantization f16", "GGUF, 16 bits", "to be quantised by others"),
    Target("--format ollama-lora", "Ollama adapter", "Ollama, beside the base that it has"),
    Target("--format gguf-lora", "GGUF adapter", "llama.cpp, beside the base's file"),
    Target("--format hf", "Merged folder", "transformers, vLLM"),
    Target("--format peft", "peft adapter", "transformers with peft, vLLM"),
    Target("--format mlx", "MLX folder", "mlx-lm on a Mac"),
    Target("--format mlx-adapter", "MLX adapter", "mlx-lm on a Mac, beside the base"),
    Target("--format onnx", "ONNX", "onnxruntime, and what stands on it"),
    Target("--format program", "torch program", "torch.export"),
)
"""The formats in the order of likely use."""


class ExportScreen(GymScreen):
    """Chooses a format; what it would write is shown before anything is written.

    Args:
        source: a run or a file, as the command takes it.
    """

    HELP = """
Each format is written by a command that is shown. What is written is opened by another program \
and compared with the source, and the figure is in the report.

Enter writes the chosen one; the next command, such as `ollama create`, is in its last lines.
"""
    CSS_PATH = "export.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy command"),
        Binding("escape", "app.pop_screen", "Back", key_display="Esc"),
    ]

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar(f"{self.source} > export")
        with Horizontal(classes="columns"):
            choices = Choices(
                *(Option(_line(target), id=str(i)) for i, target in enumerate(TARGETS)),
                compact=True,
                classes="panel",
            )
            choices.border_title = "For which program?"
            yield choices
            with VerticalScroll(id="preview", classes="column panel") as preview:
                preview.border_title = "What it writes"
                yield Static(id="command", markup=False)
                yield Static(id="planned", classes="note", markup=False)
                yield Static(id="problem", classes="problem", markup=False)
        yield Footer(show_command_palette=False)

    def on_option_list_option_highlighted(self) -> None:
        """Shows what the format would write."""
        self._preview()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Writes it, by the command that is shown."""
        del event
        app_of(self).action_command(shlex.join(self.words()))

    def action_copy(self) -> None:
        """Copies the command."""
        self.app.copy_to_clipboard(shlex.join(["zoo-gym", *self.words()]))
        self.notify("Copied")

    def words(self) -> list[str]:
        """Returns the command for the format under the cursor, without `zoo-gym`."""
        at = self.query_one(Choices).highlighted or 0
        return ["export", self.source, *TARGETS[at].options.split(), "--offline"]

    @work(exclusive=True)
    async def _preview(self) -> None:
        words = self.words()
        command = visible(shlex.join(["zoo-gym", *words]))
        self.query_one("#command", Static).update(command)
        self._show("Reading the source ...", "")
        try:
            planned = await ask_command([*words, "--dry-run"])
        except GymError as error:
            self._show("", f"{error.message}\n{error.hint or ''}".strip())
            return
        size = "" if planned.get("bytes") is None else f"\nabout {human_bytes(planned['bytes'])}"
        path = Path(planned["path"]).absolute()
        self._show(f"writes {path}{size}\nEnter writes it", "")

    def _show(self, planned: str, problem: str) -> None:
        for name, text in (("#planned", planned), ("#problem", problem)):
            widget = self.query_one(name, Static)
            widget.display = bool(text)
            widget.update(visible(text))


def _line(target: Target) -> Content:
    return Content.assemble((f"{target.name:<15}", "bold"), (target.reads, "dim"))
