"""Nobody asks the hub behind the user's back: the libraries' own client refuses."""

import os
import subprocess
import sys

import pytest

from tests.models.conftest import MODEL_ID, FakeHub, cache, hub
from zoo.gym.offline import OFFLINE, go_offline, offline

__all__ = ["cache", "hub"]


def ask(hub: FakeHub) -> None:
    """Asks the hub of this machine as any library would."""
    from huggingface_hub import HfApi

    HfApi(endpoint=os.environ["HF_ENDPOINT"]).model_info(MODEL_ID)


def refused(hub: FakeHub) -> bool:
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        ask(hub)
    except OfflineModeIsEnabled:
        return True
    return False


def test_a_library_that_was_imported_before_is_refused_too(hub: FakeHub) -> None:
    assert not refused(hub)
    asked = len(hub.asked)
    go_offline()
    assert refused(hub)
    assert len(hub.asked) == asked


def test_afterwards_the_hub_is_as_it_was(hub: FakeHub) -> None:
    with offline():
        assert refused(hub)
        assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in os.environ
    assert not refused(hub)


def test_child_processes_inherit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OFFLINE:
        monkeypatch.setenv(name, "0")
    go_offline()
    code = f"import os; print(*(os.environ[name] for name in {list(OFFLINE)}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["1", "1"]
