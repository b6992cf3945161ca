"""What a user takes away again, and where a typed word leads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.gym.cli.conftest import Outcome
from tests.gym.experience.conftest import Call
from zoo.gym.errors import GymWarning
from zoo.gym.experience import store
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.files import read_small


def save(*texts: str) -> None:
    store.save("rules", Library(tuple(map(Item, texts)), "m"))


def error_code(outcome: Outcome) -> str:
    return str(cast("Any", outcome.json["error"])["code"])


def test_a_removed_version_is_gone_and_its_number_not_reused(call: Call) -> None:
    call("experience", "list")
    save("One.")
    save("Two.")
    assert call("experience", "remove", "rules@2", "--yes", "--json").json["versions"] == [2]
    assert store.current("rules") == 1
    save("Three.")
    assert store.versions("rules") == [1, 3]


def test_once_the_version_in_use_is_removed_the_newest_is_used(call: Call) -> None:
    call("experience", "list")
    for text in ("One.", "Two.", "Three."):
        save(text)
    call("experience", "rollback", "rules", "1")
    call("experience", "remove", "rules@1", "--yes")
    assert store.current("rules") == 3


def test_a_version_that_is_saved_while_the_choice_is_read_is_loaded(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("experience", "list")
    save("One.")

    def read_late(path: Path) -> bytes:
        monkeypatch.setattr("zoo.gym.experience.store.read_small", read_small)
        save("Two.")
        return read_small(path)

    monkeypatch.setattr("zoo.gym.experience.store.read_small", read_late)
    assert store.load("rules").version == 2


@pytest.mark.parametrize("choice", [b"", b"9\n", b"\xff", b"-1", b"1 2"])
def test_a_damaged_choice_is_no_silent_change_of_version(call: Call, choice: bytes) -> None:
    call("experience", "list")
    save("One.")
    save("Two.")
    file = store.load("rules").path.parent / "current"
    file.write_bytes(choice)
    shown = call("experience", "show", "rules")
    assert shown.code == 2
    assert "expected a version of 1, 2, got" in shown.stderr
    assert call("experience", "rollback", "rules", "1").code == 0
    assert store.current("rules") == 1
    file.write_bytes(choice)
    save("Three.")
    assert store.current("rules") == 3


def test_a_refused_library_does_not_hide_the_others(call: Call) -> None:
    call("experience", "list")
    save("One.")
    store.save("sums", Library((Item("Carry the one."),), "m"))
    store.load("rules").path.write_text("{}")
    found = call("experience", "list", "--json")
    rows, refused = (cast("list[Any]", found.json[key]) for key in ("libraries", "refused"))
    assert [row["name"] for row in rows] == ["sums"]
    assert [row["name"] for row in refused] == ["rules"]
    assert "rules cannot be used: " in found.stderr
    assert call("experience", "list").code == 0


def lock(monkeypatch: pytest.MonkeyPatch, locked: str) -> None:
    """Makes the folders of a name such that nobody may list them."""
    listed = Path.iterdir

    def iterdir(folder: Path) -> Iterator[Path]:
        if folder.name == locked:
            raise PermissionError(13, "Permission denied", str(folder))
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", iterdir)


def test_a_folder_without_permission_is_no_empty_one(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("experience", "list")
    save("One.")
    lock(monkeypatch, "experience")
    shown = call("experience", "list", "--json")
    assert (shown.code, error_code(shown)) == (1, "cli.storage")
    assert "experience': permission denied" in shown.stderr


def test_a_library_that_cannot_be_listed_hides_no_other(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("experience", "list")
    save("One.")
    store.save("others", Library((Item("Two."),), "m"))
    lock(monkeypatch, "rules")
    with pytest.warns(GymWarning, match="rules: left out: Permission denied"):
        assert store.names() == ["others"]
    with pytest.raises(PermissionError):
        store.versions("rules")


def test_a_version_is_not_saved_beside_those_that_cannot_be_listed(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("experience", "list")
    save("One.")

    def refuse(folder: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(PermissionError):
        save("Two.")


def test_a_library_is_removed_after_a_yes_alone(call: Call) -> None:
    call("experience", "list")
    save("One.")
    assert call("experience", "remove", "rules").code == 2
    for words in (("show", "rules@new"), ("remove", "rules@new", "--yes")):
        refused = call("experience", *words, "--json")
        assert (refused.code, error_code(refused)) == (2, "experience.version")
    assert store.names() == ["rules"]
    assert call("experience", "remove", "rules", "--yes").code == 0
    assert store.names() == []


def test_a_server_is_shown_with_its_price_and_removed(call: Call) -> None:
    call("providers", "set", "home", "url=http://127.0.0.1:9/v1", "m.input=0.28", "m.output=0.4")
    call("providers", "set", "home", "max_usd=2")
    shown = call("providers", "list").stdout
    assert "m: input 0.28, output 0.4 USD for a million tokens" in shown
    assert "cap of a run: 2.00 USD" in shown
    assert call("providers", "remove", "home").code == 0
    assert "home" not in call("providers", "list").stdout
    assert call("providers", "remove", "home").code == 4


def test_a_chat_with_a_model_on_a_server_names_infer(call: Call) -> None:
    result = call("chat", "--model", "http://127.0.0.1:9/v1#m", "--experience", "rules")
    assert result.code == 2
    assert "hint: zoo-gym experience infer QUERY --model http://127.0.0.1:9/v1#m" in result.stderr


@pytest.mark.parametrize(("typed", "meant"), [("trian", "train"), ("esti", "estimate")])
def test_a_mistyped_command_is_corrected(call: Call, typed: str, meant: str) -> None:
    assert f"Did you mean '{meant}'?" in call("experience", typed).stderr
