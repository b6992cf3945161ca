"""Keeps the libraries below from talking over us: their progress bars and their deprecations."""

import warnings
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quiet() -> Generator[None]:
    """Silences transformers' bars and notes, and warnings that concern library authors only.

    Errors pass through; what a user must know is checked by us and told by us.
    """
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
