"""Share, Rounds: measuring, making void, rounds of lessons; commands answer at once."""

from collections.abc import Sequence
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.tui.conftest import Calls, Commands, Drive, screen_text, shows
from tests.gym.tui.test_share import LIBRARY, ROUND, SENT, SHOWN, tab
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.share.rounds import published

ID = str(ROUND["round"])[:12]
LESSONS = ROUND | {"kind": "experience"}
MEASURED = {"measured": 2, "refused": [], "reason": None}


def of_row(app: GymApp) -> set[str]:
    """The keys that act on the round under the cursor."""
    return set(app.screen.active_bindings) & set("svtxmaVpuX")


def of_verb(calls: Calls, verb: str) -> Calls:
    return [words for words in calls if words[:2] == ["round", verb]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "yours", "keys"),
    [
        ("commit", [], "s"),
        ("commit", ["maker", "gate"], "stxX"),
        ("reveal", ["maker"], "vtxX"),
        ("compute", ["gate"], "m"),
        ("compute", ["maker"], "aX"),
        ("published", ["maker", "gate"], "Vpu"),
        ("void", ["maker", "gate"], ""),
    ],
)
def test_each_key_of_a_round_needs_its_phase_and_role(
    drive: Drive, commands: Commands, phase: str, yours: list[str], keys: str
) -> None:
    row = ROUND | {"phase": phase, "yours": yours}
    commands(round_list={"rounds": [row]}, round_show=SHOWN | {"phase": phase})

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "Round summer")
        assert of_row(app) == set(keys)
        assert screen_text(app).splitlines()[-1].endswith("Quit")

    drive(visit, size=(80, 24))


@pytest.mark.slow
def test_a_round_is_measured_with_the_promised_files_after_a_yes(
    drive: Drive, commands: Commands
) -> None:
    row = ROUND | {"phase": "compute", "yours": ["gate"]}
    calls = commands(round_list={"rounds": [row]}, round_show=SHOWN, round_measure=MEASURED)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "summer", "Measure")
        await pilot.press("m")
        await shows(pilot, f"round measure --round {ID}")
        await pilot.press(*"/held.jsonl", "ctrl+s")
        await shows(pilot, "Measure and send?", "held-out examples")
        assert not of_verb(calls, "measure")
        await pilot.press("y")
        await shows(pilot, "Sent: 2 contributions measured")
        chosen = ["--evaluation", "/held.jsonl", "--offline", "--send"]
        assert of_verb(calls, "measure") == [["round", "measure", "--round", ID, *chosen]]

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_a_round_is_made_void_with_a_reason_after_a_yes(drive: Drive, commands: Commands) -> None:
    row = ROUND | {"phase": "reveal", "yours": ["maker"]}
    voided = {"round": ROUND["round"], "phase": "void", "reason": "-1 is wrong"}
    calls = commands(round_list={"rounds": [row]}, round_show=SHOWN, round_void=voided)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "summer", "Reveal")
        await pilot.press("X", "ctrl+s")
        await shows(pilot, "expected a value, got none")
        app.screen.query_one("#field-reason", Input).value = "-1 is wrong"
        await pilot.press("ctrl+s")
        await shows(pilot, "Make round summer void for good?")
        await pilot.press("y")
        await shows(pilot, "The round is void: -1 is wrong")
        assert of_verb(calls, "void") == [["round", "void", ID, "--because=-1 is wrong", "--yes"]]

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_a_round_of_lessons_is_created_and_measured_with_tasks(
    drive: Drive, commands: Commands
) -> None:
    row = LESSONS | {"phase": "compute", "yours": ["gate"]}
    sent = {"records": 3, "left": 0, "sent": True}
    calls = commands(round_list={"rounds": [row]}, round_show=SHOWN, round_measure=sent)
    values = {"name": "tips", "base": "zen-nano", "out": "/x", "gate": "ann ben"}

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "summer", "Measure")
        await pilot.press("C")
        await shows(pilot, "Create a round of lessons")
        for key, value in values.items():
            app.screen.query_one(f"#field-{key}", Input).value = value
        await shows(pilot, "--gate ann --gate ben")
        await pilot.press("ctrl+s")
        await shows(pilot, "The round is open.")
        words = "round create tips --base zen-nano --out /x --min-contributors 3"
        kind = "--kind experience --gate ann --gate ben --least 2 --offline"
        assert of_verb(calls, "create") == [f"{words} {kind}".split()]
        await pilot.press("escape", "m")
        await shows(pilot, "Measures each lesson by itself")
        await pilot.press(*"/t.jsonl", "tab", *"zen-nano", "ctrl+s")
        await shows(pilot, "The tasks are sent to zen-nano", "/mnt/summer")
        await pilot.press("y")
        await shows(pilot, "Sent: 3 signed records.")
        chosen = ["--round", ID, "--model", "zen-nano", "--send", "--yes"]
        assert of_verb(calls, "measure") == [["round", "measure", "/t.jsonl", *chosen]]

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_a_library_is_contributed_to_a_round_of_lessons(drive: Drive, commands: Commands) -> None:
    def contribute(words: Sequence[str]) -> dict[str, Any]:
        file = {"file": "/data/lessons.json"}
        return SENT | file | ({"receipt": "inbox/1.json"} if "--send" in words else {})

    calls = commands(
        round_list={"rounds": [LESSONS]},
        round_show=(["round summer", "lessons, kept at 2 of 3 keys", "phase: commit"], SHOWN),
        round_ledger={"spent": []},
        round_contribute=contribute,
        experience_list={"libraries": [LIBRARY]},
    )

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "summer", "Contribute")
        await pilot.press("s")
        await shows(pilot, "Library", "sums@2", "Lessons are texts", "The lessons can")
        await pilot.press("ctrl+s")
        await shows(pilot, "no lessons.", "lessons.json of 166.7 kB", "Prepared")
        await pilot.press("ctrl+s")
        await shows(pilot, "lessons stay here until you reveal")
        await pilot.press(*"send", "enter")
        await shows(pilot, "Receipt: inbox/1.json")
        usual = ["round", "contribute", "sums@2", "--round", ID, "--offline"]
        assert of_verb(calls, "contribute") == [usual, [*usual, "--send"]]

    drive(visit, size=(120, 40))


@pytest.mark.slow
def test_the_lessons_of_a_round_are_applied_to_a_library(drive: Drive, commands: Commands) -> None:
    row = LESSONS | {"phase": "published"}
    applied = {"file": "/data/tips/1.json"}
    calls = commands(round_list={"rounds": [row]}, round_show=SHOWN, round_apply=applied)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "summer", "Apply")
        assert of_row(app) == {"V", "p"}
        await pilot.press("p", "ctrl+s")
        await shows(pilot, "Verified and written: /data/tips/1.json")
        assert of_verb(calls, "apply") == [["round", "apply", ID]]  # takes no --offline

    drive(visit, size=(160, 45))


def test_what_was_published_is_said_of_weights_and_of_lessons() -> None:
    weights = {"weights": {"a": 0.5, "b": 0.5}, "refused": {"c": "a copy"}}
    assert published(weights) == "Published: 2 contributions count, 1 were refused."
    lessons = {"kept": 1, "lessons": [{}, {}], "refused": []}
    assert published(lessons) == "Published: 1 of 2 lessons are kept, 0 were refused."
