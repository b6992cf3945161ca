"""Turns a server of variants on, and shows what it prints."""

from textual.widgets import Button

from zoo.gym.errors import GymError
from zoo.gym.tui.share.action import Action, Field, Values
from zoo.gym.tui.share.form import FormScreen
from zoo.gym.tui.share.server import Server, server_words

READ_EVERY_S = 0.3

ABOUT = """\
Answers programs that speak the API of OpenAI, on this machine alone (127.0.0.1): the base and \
each of its variants by name. Programs need the token. The server ends with this app.\
"""


class ServeScreen(FormScreen):
    """Starts a server, which stays on when the screen is closed.

    Args:
        base: the base model.
        server: the app's server.
    """

    HELP = "ctrl+s turns the server on; Esc goes back and leaves it on. S in the list ends it."
    CSS_PATH = "share_form.tcss"

    def __init__(self, base: str, server: Server) -> None:
        self.base, self.server = base, server
        self._read = 0
        port = Field("port", "Port; 0 takes any free one", "8000")
        super().__init__(Action(f"serve {base}", ABOUT, "Turn on", self._words, (port,)))

    def on_mount(self) -> None:
        """Follows the server."""
        self.set_interval(READ_EVERY_S, self._show)

    def action_run(self) -> None:
        """Starts the server as the app's own process."""
        if self.server.is_on:
            return
        self._read = 0
        try:
            self.server.start(self.base, self.words)
        except GymError as error:
            self.problem(error.message)
            return
        # a worker of the app: the server outlives the screen
        self.app.run_worker(self.server.follow(), group="serve", exclusive=True)
        self._show()

    def action_close(self) -> None:
        """Goes back; the server stays on."""
        self.dismiss()

    def _show(self) -> None:
        for line in self.server.lines[self._read :]:
            self.line(line)
        self._read = len(self.server.lines)
        on = self.server.is_on
        self.query_one("#run", Button).disabled = on
        if on or self.server.lines:
            bad = not on
            words = "The server has ended." if bad else server_words(self.server)
            self.state(words, "bad" if bad else "good" if self.server.url else "")

    def _words(self, values: Values) -> list[str]:
        words = ["serve", "--model", self.base, "--port", values["port"]]
        return [*words, "--end-with-input", "--offline"]
