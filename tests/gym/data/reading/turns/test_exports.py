"""Conversations of the exports of ChatGPT and Claude, read as chats."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.data import Dataset
from zoo.gym.data.reading.dataset import read_dataset


def read(folder: Path, *conversations: Any) -> Dataset:
    path = folder / "conversations.json"
    path.write_text(json.dumps(conversations))
    return read_dataset([path])


def turns(data: Dataset) -> list[tuple[str, str]]:
    (record,) = data.records
    return [(turn.role, turn.content) for turn in record.messages]


def said(role: str, *parts: Any, kind: str = "text", **others: Any) -> dict[str, Any]:
    """Returns a message of ChatGPT."""
    content = {"content_type": kind, "parts": list(parts)}
    return {"author": {"role": role}, "content": content, "recipient": "all", **others}


def tree(*nodes: tuple[str, str | None, Any], current: str) -> dict[str, Any]:
    """Returns a conversation of nodes (id, parent, message)."""
    mapping = {
        key: {"id": key, "parent": parent, "message": message, "children": []}
        for key, parent, message in nodes
    }
    return {"title": "Sums", "create_time": 1.5, "mapping": mapping, "current_node": current}


def chain(*messages: Any) -> dict[str, Any]:
    nodes = [
        (f"n{i}", f"n{i - 1}" if i else None, each) for i, each in enumerate([None, *messages])
    ]
    return tree(*nodes, current=f"n{len(messages)}")


def test_the_branch_that_was_shown_is_learned(tmp_path: Path) -> None:
    data = read(
        tmp_path,
        tree(
            ("root", None, None),
            ("ask", "root", said("user", "2+3?")),
            ("first", "ask", said("assistant", "6")),
            ("second", "ask", said("assistant", "5")),
            current="second",
        ),
    )
    assert turns(data) == [("user", "2+3?"), ("assistant", "5")]
    assert data.formats == {str(tmp_path / "conversations.json"): "ChatGPT export"}
    assert data.notes == ()


def test_turns_that_are_no_text_are_left_out_and_counted(
    tmp_path: Path,
) -> None:
    hidden = {"is_visually_hidden_from_conversation": True}
    data = read(
        tmp_path,
        chain(
            said("system", ""),
            said("user", "About me: ...", metadata=hidden),
            said("user", "Rain?"),
            said("assistant", "I will look."),
            said("assistant", "search()", kind="code"),
            said("assistant", "search()", recipient="browser"),
            said("tool", "rain"),
            said("assistant", kind="thoughts"),
            said("assistant", " "),
            said("assistant", "Yes."),
        ),
    )
    assert turns(data) == [("user", "Rain?"), ("assistant", "I will look.\n\nYes.")]
    (note,) = data.notes
    counts = note.partition("left out of chats: ")[2].split(", ")
    assert set(counts) == {"2 hidden turns", "3 tool turns", "1 reasoning turn", "1 empty turn"}


def test_a_conversation_about_an_image_is_a_problem_of_its_own(tmp_path: Path) -> None:
    image = said("user", {"content_type": "image_asset_pointer"}, "What is it?")
    good = chain(said("user", "2+3?"), said("assistant", "5"))
    data = read(tmp_path, good, chain(image, said("assistant", "A cat.")))
    assert (len(data.records), "images" in str(data.problems[0])) == (1, True)


@pytest.mark.parametrize(
    "damaged",
    [
        tree(("a", "a", said("user", "2+3?")), current="a"),
        tree(("a", "b", said("user", "2+3?")), current="a"),
        tree(("a", None, said("user", "2+3?")), current="c"),
        tree(("a", None, "text"), current="a"),
        tree(("a", None, {"author": None, "content": {}}), current="a"),
        {"mapping": [], "current_node": "a"},
        chain(said("user", "2+3?")),
        {"chat_messages": "text"},
        {"chat_messages": ["text"]},
        {"chat_messages": [{"sender": "alien", "text": "hello"}]},
    ],
)
def test_a_damaged_conversation_is_refused(tmp_path: Path, damaged: Any) -> None:
    with raises("data.no_usable_row", r"conversations\.json:1: "):
        read(tmp_path, damaged)


def test_the_messages_of_claude_are_learned(tmp_path: Path) -> None:
    human = {"sender": "human", "text": "2+3?", "created_at": "2024-01-01", "attachments": []}
    assistant = {
        "sender": "assistant",
        "text": "shown otherwise",
        "content": [
            {"type": "thinking", "thinking": "..."},
            {"type": "text", "text": "Let me count."},
            {"type": "tool_use", "name": "count"},
            {"type": "tool_result", "content": []},
            {"type": "text", "text": "5"},
        ],
    }
    data = read(tmp_path, {"uuid": "u", "name": "Sums", "chat_messages": [human, assistant]})
    assert turns(data) == [("user", "2+3?"), ("assistant", "Let me count.\n\n5")]
    assert "1 reasoning part, 2 tool parts" in data.notes[0]


def test_attachments_with_text_are_read_and_files_refused(tmp_path: Path) -> None:
    answer = {"sender": "assistant", "text": "It is short."}
    attached = [{"file_name": "a.txt", "extracted_content": "words"}]
    asked = {"sender": "human", "text": "Read.", "attachments": attached}
    files = {"files": [{"file_name": "a.txt"}]}
    data = read(tmp_path, {"chat_messages": [{**asked, **files}, answer]})
    assert turns(data)[0] == ("user", "words\n\nRead.")
    for other in ({"files": [{"file_name": "b.png"}]}, {"attachments": [{"file_name": "a.txt"}]}):
        with raises("data.no_usable_row", "files are not supported"):
            read(tmp_path, {"chat_messages": [{**asked, **other}, answer]})


def test_marks_of_sources_and_turns_without_weight_are_left_out(tmp_path: Path) -> None:
    data = read(
        tmp_path,
        chain(
            said("user", "When?"),
            said("assistant", "In 1969.\ue200cite\ue202turn0search1\ue201"),
            said("user", "And who?"),
            said("assistant", "no", weight=0),
            said("assistant", "Two men."),
        ),
    )
    assert turns(data)[1:] == [
        ("assistant", "In 1969."),
        ("user", "And who?"),
        ("assistant", "Two men."),
    ]
    assert "1 hidden turn" in data.notes[0]


def test_an_image_that_a_tool_returned_is_a_problem(tmp_path: Path) -> None:
    drawn = said("tool", {"content_type": "image_asset_pointer"}, kind="multimodal_text")
    talk = chain(
        said("user", "Draw a cat"), drawn, said("user", "Why blue?"), said("assistant", "So.")
    )
    with raises("data.no_usable_row", "images"):
        read(tmp_path, talk)


def test_of_two_answers_of_claude_the_last_is_learned(tmp_path: Path) -> None:
    def message(uuid: str, parent: str, sender: str, text: str) -> dict[str, Any]:
        return {"uuid": uuid, "parent_message_uuid": parent, "sender": sender, "text": text}

    talk = [
        message("a", "none", "human", "2+3?"),
        message("b", "a", "assistant", "6"),
        message("c", "a", "assistant", "5"),
    ]
    assert turns(read(tmp_path, {"chat_messages": talk})) == [("user", "2+3?"), ("assistant", "5")]
