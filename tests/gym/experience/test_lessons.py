"""`zoo-gym experience infer, gate, import, export` on the simulated world."""

from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.experience.causal import FAMILIES, TRUE
from tests.gym.experience.conftest import Call, Served, write_tasks
from zoo.gym.experience import store
from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.use import doubts

pytestmark = pytest.mark.usefixtures("near")

RULES = [Item(f"For family-{f} use strategy-{TRUE[f]}") for f in range(FAMILIES)]
QUICK = ("--reward", "exact", "--max-new-tokens", "16", "--draws", "1")


def test_lessons_stand_before_the_query(call: Call, served: Served) -> None:
    store.save("rules", Library(tuple(RULES)))
    result = call(
        *("experience", "infer", "TASK family-2 item-1", "--model", served.model),
        *("--library", "rules", "--json"),
    )
    assert (result.code, result.json["lessons"]) == (0, 12)
    system, user = served.server.requests[0]["messages"]
    assert RULES[2].text in system["content"]
    assert user["content"] == "TASK family-2 item-1"
    assert "these lessons are unproven" in result.stderr
    assert "were learned for an unknown model" in result.stderr


def test_few_lessons_can_stand_before_the_query(call: Call, served: Served) -> None:
    store.save("some", Library((Item("Add the numbers."), Item("Draw a map of the snow."))))
    result = call(
        *("experience", "infer", "TASK family-2 item-1: numbers", "--model", served.model),
        *("--library", "some", "--top-k", "1", "--json"),
    )
    assert result.code == 0
    system = served.server.requests[0]["messages"][0]["content"]
    assert "Add the numbers." in system
    assert "snow" not in system


def test_pinned_lessons_stand_beside_the_nearest(call: Call, served: Served) -> None:
    texts = ["Add the numbers.", "Draw a map of the snow.", "Name each colour."]
    store.save("some", Library(tuple(map(Item, texts)), evidence={"effect": 0.5}))
    item = Item(texts[2])
    told = call("experience", "pin", "some", item.id[:6], "--json")
    assert (told.json["pinned"], told.json["version"]) == ([item.id], 2)
    assert told.json["evidence"] == {"effect": 0.5}  # all are read: the prompts are the same
    words = ("experience", "infer", "TASK family-2 item-1: numbers", "--model", served.model)
    call(*words, "--library", "some", "--top-k", "1")
    system = served.server.requests[-1]["messages"][0]["content"]
    assert [text in system for text in texts] == [True, False, True]
    assert call("experience", "pin", "some", item.id, "--off", "--json").json["pinned"] == []
    assert call("experience", "pin", "some", "0" * 16).code == 2
    assert call("experience", "pin", "some").code == 2


@pytest.mark.slow
def test_a_gate_passes_what_helps_and_nothing_else(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 24))
    store.save("rules", Library(tuple(RULES)))
    store.save("sayings", Library((Item("Read the task with care."),)))
    words = ("--model", served.model, *QUICK, "--json")
    good = call("experience", "gate", "rules", tasks, *words)
    assert (good.code, good.json["verdict"], good.json["tasks"]) == (0, "accepted", 24)
    bad = call("experience", "gate", "sayings", tasks, *words)
    assert (bad.code, bad.json["verdict"] in ("rejected", "not enough")) == (1, True)
    assert "error" not in bad.stderr + bad.stdout  # it is what was measured
    worse = call("experience", "gate", "sayings", tasks, "--against", "rules", *words)
    assert (worse.code, worse.json["verdict"]) == (1, "rejected")
    same = call("experience", "gate", "rules", tasks, "--against", "rules@1", *words)
    assert same.code == 2


@pytest.mark.slow
def test_what_a_gate_accepts_is_evidence_of_a_new_version(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 24))
    first = store.save("rules", Library(tuple(RULES), "m"))
    words = ("--model", served.model, *QUICK, "--json")
    result = call("experience", "gate", "rules", tasks, *words)
    assert (result.json["library"], store.current("rules")) == ("rules@2", 2)
    found = store.load("rules").library
    assert (found.parent, found.items) == (first.digest, first.library.items)
    assert {key: found.evidence[key] for key in ("verdict", "by", "model", "tasks")} == {
        "verdict": "proven",
        "by": "gate",
        "model": served.model,
        "tasks": 24,
    }
    assert result.json["interval"] == [found.evidence["low"], found.evidence["high"]]
    assert doubts(found, served.model) == []
    [doubt] = doubts(found, "m")
    assert "measured with http" in doubt


@pytest.mark.slow
def test_only_a_passed_gate_against_no_lessons_is_evidence(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 24))
    store.save("rules", Library(tuple(RULES)))
    store.save("sayings", Library((Item("Read the task with care."),)))
    words = ("--model", served.model, *QUICK, "--json")
    call("experience", "gate", "sayings", tasks, *words)
    over = call("experience", "gate", "rules", tasks, "--against", "sayings", *words)
    assert (over.code, over.json["library"]) == (0, None)
    assert (store.versions("sayings"), store.versions("rules")) == ([1], [1])


@pytest.mark.slow
def test_an_earlier_version_that_passes_a_gate_is_not_used(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 24))
    store.save("rules", Library(tuple(RULES)))
    store.save("rules", Library(tuple(RULES[:1])))
    words = ("--model", served.model, *QUICK, "--json")
    assert call("experience", "gate", "rules@1", tasks, *words).json["library"] == "rules@3"
    assert store.current("rules") == 2


def test_the_parent_of_an_import_is_its_file_or_version(call: Call) -> None:
    first = store.save("rules", Library(tuple(RULES[:2])))
    call("experience", "export", "rules", "--out", "rules.md")
    with Path("rules.md").open("a") as file:
        file.write("- One more.\n")
    call("experience", "import", "rules.md")
    assert store.load("rules").library.parent == first.digest
    digest = write_library(Path("theirs.json"), Library((Item("Theirs."),)))
    call("experience", "import", "theirs.json", "--name", "rules")
    assert store.load("rules").library.parent == digest
    Path("new.md").write_text("- Another.\n")
    call("experience", "import", "new.md", "--name", "rules")
    assert store.load("rules").library.parent == ""


@pytest.mark.slow
def test_a_prune_drops_what_does_not_help(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 24))
    idle = Item("Read the task with care.")
    wrong = Item(f"For family-3 use strategy-{(TRUE[3] + 1) % 5}")
    store.save("some", Library((RULES[1], idle, RULES[2], wrong)))
    words = ("some", tasks, "--model", served.model, *QUICK[:4], "--near", "2", "--draws", "3")
    told = call("experience", "prune", *words, "--json")
    assert told.code == 0
    assert {item.text for item in store.load("some").library.items} >= {
        RULES[1].text,
        RULES[2].text,
    }
    assert wrong.text not in store.load("some").library.text
    again = call("experience", "gate", *words[:-4], "--json")
    assert (again.code, "24 of 24" in again.stderr) == (2, True), again.stderr  # they decided
    assert [one["tasks"] for one in told.json["left_out"]] == [2] * 4  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_prune_without_a_reward_keeps_every_lesson(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 4))
    Path("broken.py").write_text("def score(query, response):\n    raise ValueError('down')\n")
    store.save("some", Library((RULES[1], RULES[2])))
    words = ("--reward", "broken.py:score", "--near", "1", "--draws", "1", "--yes")
    result = call("experience", "prune", "some", tasks, "--model", served.model, *words, "--json")
    assert (result.code, result.json["lessons"]) == (0, 2), result.stderr
    assert "kept, because there is no reward" in result.stderr


def test_a_library_that_could_not_be_read_again_is_no_version() -> None:
    store.save("rules", Library((RULES[0],)))
    with raises("experience.unwritable_library", "single blanks") as caught:
        store.save("rules", Library((Item("Check the sign. "),)))
    assert caught.value.code == "experience.unwritable_library"
    assert store.versions("rules") == [1]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["markdown", "skill", "json", "youtu", "ace"])
def test_lessons_go_out_and_come_back(form: str, call: Call) -> None:
    store.save("rules", Library(tuple(RULES[:3]), "m", evidence={"effect": 0.5}))
    out = call("experience", "export", "rules", "--form", form, "--json")
    file = str(out.json["file"])
    back = call("experience", "import", file, "--name", "rules", "--json")
    assert (back.code, back.json["version"], back.json["evidence"]) == (0, 1, {"effect": 0.5})
    assert call("experience", "export", "rules", "--form", form, "--json").code == 2
    new = call("experience", "import", file, "--name", "other", "--json")
    kept = {"effect": 0.5} if form == "json" else {}
    assert (new.json["lessons"], new.json["evidence"]) == (3, kept)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "nothing"), 4),
        (("export", "nothing"), 4),
        (("export", "rules", "--form", "poem"), 2),
        (("show", "rules@x"), 2),
        (("show", "rules@7"), 4),
        (("import", "absent.md"), 4),
        (("import", "rules.md", "--name", "../up"), 2),
        (("infer", "hi", "--model", "zen-nano"), 4),
        (("gate", "rules", "--model", "deepseek/m"), 2),
        (("replay", "r0001"), 4),
    ],
    ids=str,
)
def test_what_is_not_there_or_not_meant_is_a_sentence(
    words: tuple[str, ...], code: int, call: Call
) -> None:
    store.save("rules", Library(tuple(RULES[:3])))
    Path("rules.md").write_text("- One lesson.\n")
    result = call("experience", *words, "--json")
    assert (result.code, "Traceback" in result.stderr) == (code, False), result.stderr


@pytest.mark.parametrize(
    ("form", "file"),
    [
        ("skill", "rules/SKILL.md"),
        ("youtu", "rules.experiences.json"),
        ("ace", "rules.playbook.txt"),
        ("markdown", "rules.md"),
    ],
)
def test_ones_own_export_comes_back_to_its_library(call: Call, form: str, file: str) -> None:
    call("experience", "list")
    store.save("rules", Library((Item("Mine.", step=2), Item("Theirs.")), "m"))
    call("experience", "export", "rules", "--form", form)
    found = call("experience", "import", file, "--json").json
    assert (found["name"], found["version"]) == ("rules", 1)  # the same lessons: no new version
    shown = call("experience", "show", "rules").stdout
    assert "Theirs. (foreign)" in shown
    assert "Mine. (foreign)" not in shown
    assert "step 2" in shown


def test_a_skill_has_its_own_name(call: Call, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: 'sorting'\ndescription: x\n---\n\n- Sort.\n")
    assert call("experience", "import", "SKILL.md", "--json").json["name"] == "sorting"


def test_a_foreign_file_replaces_no_library_without_its_name(call: Call, tmp_path: Path) -> None:
    evidence = {"verdict": "proven", "effect": 0.2, "low": 0.1, "high": 0.3}
    mine = (Item("Sort by size.", step=1), Item("Sort by age.", step=1))
    store.save("sorting", Library(mine, "m", evidence=evidence))
    (tmp_path / "SKILL.md").write_text("---\nname: sorting\n---\n\n- Sort by colour.\n")
    result = call("experience", "import", "SKILL.md")
    assert result.code == 2
    assert "the file has 0 of the 2 lessons of sorting@1 (proven" in result.stderr
    assert "--name sorting; otherwise choose another name" in result.stderr
    assert store.versions("sorting") == [1]
    assert call("experience", "import", "SKILL.md", "--name", "sorting").code == 0
