"""Formats, found row by row."""

from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.data.reading.formats import parse_row
from zoo.gym.data.records import Message, Record
from zoo.gym.errors import InputError

ASK, ANSWER = Message("user", "Hi"), Message("assistant", "Hello")
USER, GPT = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}


def one(row: Any) -> tuple[str, Record]:
    name, records = parse_row(row, "f:1")
    (record,) = records
    return name, record


def refusal(row: Any) -> str:
    with pytest.raises(InputError) as caught:
        parse_row(row, "f:1")
    return caught.value.message


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"messages": [USER, GPT]}, "OpenAI messages"),
        (
            {
                "conversations": [
                    {"from": "human", "value": "Hi"},
                    {"from": "gpt", "value": "Hello"},
                ]
            },
            "ShareGPT",
        ),
        ({"conversations": [USER, GPT]}, "ShareGPT"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}, GPT]},
            "OpenAI messages",
        ),
    ],
)
def test_every_spelling_of_a_chat_gives_the_same_turns(row: Any, name: str) -> None:
    assert one(row) == (name, Record("f:1", "chat", (ASK, ANSWER)))


def test_a_sharegpt_system_key_becomes_the_first_turn() -> None:
    _, record = one({"system": "Be kind", "conversations": [USER, GPT]})
    assert record.messages == (Message("system", "Be kind"), ASK, ANSWER)


def test_a_system_turn_without_text_is_left_out() -> None:
    _, record = one({"messages": [{"role": "system", "content": " "}, USER, GPT]})
    assert record.messages == (ASK, ANSWER)


def test_alpaca_joins_instruction_and_input_by_a_blank_line() -> None:
    name, record = one({"instruction": "Add", "input": "1 2", "output": "3"})
    assert name == "alpaca"
    assert record == Record("f:1", "completion", (), "Add\n\n1 2", "3", joint="\n\n")


def test_alpaca_history_and_system_stand_before_the_prompt() -> None:
    row = {"instruction": "c", "output": "d", "system": "s", "history": [["a", "b"]]}
    before = one(row)[1].messages
    assert before == (Message("system", "s"), Message("user", "a"), Message("assistant", "b"))


def test_self_instruct_gives_a_record_for_each_instance() -> None:
    cases = [{"input": "1", "output": "2"}, {"input": "", "output": "3"}]
    name, records = parse_row({"instruction": "Add", "instances": cases}, "f:1")
    assert name == "self-instruct"
    assert [(r.prompt, r.completion) for r in records] == [("Add\n\n1", "2"), ("Add", "3")]


def test_prompt_and_completion_stay_byte_for_byte() -> None:
    name, record = one({"prompt": "2+2= ", "completion": " 4\n"})
    assert name == "prompt/completion"
    assert record == Record("f:1", "completion", prompt="2+2= ", completion=" 4\n")


def test_only_the_completion_is_learned_if_both_are_turns() -> None:
    _, record = one({"prompt": [USER, GPT, USER], "completion": [GPT]})
    assert [turn.learned for turn in record.messages if turn.role == "assistant"] == [False, True]


@pytest.mark.parametrize("row", [{"text": "a", "image": "ubuntu"}, {"text": "a", "images": []}])
def test_a_text_may_have_other_columns(row: Any) -> None:
    assert one(row)[1].text == "a"


@pytest.mark.parametrize("row", ["A story", {"text": "A story", "id": 7}])
def test_bare_text_and_a_text_key_are_text(row: Any) -> None:
    assert one(row) == ("text", Record("f:1", "text", text="A story", ends=True))


@pytest.mark.parametrize(
    ("turn", "content", "reasoning"),
    [
        ({"content": "<think>\nHm\n</think>\n\nYes"}, "Yes", "Hm"),
        ({"content": "<think></think>Yes"}, "Yes", ""),
        ({"content": "Yes", "reasoning_content": "Hm"}, "Yes", "Hm"),
        ({"content": "Yes", "thinking": "\nHm\n"}, "Yes", "Hm"),
        ({"content": "Yes", "reasoning": None}, "Yes", None),
        ({"content": "Write <think>a</think>"}, "Write <think>a</think>", None),
    ],
)
def test_reasoning_becomes_a_field_of_the_turn(
    turn: dict[str, Any], content: str, reasoning: str | None
) -> None:
    _, record = one({"messages": [USER, {"role": "assistant", **turn}]})
    assert record.messages[1] == Message("assistant", content, reasoning)


def test_a_turn_of_weight_zero_is_not_learned() -> None:
    _, record = one({"messages": [USER, {**GPT, "weight": 0}, USER, {**GPT, "weight": 1}]})
    assert [turn.learned for turn in record.messages if turn.role == "assistant"] == [False, True]


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("data", {"text": "a"}),
        ("rows", {"prompt": "a", "completion": "b"}),
        ("conversations", {"messages": [USER, GPT]}),
        ("messages", {"conversations": [USER, GPT]}),
    ],
)
def test_rows_in_a_list_under_a_key_are_named(key: str, row: Any) -> None:
    with raises("data.nested_rows", f"the rows are in a list under the key '{key}'"):
        parse_row({"version": 1, key: [row, row]}, "f:1")


@pytest.mark.parametrize("row", [{"mesages": [{"role": "user", "text": "a"}]}, {"x": [{"y": 1}]}])
def test_turns_and_other_lists_are_not_called_rows(row: Any) -> None:
    with raises("data.unknown_format") as caught:
        parse_row(row, "f:1")
    assert caught.value.code == "data.unknown_format"


def test_a_row_may_hold_a_list_of_what_could_be_rows() -> None:
    assert parse_row({"text": "a", "examples": [{"text": "b"}]}, "f:1")[0] == "text"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (["a"], "expected an object, got a list"),
        ({"mesages": []}, "nearest is OpenAI messages: expected 'messages', got 'mesages'"),
        ({"prompt": "a", "completon": "b"}, "nearest is prompt/completion: expected 'completion'"),
        ({"instruction": "a", "input": "b"}, "nearest is alpaca: expected 'output', got the keys"),
        ({"x": 1}, "no known format: expected the keys messages, conversations"),
        (
            {"prompt": "a", "preferred": "b", "dispreferred": "c"},
            "expected 'chosen' and 'rejected', got 'preferred' and 'dispreferred': rename the keys",
        ),
        ({"prompt": "a", "x": "b"}, "nearest is prompt/completion: expected 'completion'"),
        ({"mesage_tree_id": "a", "prompt": {}}, "nearest is OASST tree: expected 'message_tree"),
        ({"instructions": "a", "input": "b", "output": "c"}, "got 'instructions'"),
        ({"text": None}, "'text': expected text, got null"),
        ({"text": " \n"}, "'text' is empty"),
        ({"prompt": "", "completion": " "}, "empty prompt and completion"),
        ({"instruction": "", "output": ""}, "empty prompt and completion"),
        ({"prompt": "a", "completion": 7}, "'completion': expected text, got a number"),
        ({"messages": "a"}, "'messages': expected a list of messages, got 'a'"),
        ({"messages": []}, "'messages' is empty"),
        ({"messages": [USER]}, "no assistant turn"),
        ({"messages": [GPT, USER]}, "'messages' starts with an assistant turn"),
        ({"messages": [USER, {**GPT, "weight": 0}]}, "every one has weight 0"),
        ({"messages": [USER, {**GPT, "weight": 0.5}]}, "weight: expected 0 or 1, got 0.5"),
        ({"messages": [USER, {**GPT, "weight": [1]}]}, "weight: expected 0 or 1, got a list"),
        ({"messages": [USER, {**GPT, "weight": "1"}]}, "weight: expected 0 or 1, got text"),
        ({"messages": [USER, {**GPT, "weight": True}]}, "weight: expected 0 or 1, got true or f"),
        ({"messages": [USER, {**GPT, "role": "alien"}]}, "messages[1]: unknown role 'alien'"),
        ({"messages": [USER, {"rol": "user", "content": ""}]}, "expected 'role', got 'rol'"),
        ({"messages": [USER, {"role": "user"}]}, "messages[1]: expected 'content', got the keys"),
        ({"messages": [USER, {**GPT, "content": None}]}, "'messages[1].content': expected text"),
        ({"messages": [USER, GPT], "images": ["a.png"]}, "'images': images, audio and video are"),
        ({"messages": [{**USER, "images": ["a"]}, GPT]}, "'messages[0].images': images, audio"),
        ({"instruction": "a", "output": "b", "image": "a.png"}, "'image': images, audio"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, GPT]},
            "expected parts of text, got a part of 'image_url'",
        ),
        ({"instruction": "a", "output": "b", "history": [["c"]]}, "history[0]: expected a pair"),
        ({"instruction": "a", "instances": []}, "'instances': expected a list of objects"),
        ({"message_tree_id": "1", "prompt": "a"}, "'prompt': expected a message, got 'a'"),
    ],
)
def test_a_bad_row_is_reported_with_what_is_wrong(row: Any, reason: str) -> None:
    assert reason in refusal(row)
