"""What higher rooms plug into lower ones, by import path: the one place that names rooms above.

A room that is used from below is imported when it is needed, so that a command loads no more than
it uses, and nothing has to be registered before. Methods of training have a table of their own,
`zoo.gym.config.stages.METHODS`.
"""

from importlib import import_module
from typing import Any

SOCKETS = {
    "run of lessons": "zoo.gym.experience.session:RUN",
    "run of distillation": "zoo.gym.experience.distilling.session:RUN",
    "settings of a round": "zoo.gym.rounds.session.known_rounds:settings_for",
    "variant of a run": "zoo.gym.variants.register:add_trained",
    "chat of a judge": "zoo.gym.chat:open_chat",
}
"""What a lower room needs -> "module:name" of what a higher one has for it."""


def wired(need: str) -> Any:  # noqa: ANN401 - the room that needs it knows its type
    """Returns what is plugged in for a need of the table."""
    module, _, name = SOCKETS[need].partition(":")
    return getattr(import_module(module), name)
