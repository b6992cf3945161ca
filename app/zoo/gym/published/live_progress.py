"""Shows the progress of a run in Python: one line that is overwritten, on stderr or in a notebook.

run_training(settings, on_event=show_progress)
"""

import sys
from importlib import import_module
from typing import Any

from zoo.gym.humanize import figure
from zoo.gym.jobs.events import Event
from zoo.gym.jobs.lines import is_step, metric_words, step_line
from zoo.gym.terminal import rewrites_lines, visible
from zoo.models.registry import CANNOT_CONVERSE, PICO


class ShowProgress:
    """Shows a run's events; the instance is called once for each, in order.

    Elsewhere than in a terminal or a notebook, only the last step and notes are printed.
    """

    def __init__(self) -> None:
        self._line = self._held_out = ""
        self._display: Any = None

    def _clear(self) -> None:
        self._line, self._held_out, self._display = "", "", None

    def __call__(self, event: Event) -> None:
        """Shows an event, if it is a step, an evaluation, a warning or the end."""
        match event["kind"]:
            case "plan":
                self._clear()
                if event.get("model") == PICO:
                    self._note(f"{PICO} {CANNOT_CONVERSE}")
            case "step" if is_step(event):
                self._show(step_line(event))
            case "eval":
                loss = [figure(event["loss"])] if "loss" in event else []
                self._held_out = "  held-out " + "  ".join([*loss, *metric_words(event)])
                self._show(self._line)
            case "warn":
                self._note(f"warning: {event.get('message')}")
            case "answers" if event.get("message"):
                self._note(str(event["message"]))
            case "end":
                self._end()
            case _:
                pass

    def _show(self, line: str) -> None:
        self._line = line
        text = visible(line + self._held_out)
        if not line:
            return
        if in_notebook():
            content = {"text/plain": text}
            if self._display is None:
                show = import_module("IPython.display").display
                self._display = show(content, raw=True, display_id=True)
            else:
                self._display.update(content, raw=True)
        elif rewrites_lines():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def _note(self, text: str) -> None:
        start = "\r\x1b[K" if not in_notebook() and rewrites_lines() else ""
        print(f"{start}{visible(text)}", file=sys.stderr, flush=True)
        self._show(self._line)

    def _end(self) -> None:
        if self._line and not in_notebook():
            last = "" if rewrites_lines() else visible(self._line + self._held_out)
            print(last, file=sys.stderr, flush=True)
        self._clear()


def in_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook; IPython is never imported."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


show_progress = ShowProgress()
"""For `run_training(settings, on_event=show_progress)`."""
