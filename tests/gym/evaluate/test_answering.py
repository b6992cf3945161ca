"""What an answer depends on: two measures that are asked otherwise share no answers."""

from dataclasses import replace
from typing import Any

import pytest

from zoo.gym.chat import open_chat
from zoo.gym.data.records import Message
from zoo.gym.evaluate import answering
from zoo.gym.evaluate.answering import ask_session, plain_session, settings_of
from zoo.gym.evaluate.items import Item, Measure
from zoo.gym.rewards import Task
from zoo.models import pico_folder

ITEM = Item(1, Task((Message("user", "Hi"),), answer="a"), plain="Q: Hi\nA:")
MEASURE = Measure("m", "m", (ITEM,), "generate", lambda *_: [1.0], "", "", stops=("Q:",))


@pytest.mark.parametrize(
    "changes",
    [
        {"max_new_tokens": 9},
        {"is_plain": True},
        {"stops": ()},
        {"how": "choices"},
        {"items": (replace(ITEM, plain="Q: Ho\nA:"),)},
        {"items": (replace(ITEM, choices=("a", "b")),)},
        {"items": (replace(ITEM, task=replace(ITEM.task, tools=({"type": "function"},))),)},
    ],
)
def test_what_is_asked_otherwise_is_asked_anew(changes: dict[str, Any]) -> None:
    assert settings_of(replace(MEASURE, **changes), {}) != settings_of(MEASURE, {})


@pytest.mark.parametrize(
    "changes", [{"graded_by": "x"}, {"items": (replace(ITEM, task=replace(ITEM.task, answer=2)),)}]
)
def test_answers_are_graded_anew_without_asking(changes: dict[str, Any]) -> None:
    assert settings_of(replace(MEASURE, **changes), {}) == settings_of(MEASURE, {})


def test_plain_text_has_the_stops_of_its_task_and_no_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def replies(session: Any, questions: Any, sampling: Any, **_: object) -> Any:
        asked.append((session, list(questions), sampling))
        return iter(())

    monkeypatch.setattr(answering, "replies", replies)
    with open_chat(pico_folder(), system="Be brief.") as session:
        for measure in (MEASURE, replace(MEASURE, is_plain=True)):
            with pytest.raises(ValueError, match="zip"):  # an item has no reply
                list(ask_session(session, measure)([ITEM], 0, "2026-01-02"))
    (chat, spoken, sampling), (plain, written, stopping) = asked
    assert (spoken[0].turns[0].content, sampling.stop_strings) == ("Hi", ())
    assert (written[0].turns[0].content, stopping.stop_strings) == ("Q: Hi\nA:", ("Q:",))
    assert (chat.system, plain.system, plain.tokenizer.chat_template) == ("Be brief.", "", None)
    assert chat.options.date == plain.options.date == "2026-01-02"


def test_plain_text_ends_as_it_is_written() -> None:
    with open_chat(pico_folder(), system="") as session:
        session.options = replace(session.options, joint="\n")
        assert plain_session(session).options.joint == ""
