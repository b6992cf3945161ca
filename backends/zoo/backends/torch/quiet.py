"""Silences progress bars and deprecation warnings of libraries."""

import warnings
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quiet() -> Generator[None]:
    """Silences transformers' progress bars and log, and warnings for library authors.

    Errors pass through; we check and report what a user must know.
    """
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@contextmanager
def peft_alone() -> Generator[None]:
    """Silences peft's warnings about its settings; we check the placement ourselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
