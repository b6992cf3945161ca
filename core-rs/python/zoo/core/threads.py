"""The number of threads of the core.

Threads belong to the process that started them: a forked child starts its own. A call with one
thread runs on the calling thread and starts none.
"""

from zoo.core import _core


def use_threads(count: int) -> None:
    """Sets the default number of threads of a call; initially that of the machine.

    Args:
        count: at least 1; more than 256 count as 256.

    Raises:
        ValueError: a count of 0.
    """
    _core.use_threads(count)
