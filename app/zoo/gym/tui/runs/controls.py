"""The keys that control a run, the same wherever one is shown."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Key

from zoo.gym.jobs import Run
from zoo.gym.tui.runs import actions as run_actions
from zoo.gym.tui.screens.base import GymScreen


class ControlScreen(GymScreen):
    """A screen with one run that its keys act on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space",
            "pause",
            "Pause",
            tooltip="pause after this step; the model stays loaded",
            id="pause",
        ),
        Binding(
            "space",
            "resume",
            "Resume",
            tooltip="continue the run",
            id="resume",
        ),
        Binding("P", "park", "Park", tooltip="save, end the process, free the device", id="park"),
        Binding("x", "stop", "Stop", tooltip="save and end the process; asks first", id="stop"),
        Binding(
            "F",
            "finish",
            "Finish",
            tooltip="make a result of the best step; asks first",
            id="finish",
        ),
        Binding(
            "D",
            "remove",
            "Delete",
            show=False,
            tooltip="delete the run and all its files; asks first",
            id="remove",
        ),
        Binding("R", "rename", "Rename", show=False, tooltip="give the run a name", id="rename"),
    ]

    def renamed(self) -> None:
        """Is called once the run has another name."""

    def controlled(self) -> tuple[Run, str] | None:
        """Returns the run that the keys act on, and its state; None where there is none."""
        raise NotImplementedError

    def removed(self) -> None:
        """Is called once the run was deleted."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers only what can be done to the run now."""
        del parameters
        return run_actions.is_offered(action, self.controlled())

    def on_key(self, event: Key) -> None:
        """Says why a key that controls runs does nothing now, because its hint is hidden then."""
        every = [*ControlScreen.BINDINGS, *type(self).BINDINGS]
        bindings = [binding for binding in every if isinstance(binding, Binding)]
        actions = [binding.action for binding in bindings if binding.key == event.key]
        actions = [action for action in actions if action in run_actions.STATES]
        why = run_actions.why_idle(actions, self.controlled())
        if why is not None:
            self.notify(why, severity="warning", markup=False)

    def action_pause(self) -> None:
        """Pauses the run."""
        if controlled := self.controlled():
            run_actions.pause(self.app, controlled[0])

    def action_resume(self) -> None:
        """Resumes the run."""
        if controlled := self.controlled():
            run_actions.resume(self.app, controlled[0])

    def action_park(self) -> None:
        """Parks the run."""
        if controlled := self.controlled():
            run_actions.park(self.app, controlled[0])

    def action_stop(self) -> None:
        """Stops the run, after a yes."""
        if controlled := self.controlled():
            run_actions.stop(self.app, controlled[0])

    def action_finish(self) -> None:
        """Makes a result of the run's best step, after a yes."""
        if controlled := self.controlled():
            run_actions.finish(self.app, controlled[0])

    def action_rename(self) -> None:
        """Gives the run a name."""
        if controlled := self.controlled():
            run_actions.rename(self.app, controlled[0], self.renamed)

    def action_remove(self) -> None:
        """Deletes the run, after a yes."""
        if controlled := self.controlled():
            run_actions.remove(self.app, controlled[0], self.removed)
