"""Calls and definitions of tools, in every published form."""

import contextlib
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.data.equality import related_rows
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.reading.formats import parse_row
from zoo.gym.data.records import Call, Dataset, Kind, Message, Record
from zoo.gym.errors import InputError

ASK = {"role": "user", "content": "Oslo?"}
FUNCTION = {"name": "weather", "arguments": {"city": "Oslo"}}
TEXT = json.dumps(FUNCTION)
CALL = {"role": "assistant", "content": "", "tool_calls": [{"function": FUNCTION}]}
RESULT = {"role": "tool", "content": "rain"}
SAY = {"role": "assistant", "content": "It rains."}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}

Read = Callable[..., Dataset]


def in_json(call: dict[str, Any]) -> dict[str, Any]:
    return {**call, "arguments": json.dumps(call["arguments"])}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def run(*rows: Any, kinds: frozenset[Kind] = frozenset({"chat", "completion"})) -> Dataset:
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        return read_dataset([path], kinds=kinds)

    return run


def only(row: Any) -> Record:
    _, (record,) = parse_row(row, "f:1")
    return record


def refusal(row: Any) -> str:
    with pytest.raises(InputError) as caught:
        parse_row(row, "f:1")
    return caught.value.message


TURNS = (
    Message("user", "Oslo?"),
    Message("assistant", "", calls=(Call("weather", {"city": "Oslo"}),)),
    Message("tool", "rain"),
    Message("assistant", "It rains."),
)
SHAREGPT = [
    {"from": "human", "value": "Oslo?"},
    {"from": "function_call", "value": TEXT},
    {"from": "observation", "value": "rain"},
    {"from": "gpt", "value": "It rains."},
]
FORMS: dict[str, dict[str, Any]] = {
    "OpenAI": {"messages": [ASK, CALL, RESULT, SAY]},
    "arguments in JSON": {
        "messages": [ASK, {**CALL, "tool_calls": [{"function": in_json(FUNCTION)}]}, RESULT, SAY]
    },
    "no content": {
        "messages": [
            ASK,
            {"role": "assistant", "tool_calls": [{"type": "function", "function": FUNCTION}]},
            RESULT,
            SAY,
        ]
    },
    "the function alone": {
        "messages": [ASK, {**CALL, "content": None, "tool_calls": [FUNCTION]}, RESULT, SAY]
    },
    "function_call": {
        "messages": [
            ASK,
            {"role": "assistant", "content": None, "function_call": in_json(FUNCTION)},
            {"role": "function", "content": "rain"},
            SAY,
        ]
    },
    "ShareGPT": {"conversations": SHAREGPT},
    "ShareGPT in a list": {
        "conversations": [
            SHAREGPT[0],
            {"from": "function_call", "value": f"[{TEXT}]"},
            *SHAREGPT[2:],
        ]
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_call_gives_the_same_turns(form: str, read: Read) -> None:
    assert only(FORMS[form]).messages == TURNS
    assert not read(FORMS[form]).notes


def test_ids_and_names_of_calls_and_results_are_kept() -> None:
    call = {"id": "c1", "type": "function", "function": FUNCTION}
    result = {**RESULT, "tool_call_id": "c1", "name": "weather"}
    messages = only({"messages": [ASK, {**CALL, "tool_calls": [call]}, result, SAY]}).messages
    assert messages[1].calls == (Call("weather", {"city": "Oslo"}, "c1"),)
    assert (messages[2].tool, messages[2].call_id) == ("weather", "c1")


def test_a_call_may_follow_reasoning_and_text() -> None:
    turn = {**CALL, "content": "<think>\nHm\n</think>\n\nLet me see."}
    called = only({"messages": [ASK, turn, RESULT, SAY]}).messages[1]
    assert (called.reasoning, called.content, len(called.calls)) == ("Hm", "Let me see.", 1)
    thoughtful = {"from": "function_call", "value": f"<think>Hm</think>{TEXT}"}
    called = only({"conversations": [SHAREGPT[0], thoughtful]}).messages[1]
    assert (called.reasoning, called.content, called.calls[0].name) == ("Hm", "", "weather")


@pytest.mark.parametrize("arguments", [None, "", "{}", {}])
def test_a_call_may_have_no_arguments(arguments: object) -> None:
    call = {**CALL, "tool_calls": [{"name": "now", "arguments": arguments}]}
    assert only({"messages": [ASK, call]}).messages[1].calls == (Call("now"),)


@pytest.mark.parametrize(
    "tools",
    [
        [TOOL],
        json.dumps([TOOL]),
        [TOOL["function"]],
        [{"function": TOOL["function"]}],
        [{"type": "function", **TOOL["function"]}],  # type: ignore[dict-item]
        [{"name": "weather", "input_schema": {"type": "object"}}],  # Anthropic's
        [{"name": "weather", "inputSchema": {"type": "object"}}],  # MCP's
        [{"input_schema": {"type": "object"}, "name": "weather", "parameters": None}],
        [{"type": "function", "function": {"name": "weather", "input_schema": {"type": "object"}}}],
    ],
)
@pytest.mark.parametrize("key", ["tools", "functions"])
@pytest.mark.parametrize(
    "row",
    [
        {"messages": [ASK, SAY]},
        {"conversations": [ASK, SAY]},
        {"prompt": [ASK], "completion": [CALL]},
        {"prompt": "Oslo?", "completion": "Rain"},
        {"instruction": "Oslo?", "output": "Rain"},
    ],
)
def test_definitions_of_tools_are_read_in_every_form(row: Any, key: str, tools: Any) -> None:
    assert list(only({**row, key: tools}).tools) == [TOOL]


@pytest.mark.parametrize("tools", [None, [], "", "[]", " "])
def test_an_empty_list_is_no_tools(tools: object) -> None:
    assert only({"messages": [ASK, SAY], "tools": tools}) == only({"messages": [ASK, SAY]})


def with_call(**call: object) -> dict[str, Any]:
    return {"messages": [ASK, {**CALL, "tool_calls": [call]}]}


def with_tool(tool: object) -> dict[str, Any]:
    return {"messages": [ASK, SAY], "tools": [tool]}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (with_call(arguments={}), "messages[1].tool_calls[0].name: expected the name of a tool"),
        (with_call(name=" "), "name: expected the name of a tool, got ' '"),
        (with_call(name="f", arguments="{"), "arguments: expected JSON, got '{': truncated"),
        (with_call(name="f", arguments="[1]"), "arguments: expected an object, got a list"),
        (with_call(name="f", arguments=3), "arguments: expected an object, got a number"),
        (with_call(name="f", arguments={"a": deep(100)}), "arguments: nested too deeply"),
        (with_call(name="f", arguments='{"a": 1, "a": 2}'), "duplicate key 'a'"),
        (with_call(name="f", parameters={}), "expected 'name' and 'arguments', got 'parameters'"),
        (with_call(function={"name": "f"}, name="g"), "'name' and 'arguments', got 'name'"),
        (with_call(function="f"), "tool_calls[0].function: expected an object, got 'f'"),
        (with_call(name="f", type="custom"), "type: expected 'function', got 'custom'"),
        (with_call(name="f", id=7), "'id': expected text, got a number"),
        ({"messages": [ASK, {**CALL, "tool_calls": "f"}]}, "expected a list of calls, got 'f'"),
        ({"messages": [ASK, {**CALL, "tool_calls": [1]}]}, "expected an object, got a number"),
        ({"messages": [ASK, {**CALL, "function_call": FUNCTION}]}, "'function_call', got both"),
        ({"messages": [{**ASK, "tool_calls": [FUNCTION]}, SAY]}, "tool calls of the role user"),
        ({"conversations": [ASK, {"from": "function_call", "value": "rain"}]}, "expected JSON"),
        ({"conversations": [ASK, {"from": "function_call", "value": "[]"}]}, "got an empty one"),
        (
            {"messages": [ASK, RESULT, SAY]},
            "a tool turn without a call: expected an assistant turn",
        ),
        ({"messages": [RESULT, SAY]}, "a tool turn without a call"),
        ({"messages": [ASK, SAY, RESULT, SAY]}, "before it, got a turn of the assistant"),
        (
            {"messages": [ASK, CALL, {**RESULT, "content": {"a": 1}}]},
            "expected text, got an object",
        ),
        ({"messages": [ASK, CALL, {**RESULT, "name": 1}]}, "'name': expected text, got a number"),
        ({"messages": [ASK, {"role": "assistant", "tool_calls": []}]}, "expected 'content'"),
        ({"prompt": [ASK], "completion": [RESULT, SAY]}, "a tool turn without a call"),
        (with_tool(1), "tools[0]: expected an object, got a number"),
        (with_tool({}), "tools[0].name: expected the name of a tool, got null"),
        (with_tool({"type": "function", "function": 1}), "tools[0].function: expected an object"),
        (with_tool({"type": "web_search"}), "tools[0].type: expected 'function', got 'web_search'"),
        (with_tool({"name": "f", "parameters": []}), "parameters: expected an object, got a list"),
        (with_tool({"name": "f", "parameters": {"a": deep(100)}}), "nested too deeply"),
        (with_tool({"name": "f", "inputSchema": []}), "inputSchema: expected an object"),
        (with_tool({"name": "f", "parameters": {}, "input_schema": {}}), "expected one schema"),
        ({"messages": [ASK, SAY], "tools": "weather"}, "'tools': expected JSON, got 'weather'"),
        ({"messages": [ASK, SAY], "tools": '"f"'}, "'tools': expected a list of tools, got 'f'"),
        ({"messages": [ASK, SAY], "tools": {"name": "f"}}, "expected a list of tools, got an obj"),
        (
            {"messages": [ASK, SAY], "tools": [TOOL], "functions": [{"name": "f"}]},
            "two lists of tools: expected 'tools' or 'functions', got both",
        ),
    ],
)
def test_a_bad_call_or_tool_is_reported_with_what_is_wrong(row: Any, reason: str) -> None:
    assert reason in refusal(row)


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@pytest.mark.slow
@given(json_values, json_values, json_values)
def test_no_value_of_a_call_or_of_tools_ends_the_reading(
    calls: object, tools: object, result: object
) -> None:
    turns = [ASK, {**CALL, "tool_calls": calls}, {**RESULT, "content": result}, SAY]
    for row in ({"messages": turns}, {"messages": [ASK, SAY], "tools": tools}):
        with contextlib.suppress(InputError):
            parse_row(row, "f:1")


def test_a_pair_of_chats_has_its_calls_and_tools(read: Read) -> None:
    other = {**CALL, "tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}
    row = {"prompt": [ASK], "chosen": [CALL], "rejected": [other], "tools": [TOOL]}
    (record,) = read(row, kinds=frozenset({"pair"})).records
    cities = [side.messages[1].calls[0].arguments["city"] for side in record.sides]
    assert (cities, [list(side.tools) for side in record.sides]) == (["Oslo", "Rome"], [[TOOL]] * 2)


@pytest.mark.parametrize("side", [CALL, SHAREGPT[1]])
def test_calls_are_no_answers_to_an_instruction(read: Read, side: Any) -> None:
    row = {"instruction": "Oslo?", "chosen": side, "rejected": {**SAY}}
    with raises("data.no_usable_row", "'chosen': tool calls after 'instruction'"):
        read(row, kinds=frozenset({"pair"}))


def test_a_prompt_may_have_tools_and_end_with_their_result(read: Read) -> None:
    row = {"messages": [ASK, CALL, RESULT, SAY], "tools": [TOOL], "answer": "rain"}
    (record,) = read(row, kinds=frozenset({"prompt"})).records
    assert (record.messages, record.completion) == (TURNS[:3], "It rains.")
    assert list(record.tools) == [TOOL]


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [{"messages": [ASK, CALL]}, {"prompt": [ASK], "completion": [CALL]}]
)
def test_a_call_is_no_answer_in_words(read: Read, row: Any) -> None:
    with raises("data.no_usable_row", "expected an answer in words, got tool calls"):
        read(row, kinds=frozenset({"prompt"}))


def test_calls_and_tools_make_rows_different(read: Read) -> None:
    other = {**CALL, "tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}
    same = [{"messages": [ASK, CALL]}, {"messages": [ASK, {**CALL, "content": None}]}]
    assert related_rows(read(*same).records).duplicates == 1
    assert related_rows(read(same[0], {"messages": [ASK, other]}).records).duplicates == 0
    assert related_rows(read(same[0], {**same[0], "tools": [TOOL]}).records).duplicates == 0


def test_cells_of_tables_contain_tools_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    cells = [json.dumps([ASK, CALL]), json.dumps([TOOL])]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([["messages", "functions"], cells])
    (record,) = read_dataset([path]).records
    assert (record.messages, list(record.tools)) == (TURNS[:2], [TOOL])


def test_tags_of_a_dataset_info_name_calls_and_results(tmp_path: Path) -> None:
    tags = {"function_tag": "call", "observation_tag": "back"}
    columns = {"messages": "talk", "tools": "defs"}
    entry = {"file_name": "a.json", "formatting": "sharegpt", "columns": columns, "tags": tags}
    (tmp_path / "dataset_info.json").write_text(json.dumps({"a": entry}))
    renamed = {"function_call": "call", "observation": "back"}
    talk = [{**turn, "from": renamed.get(turn["from"], turn["from"])} for turn in SHAREGPT]
    rows = [{"talk": talk, "defs": json.dumps([TOOL])}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (record,) = read_dataset([tmp_path / "a.json"]).records
    assert (record.messages, list(record.tools)) == (TURNS, [TOOL])


def test_names_of_tool_turns_are_read_and_of_users_reported(read: Read) -> None:
    row = {"messages": [{**ASK, "name": "Ann"}, CALL, {**RESULT, "name": "weather"}, SAY]}
    (note,) = read(row).notes
    assert note.endswith("keys that are not read: 'messages[].name' (1 row)")


def test_the_examples_of_the_page_are_read_and_are_the_same() -> None:
    page = Path(__file__).parents[5] / "docs" / "reference" / "data.md"
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if "tools" in line[:9]]
    openai, sharegpt = (only(json.loads(line)) for line in lines)
    assert openai.messages == sharegpt.messages
    assert [turn.role for turn in openai.messages] == ["user", "assistant", "tool", "assistant"]
    assert openai.tools[0]["type"] == sharegpt.tools[0]["type"] == "function"
