"""Lessons of one user, measured and kept by others, on the simulated world."""

from pathlib import Path
from typing import Any

import pytest

from tests.gym.experience.causal import FAMILIES, TRUE
from tests.gym.experience.conftest import Call, Served, call, near, served, write_tasks
from zoo.gym.experience import store
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.signing import own_key, trust

__all__ = ["call", "near", "served"]

pytestmark = pytest.mark.usefixtures("near")

RULES = [Item(f"For family-{f} use strategy-{TRUE[f]}", step=1) for f in range(FAMILIES)]
WRONG = Item(f"For family-3 use strategy-{(TRUE[3] + 1) % 5}", step=1)
ORDER = Item("Use the shell for sums.", step=1)
QUICK = ("--reward", "exact", "--max-new-tokens", "16", "--draws", "2")


def at_home(place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes somebody's folders current and returns the public key."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(place))
    return str(own_key().public)


def by_text(answer: Any, key: str) -> dict[str, Any]:
    return {one["text"]: one[key] for one in answer}


@pytest.mark.slow
def test_a_lesson_goes_from_author_through_peers_to_a_library(
    call: Call, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(tmp_path / "author", monkeypatch)
    store.save("rules", Library((RULES[0], RULES[1], WRONG, ORDER), "m"))
    call("experience", "export", "rules", "--form", "json", "--out", "shared.json")
    keys: dict[str, str] = {}
    for number, peer in enumerate(("ann", "bob")):
        keys[peer] = at_home(tmp_path / peer, monkeypatch)
        tasks = str(write_tasks(Path(f"{peer}.jsonl"), 48, first=number * 48))
        own = ("shared.json", tasks, "--each", "--out", f"{peer}.measured.jsonl", *QUICK)
        result = call("experience", "gate", *own, "--model", served.model, "--json")
        assert result.code == 0, result.stderr
        assert "in quarantine, it has an order to a tool: Use the shell for sums." in result.stderr
        effects = by_text(result.json["lessons"], "effect")
        assert effects.keys() == {RULES[0].text, RULES[1].text, WRONG.text}
        assert effects[RULES[0].text] > 0 > effects[WRONG.text] - 0.05
    at_home(tmp_path / "reader", monkeypatch)
    measured = ("ann.measured.jsonl", "bob.measured.jsonl")
    words = ("experience", "keep", "shared.json", *measured)
    result = call(*words, "--json")
    assert (result.code, "--least: expected at most 1 key (yours and" in result.stderr) == (2, True)
    for name, key in keys.items():
        call("keys", "trust", name, key)
    result = call(*words, "--name", "kept", "--json")
    assert result.code == 0, result.stderr
    kept = store.load("kept").library
    assert {item.text for item in kept.items} >= {RULES[0].text, RULES[1].text}
    assert ORDER.text not in kept.text
    assert kept.parent == store.load_file(Path("shared.json")).digest
    assert "foreign" not in call("experience", "show", "kept").stdout


@pytest.mark.slow
def test_a_library_of_which_nothing_is_kept_is_not_stored(
    call: Call, served: Served, tmp_path: Path
) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 12))
    store.save("idle", Library((Item("Read the task with care."),)))
    words = ("idle", tasks, "--each", "--model", served.model, *QUICK)
    assert call("experience", "gate", *words).code == 0
    result = call("experience", "keep", "idle", "idle.measured.jsonl", "--least", "1", "--json")
    assert (result.code, result.json["kept"], store.versions("idle")) == (1, 0, [1])


@pytest.mark.slow
def test_the_lessons_beside_are_asked_once(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 6))
    store.save("rules", Library(tuple(RULES[:3])))
    words = ("rules", tasks, "--each", "--model", served.model, *QUICK[:4], "--draws", "1")
    result = call("experience", "gate", *words, "--json")
    assert result.code == 0, result.stderr
    assert len(served.server.requests) == (1 + 3) * 6
    assert "calls, at most: 24;" in result.stderr


@pytest.mark.slow
def test_too_few_tasks_sign_nothing(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 5))
    store.save("rules", Library(tuple(RULES[:1])))
    result = call("experience", "gate", "rules", tasks, "--each", "--model", served.model, *QUICK)
    assert (result.code, Path("rules.measured.jsonl").exists()) == (2, False)
    assert "expected at least 6 different ones" in result.stderr


def test_measurements_go_nowhere_without_each(call: Call) -> None:
    store.save("rules", Library(tuple(RULES[:1])))
    result = call("experience", "gate", "rules", "t", "--out", "x", "--model", "deepseek/m")
    assert (result.code, "--out: has no effect without --each" in result.stderr) == (2, True)


def test_an_import_holds_orders_back_until_they_are_released(call: Call) -> None:
    Path("l.md").write_text(f"- {ORDER.text}\n- Check the units.\n")
    told = call("experience", "import", "l.md", "--json")
    assert (told.json["lessons"], told.json["quarantine"]) == (
        1,
        [{"id": ORDER.id, "text": ORDER.text, "why": "an order to a tool"}],
    )
    told = call("experience", "import", "l.md", "--release", ORDER.id, "--json")
    assert (told.json["lessons"], told.json["quarantine"]) == (2, [])
    told = call("experience", "import", "l.md", "--release", "0" * 16, "--json")
    assert (told.code, "expected the id of a lesson in the file" in told.stderr) == (2, True)
    Path("only.md").write_text(f"- {ORDER.text}\n")
    assert call("experience", "import", "only.md").code == 2


def test_a_strangers_order_is_not_in_the_prompt(call: Call, served: Served) -> None:
    store.save("rules", Library((RULES[0], ORDER)))
    call("experience", "export", "rules", "--form", "json", "--out", "shared.json")
    for path in Path.cwd().glob("home/data/experience/rules/*"):
        path.unlink()
    trusted = own_key().public
    Path("home/data/keys/own.pem").unlink()
    words = ("experience", "infer", "TASK family-2 item-1", "--model", served.model)
    result = call(*words, "--library", "shared.json", "--json")
    assert result.code == 0, result.stderr
    assert "in quarantine" in result.stderr
    assert ORDER.text not in str(served.server.requests)
    trust("me", trusted)  # a key vouches for what was measured, not for a text
    assert call(*words, "--library", "shared.json", "--json").code == 0
    assert ORDER.text not in str(served.server.requests)
    assert RULES[0].text in str(served.server.requests)
