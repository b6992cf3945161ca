"""The command against a hub on this machine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.gym.push.hub import TOKEN, Hub, Repo
from zoo.gym.cli import main

Push = Callable[..., tuple[int, dict[str, Any], str]]
SEND = ("--confirm", "send")


@pytest.fixture
def push(
    adapter: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Push:
    """Pushes the adapter and returns exit code, the object of `--json` and stderr."""

    def run(*words: str, repo: str = "me/mine") -> tuple[int, dict[str, Any], str]:
        monkeypatch.setattr(sys, "stdin", StringIO(""))
        code = main(["push", str(adapter), repo, *words, "--json"])
        out, err = capsys.readouterr()
        assert TOKEN not in out + err
        return code, json.loads(out.splitlines()[-1]), err

    return run


def test_a_push_makes_a_private_repository_of_one_commit(push: Push, hub: Hub) -> None:
    code, answer, _ = push(*SEND)
    assert code == 0, answer
    assert answer["sent"]
    repo = hub.repos["me/mine"]
    assert repo.private
    assert repo.commits == 1
    assert sorted(repo.files) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]


def test_what_arrives_is_what_was_listed(push: Push, hub: Hub, adapter: Path) -> None:
    _, answer, _ = push(*SEND)
    files = hub.repos["me/mine"].files
    assert {each["name"]: each["bytes"] for each in answer["files"]} == {
        name: len(content) for name, content in files.items()
    }
    weights = "adapter_model.safetensors"
    assert files[weights] == (adapter / weights).read_bytes()


def test_nothing_private_is_in_any_request(push: Push, hub: Hub, place: Path) -> None:
    (place / "lora" / "events.jsonl").write_text("SECRET")
    push(*SEND)
    assert not [body for body in hub.received if b"SECRET" in body or str(place).encode() in body]


def test_without_the_word_nothing_is_sent(push: Push, hub: Hub) -> None:
    code, answer, _ = push()
    assert (code, answer["error"]["code"]) == (2, "cli.not_confirmed")
    assert hub.repos == {}
    assert hub.uploads() == []


@pytest.mark.parametrize(("typed", "code"), [("send\n", 0), ("yes\n", 2), ("y\n", 2), ("", 2)])
def test_only_the_word_send_is_consent(
    typed: str, code: int, adapter: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyboard = StringIO(typed)
    monkeypatch.setattr(keyboard, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", keyboard)
    assert main(["push", str(adapter), "me/mine"]) == code
    assert ("me/mine" in hub.repos) is (code == 0)


def test_another_word_as_the_option_is_refused(push: Push, hub: Hub) -> None:
    assert push("--confirm", "yes")[0] == 2
    assert hub.asked == []


def test_a_dry_run_asks_the_hub_nothing(push: Push, hub: Hub) -> None:
    code, answer, _ = push("--dry-run")
    assert (code, answer["sent"]) == (0, False)
    assert answer["base"] == "secret_base"
    assert hub.asked == []


def test_public_is_public(push: Push, hub: Hub) -> None:
    _, _, err = push(*SEND, "--public")
    assert "PUBLIC: everybody can read it" in err
    assert not hub.repos["me/mine"].private


def test_a_repository_that_is_public_already_needs_the_option(push: Push, hub: Hub) -> None:
    hub.repos["me/mine"] = Repo(private=False)
    code, answer, _ = push(*SEND)
    assert (code, answer["error"]["code"]) == (2, "push.public")
    assert hub.uploads() == []
    assert push(*SEND, "--public")[0] == 0


def test_public_does_not_change_a_private_repository_and_says_so(push: Push, hub: Hub) -> None:
    hub.repos["me/mine"] = Repo(private=True)
    assert push(*SEND, "--public")[1]["error"]["code"] == "push.stays_private"


def test_a_hub_that_makes_it_public_gets_no_file(push: Push, hub: Hub) -> None:
    hub.makes_public = True
    code, answer, _ = push(*SEND)
    assert (code, answer["error"]["code"]) == (1, "push.not_private")
    assert hub.uploads() == []
    assert hub.repos["me/mine"].files == {}


def test_files_that_the_hub_leaves_out_are_an_error(push: Push, hub: Hub) -> None:
    hub.ignores = True
    code, answer, _ = push(*SEND)
    assert (code, answer["error"]["code"]) == (1, "push.not_there")


def test_a_second_push_sends_nothing(push: Push, hub: Hub) -> None:
    push(*SEND)
    asked = len(hub.uploads())
    code, answer, _ = push()
    assert (code, answer["sent"]) == (0, False)
    assert len(hub.uploads()) == asked
    assert hub.repos["me/mine"].commits == 1


def test_a_name_that_is_taken_needs_replace(push: Push, hub: Hub) -> None:
    other = {"adapter_config.json": b"{}", "model.safetensors": b"old", "notes.txt": b"kept"}
    hub.repos["me/mine"] = Repo(private=True, files=dict(other))
    code, answer, _ = push(*SEND)
    assert (code, answer["error"]["code"]) == (2, "push.not_empty")
    assert hub.repos["me/mine"].files == other
    assert push(*SEND, "--replace")[0] == 0
    files = hub.repos["me/mine"].files
    assert "model.safetensors" not in files
    assert files["notes.txt"] == b"kept"
    assert files["adapter_config.json"] != b"{}"


def test_the_repository_of_somebody_else_is_refused(push: Push, hub: Hub) -> None:
    code, answer, _ = push(*SEND, repo="you/mine")
    assert (code, answer["error"]["code"]) == (2, "push.other_owner")
    assert push(*SEND, repo="club/mine")[0] == 0
    assert push(*SEND, repo="alone")[0] == 0
    assert sorted(hub.repos) == ["club/mine", "me/alone"]


def test_a_wrong_token_is_refused(push: Push, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_" + "z" * 34)
    code, answer, err = push(*SEND)
    assert (code, answer["error"]["code"]) == (4, "push.token_refused")
    assert "zzz" not in err


def test_without_a_network_it_says_so(
    push: Push, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    code, answer, _ = push(*SEND)
    assert (code, answer["error"]["code"]) == (4, "push.failed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert push(*SEND)[1]["error"]["code"] == "push.offline"


@pytest.mark.slow
def test_a_killed_push_is_continued(adapter: Path, hub: Hub, place: Path, push: Push) -> None:
    hub.hold.clear()
    command = [sys.executable, "-m", "zoo.gym", "push", str(adapter), "me/mine", *SEND]
    process = subprocess.Popen(command, env=os.environ | {"HF_TOKEN": TOKEN}, cwd=place)
    assert hub.waiting.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert hub.repos["me/mine"].files == {}
    hub.hold.set()
    assert push(*SEND)[0] == 0
    repo = hub.repos["me/mine"]
    assert len(repo.files) == 3
    assert repo.commits == 1


def test_files_that_were_stored_before_a_kill_are_not_sent_again(
    push: Push, hub: Hub, adapter: Path
) -> None:
    import hashlib

    content = (adapter / "adapter_model.safetensors").read_bytes()
    hub.stored[hashlib.sha256(content).hexdigest()] = content
    hub.repos["me/mine"] = Repo(private=True)
    push(*SEND)
    assert hub.uploads() == []
    assert hub.repos["me/mine"].files["adapter_model.safetensors"] == content
