"""Chat: models side by side, what differs, blind votes, and the server behind them."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Static

from tests.gym.tui import fakes
from tests.gym.tui.chat_stub import Stub
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.errors import NotAvailableError
from zoo.gym.jobs import Run
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.chat import choosing as chat
from zoo.gym.tui.chat.answers import Column
from zoo.gym.tui.chat.compare import read_score
from zoo.gym.tui.chat.screen import ChatScreen
from zoo.gym.tui.chat.server import Answer, ChatServer, request_body
from zoo.gym.tui.chat.sources import (
    Source,
)
from zoo.gym.tui.chat.turns import Turn

BASE, RUN = Source("base", "zen-pico"), Source("run", "r0001")

VARIANTS: dict[str, Any] = {
    "variants": [
        {
            "variant": "zen-pico:ann",
            "name": "ann",
            "base": "zen-pico",
            "file": "/x/ann.safetensors",
            "bytes": 9,
        },
        {
            "variant": "smollm2:bob",
            "name": "bob",
            "base": "smollm2",
            "file": "/x/bob.safetensors",
            "bytes": 9,
        },
    ],
    "more": False,
}
LIBRARIES: dict[str, Any] = {
    "libraries": [{"name": "balls", "version": 1, "lessons": 2, "model": "clerk", "versions": [1]}],
    "refused": [],
}


def tuned_run(model: str = "zen-pico") -> Run:
    """A run that is done, with an adapter."""
    run = fakes.new_run()
    run.config_file.write_text(fakes.CONFIG.replace("zen-pico", model))
    fakes.train(run, 1, 3, steps=3)
    fakes.end(run, "done")
    run.result.mkdir()
    (run.result / "adapter_config.json").write_text("{}")
    return run


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.hold.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def faked(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """The screen's server is the stub, which is ready at once; commands list what is above."""

    def start(server: ChatServer) -> None:
        server.url, server.name, server.state = stub.url, server.base, "ready"

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, Any]:
        return VARIANTS if words[0] == "variants" else LIBRARIES

    monkeypatch.setattr(ChatServer, "start", start)
    monkeypatch.setattr(chat, "ask_command", answer)
    return stub


async def opened(app: GymApp, pilot: Pilot[None]) -> ChatScreen:
    """Returns the screen once it has read everything."""
    await pilot.press("5")
    screen = app.screen
    assert isinstance(screen, ChatScreen)
    await until(pilot, lambda: any(source.kind == "lessons" for source in screen.sources))
    return screen


async def say(pilot: Pilot[None], screen: ChatScreen, prompt: str) -> Turn:
    """Sends a prompt and waits for the answers."""
    count = len(screen.talk.turns)
    screen.action_write()
    await pilot.press(*prompt, "enter")
    await until(pilot, lambda: len(screen.talk.turns) > count and not screen.talk.is_answering)
    await until(pilot, lambda: not screen.was_answering)
    turn = screen.talk.current
    assert turn is not None
    return turn


def models_of(screen: ChatScreen) -> list[str]:
    """What the server is asked for, by column."""
    return [source.model(screen.base) for source in screen.columns]


async def stand_beside(pilot: Pilot[None], screen: ChatScreen, models: list[str]) -> None:
    await until(pilot, lambda: models_of(screen) == models)


def marked(column: Column) -> list[str]:
    """The marked words of a column's newest answer."""
    content = column.query(Static).last().content
    assert isinstance(content, Content)
    return [content.plain[span.start : span.end] for span in content.spans]


def done(text: str) -> Answer:
    return Answer(text, finish="stop")


# without a screen


def asked(stub: Stub, model: str) -> Answer:
    server, answer = ChatServer("m", {}), Answer()
    server.url = stub.url
    answer.ask(server, request_body(model, [], seed=1, temperature=0.5, max_tokens=7))
    return answer


def wait(holds: Callable[[], object], limit_s: float = 10.0) -> None:
    event = threading.Event()
    for _ in range(round(limit_s / 0.01)):
        if holds():
            return
        event.wait(0.01)
    raise AssertionError("it did not come to hold")


def test_an_answer_is_read_piece_by_piece_with_what_was_asked(stub: Stub) -> None:
    stub.replies["m"] = ["It ", "is."]
    answer = asked(stub, "m")
    wait(lambda: answer.finish)
    assert (answer.text, answer.finish, answer.tokens) == ("It is.", "stop", 2)
    body = stub.asked[0]
    assert (body["seed"], body["temperature"], body["max_tokens"]) == (1, 0.5, 7)


def test_a_refusal_is_the_error_of_the_answer(stub: Stub) -> None:
    answer = asked(stub, "other")
    wait(lambda: answer.finish)
    assert answer.finish == "error"
    assert str(answer.error) == "model: no such one"


def test_a_stream_that_breaks_off_is_no_answer(stub: Stub) -> None:
    stub.replies["m"] = ["It ", "is."]
    stub.breaks = True
    answer = asked(stub, "m")
    wait(lambda: answer.finish)
    assert (answer.text, str(answer.error)) == (
        "It is.",
        "expected a whole answer, got a part of it",
    )


def test_stopping_closes_the_request(stub: Stub) -> None:
    stub.replies["m"] = ["It ", "is."]
    stub.hold.clear()
    answer = asked(stub, "m")
    wait(lambda: answer.text == "It ")
    answer.stop()
    assert stub.gone.wait(10)
    assert (answer.text, answer.finish, answer.error) == ("It ", "stopped", None)


# the screen


@pytest.mark.slow
def test_without_runs_it_says_what_is_needed_and_chats(
    drive: Drive, faked: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VARIANTS, "variants", VARIANTS["variants"][1:])  # those of another base
    faked.replies["zen-pico"] = ["Hello."]

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        await shows(pilot, "Side by side needs a fine-tune of zen-pico", "cannot converse")
        await say(pilot, screen, "Hi")
        await say(pilot, screen, "You")
        await shows(pilot, "> Hi", "Hello.", "> You")
        contents = [each["content"] for each in faked.asked[-1]["messages"]]
        assert contents == ["Hi", "Hello.", "You"]

    drive(visit)


@pytest.mark.slow
def test_a_run_stands_beside_its_base_and_what_differs_is_marked(drive: Drive, faked: Stub) -> None:
    tuned_run()
    faked.replies |= {"zen-pico": ["a red ", "ball"], "zen-pico:r0001": ["a blue ", "ball"]}

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        await say(pilot, screen, "Say")
        await shows(pilot, "a red ball", "a blue ball", "zen-pico (cannot", "run r0001 (cannot")
        assert [marked(column) for column in screen.query(Column)] == [["red"], ["blue"]]
        assert "has no effect" not in screen_text(app)
        first, second = faked.asked
        assert first | {"model": ""} == second | {"model": ""}

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_equal_answers_are_said_to_be_no_effect(drive: Drive, faked: Stub) -> None:
    tuned_run()
    faked.replies |= {"zen-pico": ["x"], "zen-pico:r0001": ["x"]}

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        for prompt in "ab":
            await say(pilot, screen, prompt)
        await shows(pilot, "equals zen-pico on 2 of 2 prompts: this adapter has no effect on them")

    drive(visit, size=(160, 36))


@pytest.mark.slow
def test_an_error_stands_in_its_column_and_the_rest_is_intact(drive: Drive, faked: Stub) -> None:
    tuned_run()
    faked.replies["zen-pico"] = ["fine"]

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        await say(pilot, screen, "Say")
        await shows(pilot, "fine", "model: no such one", "failed")

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_escape_stops_the_answers_and_then_leaves_the_prompt(drive: Drive, faked: Stub) -> None:
    faked.replies["zen-pico"] = ["one ", "two"]
    faked.hold.clear()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        await pilot.press("w", *"Say", "enter")
        await shows(pilot, "one", "Stop")
        await pilot.press("escape")
        await shows(pilot, "stopped, first")
        assert faked.gone.wait(10)
        assert screen.prompt.has_focus
        await pilot.press("escape", "2")
        assert app.current_mode == "models"

    drive(visit)


@pytest.mark.slow
def test_a_prompt_waits_for_the_models_and_a_server_that_fails_says_why(
    drive: Drive, faked: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(server: ChatServer) -> None:
        server.state = "loading"

    monkeypatch.setattr(ChatServer, "start", load)
    faked.replies["zen-pico"] = ["ready"]

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        await pilot.press("w", *"Say", "enter")
        await shows(pilot, "loading zen-pico ...")
        server = screen.server
        assert server is not None
        server.error = NotAvailableError("no memory", hint="close something")
        server.state = "failed"
        await shows(pilot, "no memory", "hint: close something")
        await pilot.press(*"Again", "enter")
        assert screen.server is not server
        assert screen.server is not None
        screen.server.url, screen.server.name, screen.server.state = faked.url, "zen-pico", "ready"
        await shows(pilot, "no memory", "> Again", "ready")

    drive(visit)


@pytest.mark.slow
def test_names_are_hidden_until_the_vote_which_is_kept(drive: Drive, faked: Stub) -> None:
    tuned_run()
    faked.replies |= {"zen-pico": ["one"], "zen-pico:r0001": ["two"]}

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        await pilot.press("v")
        turn = await say(pilot, screen, "Say")
        await shows(pilot, "Which answer is better?")
        titles = [str(column.border_title) for column in screen.query(Column)]
        subtitles = {column.border_subtitle for column in screen.query(Column)}
        assert (titles, subtitles) == (["A", "B"], {"complete"})
        await pilot.press("b")
        assert turn.blind is not None
        loser, winner = turn.blind
        await shows(pilot, f"A was {loser.label}, B was {winner.label}", "too few votes to say")
        assert f"{winner.label} (cannot" in screen_text(app)
        score = read_score("zen-pico", "zen-pico:r0001")
        assert score.votes == (int(winner == BASE), int(winner != BASE))
        await pilot.press("a")
        assert read_score("zen-pico", "zen-pico:r0001") == score

    drive(visit, size=(160, 36))


@pytest.mark.slow
def test_the_order_of_a_blind_vote_is_random_and_ends_with_it(drive: Drive, faked: Stub) -> None:
    tuned_run()
    faked.replies |= {"zen-pico": ["one"], "zen-pico:r0001": ["two"]}

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        screen.random.seed(0)
        await pilot.press("v")
        orders = set()
        for _ in range(6):
            orders.add((await say(pilot, screen, "Say")).blind)
        assert len(orders) == 2
        await pilot.press("v")
        await shows(pilot, "zen-pico (cannot", "run r0001 (cannot")
        assert screen.talk.current is not None
        assert not screen.talk.current.can_be_voted

    drive(visit, size=(160, 36))


@pytest.mark.slow
def test_runs_can_be_selected_from_elsewhere(drive: Drive, faked: Stub) -> None:
    first, second = tuned_run(), tuned_run()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        assert [source.name for source in screen.columns] == ["zen-pico", second.id]
        screen.select([first.id])
        await until(pilot, lambda: [each.name for each in screen.columns] == ["zen-pico", first.id])
        screen.select(["r9999"])
        await shows(pilot, "r9999: expected a run that is done, with an adapter")
        assert [each.name for each in screen.columns] == ["zen-pico", first.id]

    drive(visit)


@pytest.mark.slow
def test_a_library_a_variant_and_a_file_can_be_selected_from_elsewhere(
    drive: Drive, faked: Stub, tmp_path: Path
) -> None:
    delta = tmp_path / "mine.safetensors"
    delta.touch()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        for names, lessons, expected in (
            ([], ["balls"], ["zen-pico", "zen-pico+balls"]),
            (["ann", str(delta)], [], ["zen-pico", "zen-pico:ann", "zen-pico:mine"]),
        ):
            screen.select(names, lessons=lessons)
            await stand_beside(pilot, screen, expected)
        screen.select(base="zen-nano", lessons=["absent"])
        await shows(pilot, "zen-nano: expected a model on this machine")

    drive(visit)


@pytest.mark.slow
def test_the_lessons_of_a_column_are_chosen_by_a_key(drive: Drive, faked: Stub) -> None:
    tuned_run()
    faked.replies |= {"zen-pico": ["a"], "zen-pico:r0001+balls": ["b"]}

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        screen.side.listing.focus()
        await pilot.press("down", "l")
        await shows(pilot, "Lessons of run r0001", "balls", "2 lessons, for clerk")
        await pilot.press("j", "enter")
        await until(pilot, lambda: models_of(screen) == ["zen-pico", "zen-pico:r0001+balls"])
        await say(pilot, screen, "Say")
        await shows(pilot, "run r0001+balls")
        assert {each["model"] for each in faked.asked} == {"zen-pico", "zen-pico:r0001+balls"}
        screen.query(Column).last().focus()
        await pilot.press("l", "g", "enter")  # none
        await until(pilot, lambda: models_of(screen) == ["zen-pico", "zen-pico:r0001"])

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_the_base_is_chosen_by_a_key(
    drive: Drive, faked: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [("zen-pico", "built in"), ("smollm2", "in the cache")]
    monkeypatch.setattr(chat, "available_models", lambda: models)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        first = screen.base
        await pilot.press("escape", "o", "up" if first == "smollm2" else "down", "enter")
        await until(pilot, lambda: screen.base not in {"", first})
        assert models_of(screen) == [screen.base]

    drive(visit, size=(80, 24))


@pytest.mark.slow
def test_a_dropped_adapter_gets_a_column_and_other_text_goes_to_the_prompt(
    drive: Drive, faked: Stub, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "adapter_config.json").write_text("{}")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        await pilot.press("w")
        app.post_message(Paste(f"'{tmp_path / 'mine'}'"))
        await shows(pilot, "file mine (cannot")
        assert f"--variant=mine={tmp_path / 'mine'}" in screen.command
        app.post_message(Paste("two\nlines"))
        await until(pilot, lambda: screen.prompt.text == "two\nlines")

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_at_most_four_columns_stand_side_by_side(drive: Drive, faked: Stub) -> None:
    for _ in range(4):
        tuned_run()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        screen.side.listing.select_all()
        await pilot.pause()
        await shows(pilot, "At most 4 columns")
        assert len(screen.columns) <= 4
        assert len(screen.side.listing.selected) <= 4

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_an_answer_cannot_control_the_terminal(drive: Drive, faked: Stub) -> None:
    faked.replies["zen-pico"] = ["\x1b]0;owned\x07 [b]x[/b]"]

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        screen = await opened(app, pilot)
        await say(pilot, screen, "Hi")
        await shows(pilot, "\\x1b]0;owned\\x07 [b]x[/b]")

    drive(visit)


def test_the_token_of_the_server_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ChatServer("m", {})
    for line in ("token: secret", "warning: it is old", '{"url": "http://x/v1", "model": "m"}'):
        server.read_line(line)
    assert (server.state, server.warnings) == ("ready", ["it is old"])
    assert "secret" not in repr(vars(server))


# the real server
