"""The place Share: its tabs, and what their forms run, with commands that answer at once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input, Select, TabbedContent

from tests.gym.tui import fakes
from tests.gym.tui.answers import SMALL
from tests.gym.tui.conftest import Calls, Commands, Drive, screen_text, shows, until
from tests.gym.tui.test_chat import stand_beside
from zoo.gym.errors import GymError
from zoo.gym.jobs import Run
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.chat import choosing
from zoo.gym.tui.chat.screen import ChatScreen
from zoo.gym.tui.runs.run import RunScreen
from zoo.gym.tui.share import rounds_pane as share_rounds
from zoo.gym.tui.share.asking import Answer
from zoo.gym.tui.share.codings import CodingsScreen
from zoo.gym.tui.share.contribute import ContributeScreen
from zoo.gym.tui.share.screen import TABS

ROUND: dict[str, Any] = {
    "round": "4a5440f6301e5dcf307bf9cf76d38ee6",
    "name": "summer",
    "address": "/mnt/summer",
    "kind": "delta",
    "phase": "commit",
    "yours": [],
}
SHOWN: dict[str, Any] = {
    "round": ROUND["round"],
    "kind": "delta",
    "phase": "commit",
    "deadline": "2000-01-01T00:00:00Z",
    "committed": 1,
    "revealed": 0,
    "refused": [],
    "result": None,
    "contributors": [
        {
            "contributor": "ed25519:ae7e",
            "fingerprint": "60fd-9447-9c70-5338",
            "name": "",
            "state": "refused",
            "reason": "a copy of b64f-9a7f",
            "weight": None,
            "points": None,
        }
    ],
}
SENT: dict[str, Any] = {
    "round": ROUND["round"],
    "receipt": None,
    "digest": "0635a579af75780c7bd3371db85a7463",
    "bytes": 166720,
    "phase": "commit",
    "file": "/data/contribution.safetensors",
    "address": "/mnt/summer",
}
LIBRARY: dict[str, Any] = {
    "name": "sums",
    "version": 2,
    "lessons": 1,
    "tokens": 12,
    "model": "clerk",
    "evidence": {"verdict": "proven", "effect": 0.5},
    "versions": [1, 2],
    "items": [{"text": "Add the tens first.", "pinned": False}],
}
QUALITY = {"base": 7.8, "tuned": 3.2, "delta": 3.3, "recovered": 0.99, "top1": 0.7, "kl": 0.08}


def tuned() -> Run:
    """A run that is done, with a result."""
    run = fakes.trained(20)
    fakes.end(run, "done", model=str(run.result), metrics={"best_loss": 0.7})
    run.result.mkdir(parents=True, exist_ok=True)
    return run


def tab(number: int) -> tuple[str, ...]:
    """The keys that go to a tab."""
    return ("6", *(["right"] * number))


@pytest.mark.slow
def test_each_empty_tab_teaches_what_it_is_for(drive: Drive, commands: Commands) -> None:
    commands()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("6")
        for expected in (
            "Press n to start one",
            "Press c to store",
            "Press c to create",
            "Press l",
        ):
            await shows(pilot, expected, "For example")
            await pilot.press("right")

    drive(visit, size=(80, 24))


@pytest.mark.slow
def test_codings_come_into_the_table_and_another_one_can_be_chosen(
    drive: Drive, commands: Commands
) -> None:
    run = tuned()
    (run.result / "adapter_model.safetensors").write_bytes(bytes(90_000))
    lines = ["  36.2 kB  KL 0.0849  --bits 2", "  25.8 kB  KL 2.0074  --bits 1", "chosen: --bits 2"]
    calls = commands(delta_create=(lines, {"file": "/x", "quality": QUALITY}))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("6")
        await shows(pilot, run.id)
        await pilot.press("c")
        await shows(pilot, f"zoo-gym delta create {run.id} --max-bytes 30kB")
        assert calls == []
        await pilot.press("ctrl+s")
        await shows(pilot, "* --bits 2", "0.0849", "70.0%", "99.0%", "2.0074")
        await pilot.press("j", "enter")
        await shows(pilot, "Write with --bits 1", "--bits 1 --out")
        assert len(calls) == 1
        await pilot.press("ctrl+s")
        await shows(pilot, "* --bits 1")
        assert "--force" in calls[1]

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_size_and_file_follow_the_run_that_is_compressed(drive: Drive) -> None:
    for size in (90_000, 60_000):
        (tuned().result / "adapter_model.safetensors").write_bytes(bytes(size))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("6")
        await shows(pilot, "r0002")
        await pilot.press("c")
        await shows(pilot, "delta create r0002 --max-bytes 20kB", "r0002.delta")
        app.screen.query_one("#field-run", Select).value = "r0001"
        await shows(pilot, "delta create r0001 --max-bytes 30kB", "r0001.delta")
        app.screen.query_one("#field-size", Input).value = "7kB"
        app.screen.query_one("#field-run", Select).value = "r0002"
        await shows(pilot, "delta create r0002 --max-bytes 7kB", "r0002.delta")

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_an_error_of_a_command_is_shown_whole_and_the_form_stays(
    drive: Drive, commands: Commands
) -> None:
    tuned()
    commands(delta_create=GymError("no room: expected 9 GB, got 1", hint="choose another disk"))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("6")
        await shows(pilot, "r0001")
        await pilot.press("c", "ctrl+s")
        await shows(pilot, "no room: expected 9 GB", "choose another disk", "It failed")
        assert isinstance(app.screen, CodingsScreen)

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_a_refused_contribution_is_shown_with_its_reason(drive: Drive, commands: Commands) -> None:
    commands(round_list={"rounds": [ROUND]}, round_show=(["round summer", "mean"], SHOWN))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "summer", "refused: 60fd-9447-9c70-5338: a copy of b64f-9a7f")
        await shows(pilot, "[commit]", "past")

    drive(visit)


@pytest.mark.slow
def test_r_reads_what_others_have_sent_since(drive: Drive, commands: Commands) -> None:
    shown = [SHOWN | {"committed": 1}, SHOWN | {"committed": 2}]
    named = ROUND | {"name": "sum[/mer]"}
    commands(
        round_list={"rounds": [named]},
        round_show=lambda _: ([], shown.pop(0) if shown[1:] else shown[0]),
        round_ledger={"spent": []},
    )

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "Next: s contributes", "1 committed")
        await pilot.press("r")
        await shows(pilot, "2 committed", "Round sum[/mer]")
        await pilot.press("s")
        await shows(pilot, "Contribute to round sum[/mer]")

    drive(visit)


@pytest.mark.slow
def test_details_from_before_the_list_was_read_again_are_not_kept(
    drive: Drive, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands()
    calls, listed_again = list[str](), asyncio.Event()

    async def ask(words: Sequence[str], line: Any = None) -> Answer:
        calls.append(words[1])
        if words[1] == "list" and calls.count("list") > 1:
            listed_again.set()
            await asyncio.sleep(0.3)  # the details that are under way come in meanwhile
        if words[1] == "list":
            return Answer({"rounds": [ROUND]}, [])
        count = calls.count("show")
        if count == 1:
            await listed_again.wait()
        return Answer(SHOWN | {"committed": count}, [])

    monkeypatch.setattr(share_rounds, "ask_lines", ask)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await until(pilot, lambda: "show" in calls)
        await pilot.press("r")
        await shows(pilot, "2 committed")

    drive(visit)


@pytest.mark.slow
def test_the_keys_of_a_round_are_those_of_its_phase_and_role(
    drive: Drive, commands: Commands
) -> None:
    rounds = [ROUND, ROUND | {"round": "b" * 12, "name": "mine", "yours": ["maker"]}]
    rounds.append(ROUND | {"round": "c" * 12, "name": "old", "phase": "published"})
    commands(round_list={"rounds": rounds}, round_show=SHOWN)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "summer", "Contribute")
        assert "Close" not in screen_text(app)
        await pilot.press("j")
        await shows(pilot, "Close", "Contribute")
        await pilot.press("j")
        await shows(pilot, "Verify", "Apply")
        assert "Contribute" not in screen_text(app).splitlines()[-1]

    drive(visit)


@pytest.mark.slow
def test_a_contribution_leaves_only_after_the_word_send(drive: Drive, commands: Commands) -> None:
    run = tuned()

    def contribute(words: Sequence[str]) -> dict[str, Any]:
        return SENT | ({"receipt": "inbox/4557.json"} if "--send" in words else {})

    calls = commands(
        round_list={"rounds": [ROUND]},
        round_show=(["round summer", "mean, 3 contributors", "phase: commit"], SHOWN),
        round_ledger={"spent": []},
        round_contribute=contribute,
    )

    def contributions() -> Calls:
        return [words for words in calls if words[1] == "contribute"]

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(2))
        await shows(pilot, "summer")
        await pilot.press("s")
        await shows(pilot, "What leaves", "No privacy budget", "mean, 3", "take it back")
        await pilot.press("ctrl+s")
        await shows(pilot, "166.7 kB", "0635a579af75780c", "Prepared")
        usual = ["round", "contribute", run.id, "--round", ROUND["round"][:12]]
        assert contributions() == [[*usual, "--offline"]]
        app.screen.query_one("#field-examples", Input).value = "-x.jsonl"
        await shows(pilot, "Prepare")
        await pilot.press("ctrl+s")  # what was prepared had no examples
        await until(pilot, lambda: len(contributions()) == 2)
        assert "--examples=-x.jsonl" in contributions()[1]
        assert not any("--send" in words for words in contributions())
        app.screen.query_one("#field-examples", Input).value = ""
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len(contributions()) == 3)
        await shows(pilot, "Prepared")
        for typed in ("yes", ""):
            await pilot.press("ctrl+s")
            await shows(pilot, "Send to round summer?")
            await pilot.press(*typed, "enter", "escape")
            await until(pilot, lambda: isinstance(app.screen, ContributeScreen))
        assert len(contributions()) == 3
        await pilot.press("ctrl+s", *"send", "enter")
        await shows(pilot, "Receipt: inbox/4557.json")
        assert contributions()[3][-1] == "--send"
        await pilot.press("ctrl+s")
        assert len(contributions()) == 4

    drive(visit, size=(120, 40))


@pytest.mark.slow
def test_a_variant_is_deleted_after_a_yes_only(drive: Drive, commands: Commands) -> None:
    row = {"variant": "zen-pico:ann", "name": "ann", "base": "zen-pico", "bytes": 35136}
    calls = commands(variants_list={"variants": [row]}, variants_show=GymError("damaged"))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(1))
        await shows(pilot, "ann", "35.1 kB", "damaged", "Server: off")
        await pilot.press("D", "ctrl+s")
        await shows(pilot, "Delete zen-pico:ann, 35.1 kB?")
        await pilot.press("n", "ctrl+s")
        assert not [words for words in calls if words[1] == "remove"]
        await pilot.press("y")
        await shows(pilot, "Done.")
        assert ["variants", "remove", "zen-pico:ann", "--yes"] in calls

    drive(visit)


@pytest.mark.slow
def test_lessons_are_shown_with_the_verdict_of_their_gate(drive: Drive, commands: Commands) -> None:
    found = {"removed": ["Guess."], "added": ["Add the tens first."], "same": False}
    calls = commands(
        experience_list={"libraries": [LIBRARY]}, experience_show=LIBRARY, experience_diff=found
    )

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(3))
        await shows(pilot, "sums", "proven", "+50.0 points of 100", "Add the tens first.")
        await pilot.press("d", "ctrl+s")
        await shows(pilot, "- Guess.", "+ Add the tens first.")
        assert calls[-1] == ["experience", "diff", "sums@1", "sums@2"]

    drive(visit)


@pytest.mark.slow
def test_learning_starts_after_an_estimate_and_a_yes_that_names_what_leaves(
    drive: Drive, commands: Commands
) -> None:
    figures = {"low": 465, "expected": 574, "high": 2535}
    estimate = {"calls": figures, "tokens": figures, "usd": figures, "leaves": ["api.example.org"]}
    run = fakes.lessons_run(done=False)
    calls = commands(experience_estimate=estimate, experience_train={"run": run.id})

    def trainings() -> Calls:
        return [words for words in calls if words[1] == "train"]

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(3))
        await shows(pilot, "Press l")
        await pilot.press("l", *"t.jsonl", "tab", *"deepseek/x", "ctrl+s")
        await shows(pilot, "574  (465 to 2,535)", "api.example.org", "Start ...")
        await pilot.press("ctrl+s")
        await shows(pilot, "sent to api.example.org", "Cap: 5 USD")
        assert not trainings()
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert [words[-2:] for words in trainings()] == [["--yes", "--detach"]]

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_a_changed_form_has_to_be_estimated_again(drive: Drive, commands: Commands) -> None:
    figures = {"low": 1, "expected": 2, "high": 3}
    estimate = {"calls": figures, "tokens": figures, "usd": figures, "leaves": []}
    calls = commands(experience_estimate=estimate)

    def estimates() -> Calls:
        return [words for words in calls if words[1] == "estimate"]

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(3))
        await shows(pilot, "Press l")
        await pilot.press("l", *"t.jsonl", "tab", *"zen-pico", "ctrl+s")
        await until(pilot, lambda: str(app.screen.query_one("#run", Button).label) == "Start ...")
        app.screen.query_one("#field-usd", Input).value = "100"
        await shows(pilot, "estimate again")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len(estimates()) == 2)
        assert not [words for words in calls if words[1] == "train"]

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_a_small_file_a_variant_and_a_library_open_in_chat_beside_their_base(
    drive: Drive, commands: Commands, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    small = home / "data" / "deltas" / "mine.delta.safetensors"
    small.parent.mkdir(parents=True)
    small.touch()
    row = {"variant": "zen-pico:ann", "name": "ann", "base": "zen-pico", "bytes": 35136}
    answers = {
        "variants_list": {"variants": [row]},
        "variants_show": GymError("damaged"),
        "experience_list": {"libraries": [LIBRARY]},
        "experience_show": LIBRARY,
        "delta_info": SMALL,
    }
    commands(**answers)

    async def ask(words: list[str]) -> Any:
        return answers["_".join(words[:2])]

    monkeypatch.setattr(choosing, "ask_command", ask)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        for number, shown, key, model in (
            (0, "mine", "t", "zen-pico:mine.delta"),
            (1, "ann", "t", "zen-pico:ann"),
            (3, "sums", "c", "zen-pico+sums"),
        ):
            await pilot.press("6")
            await pilot.pause()
            app.screen.query_one(TabbedContent).active = list(TABS)[number]
            await shows(pilot, shown)
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, ChatScreen))
            chat = app.screen
            assert isinstance(chat, ChatScreen)
            await stand_beside(pilot, chat, ["zen-pico", model])

    drive(visit)
