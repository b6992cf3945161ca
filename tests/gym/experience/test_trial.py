"""`zoo-gym experience trial`: what it needs, what it refuses, and a run on a server."""

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from tests.chat_server import chat_server
from tests.gym.experience.conftest import Call
from zoo.backends.machine.installing import install_command
from zoo.gym.rewards.environments import package

real = pytest.mark.skipif(
    find_spec(package.PACKAGE) is None, reason="reasoning-gym is not installed"
)


def test_without_a_model_nothing_is_run_and_it_says_so(call: Call) -> None:
    result = call("experience", "trial", "--json")
    assert (result.code, result.json["state"]) == (0, "not run")
    assert "not run: expected --model" in result.stderr


def test_without_the_package_it_says_what_to_install(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "find_spec", lambda _: None)
    result = call("experience", "trial", "--model", "http://127.0.0.1:1/v1#m", "--json")
    assert result.code == 4
    assert install_command("environments") in result.stderr


def test_models_that_are_too_small_to_show_anything_are_refused(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "find_spec", lambda _: object())
    monkeypatch.setitem(sys.modules, package.PACKAGE, ModuleType(package.PACKAGE))
    result = call("experience", "trial", "--model", "zen-pico", "--json")
    assert (result.code, "expected a model from 4 B parameters" in result.stderr) == (2, True)
    assert call("experience", "trial", "--model", "zen-pico", "--tasks", "3").code == 2


@real
@pytest.mark.slow
@pytest.mark.usefixtures("near")
def test_a_trial_on_a_server_keeps_nothing_useless(call: Call) -> None:
    def respond(body: Any, number: int) -> str:
        turns = body["messages"]
        return '{"edits": []}' if "You improve" in turns[0]["content"] else str(number % 4)

    with chat_server(respond) as server:
        result = call(
            *("experience", "trial", "--model", f"{server.url}#m", "--tasks", "42", "--json"),
            *("--environment", "letter_counting"),
        )
    assert (result.code, result.json["state"]) == (0, "done"), result.stderr
    assert result.json["verdict"] == "nothing kept"
