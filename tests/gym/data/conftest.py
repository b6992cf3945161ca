"""Real chat templates for the tests that render chats."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gym.data.real_templates import read_templates
from zoo.gym.data.rendering.template import ChatTemplate


@pytest.fixture(scope="session")
def templates(shared: Callable[[str], Path]) -> dict[str, ChatTemplate]:
    return read_templates(shared)
