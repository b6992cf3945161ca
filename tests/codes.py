"""Tests recognise an error by its code; docs/reference/errors.md lists the words of each."""

import pytest

from zoo.gym.errors import GymError


def raises(code: str, match: str | None = None) -> pytest.RaisesExc[GymError]:
    """Expects an error with a code, and with the words of a pattern where the code has several."""
    return pytest.raises(GymError, match=match, check=lambda error: error.code == code)
