"""How many threads the core takes.

Its threads belong to the process that started them: a forked child starts its own. A call on one
thread runs on its caller's and starts none.
"""

from zoo.core import _core


def use_threads(count: int) -> None:
    """Sets how many threads a call takes that names no number of its own: at first the machine's.

    Args:
        count: at least 1; more than 256 count as 256.

    Raises:
        ValueError: a count of 0.
    """
    _core.use_threads(count)
