"""Settings are not read from the environment; a variable that looks like one is reported.

Only `ZOO_GYM_HOME` is ours: what a run does is in its command and its files, and can be repeated.
"""

import os
from collections.abc import Iterator

from zoo.gym.config.report import nearest
from zoo.gym.config.stages import all_fields
from zoo.gym.paths import HOME_VARIABLE

PREFIX = "ZOO_GYM_"


def idle_variables() -> Iterator[tuple[str, str]]:
    """Yields each variable `ZOO_GYM_...` that has no effect, with the reason."""
    for variable in sorted(os.environ):
        if not variable.startswith(PREFIX) or variable == HOME_VARIABLE:
            continue
        key = nearest(variable.removeprefix(PREFIX).lower(), all_fields())
        reason = "settings are not read from the environment"
        yield variable, reason + (f": expected {key}=VALUE" if key else "")
