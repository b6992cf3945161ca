"""Cuts a stream of tokens into windows that learn each token once."""

from collections.abc import Iterator


def windows(length: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields start and stop of windows over a stream of tokens.

    Adjacent windows share one token: the last of a window is the first of the next, where it is
    only read. So every token except the first of the stream is learned exactly once.

    Args:
        length: number of tokens in the stream.
        size: number of tokens in a window, at least 2; the last window may be shorter.
    """
    for start in range(0, length - 1, size - 1):
        yield start, min(start + size, length)
