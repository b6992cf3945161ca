"""Lessons in other forms, in and out."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.errors import InputError
from zoo.gym.experience.library.exchange import (
    FORMS,
    read_foreign,
    to_ace,
    to_markdown,
    to_skill,
    to_youtu,
)
from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.item import Item, lesson_text
from zoo.gym.experience.library.library import Library

LIBRARY = Library(
    (Item("Check the sign first.", better=2), Item("Use whole - numbers.", step=3)),
    "m",
    evidence={"effect": 0.5},
)


@pytest.mark.parametrize("form", [make for make, _ in FORMS.values()])
def test_what_is_written_is_read_with_all_that_is_known(
    form: Callable[[Library, str], str], tmp_path: Path
) -> None:
    path = tmp_path / "l.md"
    path.write_text(form(LIBRARY, "Sums of two"))
    assert read_foreign(path, LIBRARY) == (LIBRARY, [])
    counts = {2, 0} if form is to_ace else {0}
    assert {item.better for item in read_foreign(path)[0].items} == counts


def test_a_text_changed_by_hand_loses_the_evidence(tmp_path: Path) -> None:
    path = tmp_path / "l.md"
    path.write_text(to_markdown(LIBRARY, "x").replace("whole - numbers", "fractions"))
    found, _ = read_foreign(path, LIBRARY)
    assert {item.text: item.better for item in found.items} == {
        "Check the sign first.": 2,
        "Use fractions.": 0,
    }
    assert (found.evidence, found.model) == ({}, "m")


def test_a_skill_has_a_name_and_description_within_limits() -> None:
    library = Library(LIBRARY.items, domain='sums: "two" ' + "x" * 1500)
    head = to_skill(library, "Sums & More" + "y" * 90).split("---\n")[1].splitlines()
    assert head[0] == f"name: sums-more{'y' * 55}"
    assert len(json.loads(head[1].removeprefix("description: "))) == 1024


def test_libraries_of_other_programs_are_read(tmp_path: Path) -> None:
    youtu, ace = tmp_path / "experiences.json", tmp_path / "playbook.txt"
    youtu.write_text(json.dumps({"G0": "Signs: check them.", "G1": "Units: name them.", "x": 1}))
    ace.write_text("## STRATEGIES\n[str-00001] helpful=4 harmful=1 :: Check the units.\n")
    assert {item.text for item in read_foreign(youtu)[0].items} == {
        "Signs: check them.",
        "Units: name them.",
    }
    [item] = read_foreign(ace)[0].items
    assert (item.text, item.better, item.worse) == ("Check the units.", 4, 1)


def test_the_forms_of_other_programs_are_theirs() -> None:
    [first, second] = LIBRARY.items
    assert json.loads(to_youtu(LIBRARY, "x")) == {"G0": first.text, "G1": second.text}
    lines = [line for line in to_ace(LIBRARY, "x").splitlines() if line.startswith("[")]
    assert lines == [
        f"[str-{n:05d}] helpful={item.better} harmful={item.worse} :: {item.text}"
        for n, item in enumerate(LIBRARY.items, 1)
    ]


def test_lessons_of_an_agent_are_read_without_its_instructions(tmp_path: Path) -> None:
    result = "Solve it.\n\nRead:\n\n[G0]. Signs: check\n them.\n\n[G1]. Units: 2. name them.\nEnd."
    agent = {"type": "simple", "agent": {"name": "a", "instructions": result}}
    path = tmp_path / "agent.yaml"
    path.write_text("# @package _global_\n" + yaml.dump(agent, width=40))
    found, left_out = read_foreign(path)
    assert {item.text for item in found.items} == {"Signs: check them.", "Units: 2. name them."}
    others = [one.removeprefix(str(path)) for one in left_out]
    assert others == [
        ":instructions: expected a list of lessons, got other text: Solve it. Read:",
        ":2: expected a list of lessons, got other text: End.",
    ]


@pytest.mark.parametrize("text", ["agent: [", "- a", "agent: {instructions: 5}", "agent: text"])
def test_yaml_without_lessons_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match=r"a\.yaml"):
        read_foreign(tmp_path / "a.yaml")


def test_a_file_for_which_nobody_vouches_has_no_evidence(tmp_path: Path) -> None:
    items = tuple(replace(item, evidence={"probe": 1.0}) for item in LIBRARY.items)
    write_library(tmp_path / "l.json", replace(LIBRARY, items=items))
    found, _ = read_foreign(tmp_path / "l.json")
    assert (found.text, found.model, found.evidence) == (LIBRARY.text, "m", {})
    assert [(item.step, item.evidence) for item in found.items] == [(0, {}), (0, {})]


def test_known_lessons_of_a_foreign_file_keep_what_is_stored(tmp_path: Path) -> None:
    other = Library((replace(LIBRARY.items[0], better=9), Item("New.", step=4)), "n")
    write_library(tmp_path / "l.json", other)
    own = replace(LIBRARY.items[0], step=1, evidence={"probe": 1.0})
    found, _ = read_foreign(tmp_path / "l.json", Library((own,)))
    assert {item.text: item.step for item in found.items} == {own.text: 1, "New.": 0}
    assert own in found.items
    assert found.evidence == {}


def test_a_text_changed_by_hand_has_the_old_lesson_as_parent(
    tmp_path: Path,
) -> None:
    path = tmp_path / "l.md"
    old, other = LIBRARY.items
    path.write_text(f"- {old.text} <!-- {old.id} -->\n- Changed. <!-- {other.id} -->\n- New.\n")
    found, _ = read_foreign(path, LIBRARY)
    parents = {item.text: item.parents for item in found.items}
    assert parents == {old.text: old.parents, "Changed.": (other.id,), "New.": ()}
    assert [item.parents for item in read_foreign(path)[0].items] == [()] * 3


def test_what_is_no_lesson_is_left_out_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "l.md"
    path.write_text(f"# Title\n\nText.\n\n- Good one.\n- {'w ' * 40}\n")
    found, left_out = read_foreign(path)
    assert [item.text for item in found.items] == ["Good one."]
    assert left_out[0] == f"{path}:3: expected a list of lessons, got other text: Text."
    assert left_out[1].startswith(f"{path}:6: lesson: expected at most 32 words")
    assert len(left_out) == 2


@pytest.mark.parametrize("text", ["", "just text", '{"a": 1}', "{", "\xff\x00"])
def test_a_file_without_lessons_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "l.md"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError):
        read_foreign(path)
    with raises("experience.no_such_file"):
        read_foreign(tmp_path / "absent")


def lesson(text: str) -> str | None:
    """Returns a text as a lesson has it, None if it is none."""
    try:
        return lesson_text(text)
    except InputError:
        return None


TEXTS = st.lists(
    st.one_of(
        st.text(max_size=80),
        st.from_regex(
            r"\A(?:[-*+] |\d\. |\[[0-9a-f, x]{0,17}\] ?|# |<!-- ?|[G0-9\[\]. :|-]){1,6}x"
        ),
        st.from_regex(r"\Ax ?(?:<!--|-->|[0-9a-f]{16}|:: | ){1,6}"),
    )
    .map(lesson)
    .filter(bool),
    min_size=1,
    max_size=5,
    unique=True,
)


@pytest.mark.parametrize("form", [*FORMS, "json"])
@given(texts=TEXTS, with_known=st.booleans())
@example(texts=["[1, 2] is a list; count it", "[Hint] x", "1. x", "- x", "# x"], with_known=False)
@example(texts=[Item("x").id, f"[{Item('x').id[:6]}] y", "x"], with_known=True)
@example(texts=[f"x <!-- {Item('x').id} -->", "x <!-- y -->", "<!-- -->", "---"], with_known=True)
@pytest.mark.slow
def test_any_lessons_are_the_same_after_export_and_import(
    form: str, texts: list[str], with_known: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = Library(tuple(map(Item, texts)))
    path = tmp_path_factory.mktemp("forms") / "l.json"
    if form == "json":
        write_library(path, library)
    else:
        path.write_text(FORMS[form][0](library, "name"), encoding="utf-8")
    found, left_out = read_foreign(path, library if with_known else None)
    assert {item.text for item in found.items} == set(texts)
    assert left_out == []


def read(tmp_path: Path, text: str, known: Library | None = None) -> tuple[set[str], list[str]]:
    """Returns the texts of lessons in a file, and what was left out, without the file's name."""
    path = tmp_path / "wrap.md"
    path.write_text(text)
    found, left_out = read_foreign(path, known)
    return {item.text for item in found.items}, [one.removeprefix(str(path)) for one in left_out]


def test_a_lesson_has_all_lines_of_its_item(tmp_path: Path) -> None:
    text = "- Check the sign\n  before\nyou write.\n\n  And after.\n1. Count\n   twice.\n2) Stop.\n"
    assert read(tmp_path, text) == (
        {"Check the sign before you write. And after.", "Count twice.", "Stop."},
        [],
    )


def test_nested_items_headings_and_rules_end_an_item(tmp_path: Path) -> None:
    text = "- Outer.\n  - Inner.\n# Title\n- Other.\n---\n* * *\n+ Last.\n"
    assert read(tmp_path, text) == ({"Outer.", "Inner.", "Other.", "Last."}, [])


def test_brackets_are_of_the_lesson_unless_they_are_its_id(tmp_path: Path) -> None:
    old = LIBRARY.items[0]
    text = f"- [Hint] Keep units.\n- [x] Done.\n- [abcdef] No id.\n- [{old.id[:6]}] Changed.\n"
    kept = {"[Hint] Keep units.", "[x] Done.", "[abcdef] No id."}
    assert read(tmp_path, text, LIBRARY) == (kept | {"Changed."}, [])
    assert read(tmp_path, text) == (kept | {f"[{old.id[:6]}] Changed."}, [])


def test_text_beside_the_lists_is_named(tmp_path: Path) -> None:
    text = "---\nname: a\n---\nOne\nparagraph.\n\n- Good. <!-- why -->\n\nBehind it.\n- \n"
    assert read(tmp_path, text) == (
        {"Good."},
        [
            ":4: expected a list of lessons, got other text: One paragraph.",
            ":7: expected a lesson, got a comment behind it: why",
            ":9: expected a list of lessons, got other text: Behind it.",
            ":10: lesson: expected some text, got none",
        ],
    )


def test_each_key_of_experiences_is_taken_or_named(tmp_path: Path) -> None:
    text = '{"G0": "a", "G0": "b", "tip": "c", "G2": {"text": "d", "G3": "e"}}'
    assert read(tmp_path, text) == (
        {"a", "b"},
        [":tip: expected a key such as G0, got another one", ":G2: expected text, got dict"],
    )


@pytest.mark.slow
@given(text=st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "l.md"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(InputError):
        read_foreign(path)


def test_a_playbook_has_no_counts_of_lessons_learned_here() -> None:
    learned = Item("Add.", better=1, worse=4, step=1)
    theirs = Item("Count.", better=4, worse=1)
    result = to_ace(Library((learned, theirs)), "x")
    assert "helpful=0 harmful=0 :: Add." in result
    assert "helpful=4 harmful=1 :: Count." in result


@pytest.mark.parametrize(
    "hidden",
    [
        "<!--\n- Always prefer the larger.\n\n- Another one.\n-->",
        "<!-- see:\n- Always prefer the larger.\n-->",
        "- <!--\n  - Always prefer the larger.\n  -->",
        "<!-- see --> <!--\n- Always prefer the larger.\n-->",
        "  <!--\n# T\n1. Always prefer the larger. --> - More.",
    ],
)
def test_a_list_in_a_comment_is_left_out_and_named(hidden: str, tmp_path: Path) -> None:
    texts, [left_out] = read(tmp_path, f"- Check the sign.\n\n{hidden}\n\n- Check units.\n")
    assert texts == {"Check the sign.", "Check units."}
    assert left_out.startswith(":3: expected a list of lessons, got other text: ")
    assert "Always prefer" in left_out


def test_a_comment_without_an_end_hides_the_rest(tmp_path: Path) -> None:
    texts, [left_out] = read(tmp_path, "- Check the sign.\n<!--\n- One.\n- Two.\n")
    assert (texts, "One. - Two." in left_out) == ({"Check the sign."}, True)


@pytest.mark.parametrize(
    "line",
    [
        "[s-2] helpful=-1 harmful=0 :: neg",
        "[s-2] helpful=1.5 harmful=0 :: half",
        "[s-2] harmful=0 helpful=2 :: other",
    ],
)
def test_a_line_of_a_playbook_that_is_none_is_named(line: str, tmp_path: Path) -> None:
    good = "[s-{}] helpful=1 harmful=0 :: Check {}.\n"
    text = f"{good.format(1, 'units')}{line}\n{good.format(3, 'signs')}"
    texts, left_out = read(tmp_path, text)
    assert texts == {"Check units.", "Check signs."}
    assert left_out == [f":2: expected a list of lessons, got other text: {line}"]
