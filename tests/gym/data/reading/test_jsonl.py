"""The reader of JSON rows."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.data.reading.jsonl import Row, read_rows
from zoo.gym.data.records import Problem
from zoo.gym.errors import InputError

BAD_LINES = [b'{"a": "cut', b'{"a": 1', b"plain words", b'{"a": \xff}', b'{"a": "\\ud800"}', b"[1"]


def rows_of(folder: Path, content: bytes, name: str = "rows.jsonl") -> list[Row | Problem]:
    path = folder / name
    path.write_bytes(content)
    return list(read_rows(path))


def lines_of(rows: list[Row | Problem]) -> list[tuple[str, int]]:
    return [
        ("bad", int(row.where.rpartition(":")[2]))
        if isinstance(row, Problem)
        else ("good", row.line)
        for row in rows
    ]


@pytest.mark.slow
@given(st.lists(st.sampled_from([b"", b'{"a": "b"}', b'{"a": [1, {"b": null}]}', *BAD_LINES])))
def test_every_line_is_reported_under_its_own_number(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    lines = [b'{"first": 1}', *lines]
    rows = rows_of(tmp_path_factory.mktemp("rows"), b"\n".join(lines))
    expected = [
        ("bad" if line in BAD_LINES else "good", number)
        for number, line in enumerate(lines, 1)
        if line
    ]
    assert lines_of(rows) == expected


values = st.recursive(st.none() | st.text() | st.integers(), lambda v: st.lists(v, max_size=3))


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(st.text(max_size=3), values, max_size=3), max_size=5),
    st.sampled_from([None, 0, 1, 4]),
)
def test_a_list_reads_as_json_does_and_knows_the_lines(
    tmp_path_factory: pytest.TempPathFactory, elements: list[object], indent: int | None
) -> None:
    parts = [json.dumps(element, indent=indent) for element in elements]
    text = "[\n" + ",\n".join(parts) + "\n]\n"
    rows = rows_of(tmp_path_factory.mktemp("list"), text.encode(), "rows.json")
    # an element starts behind the bracket's line and all lines of the elements before it
    starts = [2 + sum(p.count("\n") + 1 for p in parts[:i]) for i in range(len(parts))]
    assert rows == [Row(line, element) for line, element in zip(starts, elements, strict=True)]


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b'[{"a": 1},\n {"a": "cut', "list.json:2: truncated JSON: unterminated string"),
        (b'[{"a": 1},\n {"a": 2}', "list.json:2: truncated JSON: expecting ',' delimiter"),
        (b'[{"a": 1}\n {"a": 2}]', "list.json:2: not valid JSON: expecting ',' delimiter"),
        (b'[{"a": 1},\n]', "list.json:2: not valid JSON: expecting value"),
        (b'[{"a": 1}]\n[2]', "list.json:1: not valid JSON: expected one list"),
        (b'[{"a": "\xff"}]', "list.json:1: not UTF-8 text: got the byte 0xff"),
    ],
)
def test_a_fault_in_a_list_is_refused_with_its_line(
    tmp_path: Path, content: bytes, where: str
) -> None:
    with pytest.raises(InputError) as caught:
        rows_of(tmp_path, content, "list.json")
    assert where in caught.value.message


def test_half_of_a_character_in_a_list_is_a_problem_of_its_row(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, b'[{"a": "\\ud800"},\n {"a": 2}]', "list.json")
    assert lines_of(rows) == [("bad", 1), ("good", 2)]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_cut_first_line_costs_only_itself(tmp_path: Path, name: str) -> None:
    rows = rows_of(tmp_path, b'{"a": "cut\n{"a": 2}\n', name)
    assert lines_of(rows) == [("bad", 1), ("good", 2)]


def test_a_cut_line_is_called_cut(tmp_path: Path) -> None:
    (_, problem) = rows_of(tmp_path, b'{"a": 1}\n{"a": "so it en')
    assert isinstance(problem, Problem)
    assert problem.reason == "truncated JSON: unterminated string at column 7"


def test_one_object_over_several_lines_is_one_row(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, b'{\n "text": "a"\n}\n', "one.json")
    assert rows == [Row(1, {"text": "a"})]


@pytest.mark.parametrize("content", [b'\xef\xbb\xbf{"a": 1}\r\n', b'\xef\xbb\xbf[{"a": 1}]'])
def test_a_byte_order_mark_is_not_part_of_the_data(tmp_path: Path, content: bytes) -> None:
    assert rows_of(tmp_path, content, "bom.json") == [Row(1, {"a": 1})]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "not valid JSON"),
    ],
)
def test_hostile_lines_are_problems(tmp_path: Path, line: bytes, reason: str) -> None:
    (_, problem) = rows_of(tmp_path, b'{"a": 1}\n' + line)
    assert isinstance(problem, Problem)
    assert reason in problem.reason


@pytest.mark.parametrize("depth", [*range(900, 1000, 3), 100_000])
def test_a_row_of_any_depth_is_read_or_refused_in_a_sentence(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"text": "\\ud83d\\ude00", "more": {deep}}}\n')
    (found,) = read_rows(path)
    assert isinstance(found, Row) or "nested too deeply" in found.reason
