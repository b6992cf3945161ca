"""Rows on disk are the rows that were stored."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.data.record_file import RecordFile, RecordStore, StoredRecords, packed, unpacked
from zoo.gym.data.records import Call, Message, Record
from zoo.gym.paths import folders

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
OBJECTS = st.dictionaries(TEXT, st.none() | TEXT | st.lists(st.integers(), max_size=2), max_size=2)
CALLS = st.lists(st.builds(Call, TEXT, OBJECTS, TEXT), max_size=2).map(tuple)
MESSAGES = st.builds(
    Message, TEXT, TEXT, st.none() | TEXT, st.booleans(), CALLS, tool=TEXT, call_id=TEXT
)
ROWS = st.builds(
    Record,
    TEXT,
    st.just("chat"),
    st.lists(MESSAGES, max_size=3).map(tuple),
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    tools=st.lists(OBJECTS, max_size=2).map(tuple),
)
PAIRS = st.builds(Record, TEXT, st.just("pair"), sides=st.tuples(ROWS, ROWS))


def row(number: int, kind: str = "completion") -> Record:
    return Record(f"a:{number}", kind, prompt=f"p{number}\r\n\x85", completion="c" * number)  # type: ignore[arg-type]


def stored(count: int) -> RecordFile:
    file = RecordFile()
    for number in range(count):
        file.append(row(number))
    return file


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))


@settings(max_examples=200)
@given(ROWS | PAIRS)
@pytest.mark.slow
def test_a_stored_row_is_the_row(record: Record) -> None:
    line = packed(record)
    assert unpacked(line) == record
    assert line.splitlines() == [line[:-1]]


def test_every_field_of_a_row_is_stored() -> None:
    call = Call("f", {"x": [1, None]}, "id")
    turn = Message("user", "x", "y", learned=False, calls=(call,), tool="g", call_id="h")
    beside: dict[str, object] = {"level": [1, {"a": None}]}
    side = Record("a:1", "chat", prompt="q", tools=(beside,))
    full = Record("a:1", "pair", (turn,), "p", "c", "t", "j", (side, side), 0.5, beside)
    back = unpacked(packed(full))
    assert all(getattr(back, field.name) == getattr(full, field.name) for field in fields(Record))


@pytest.mark.slow
@given(st.lists(st.integers(0, 599), max_size=700), st.data())
@settings(max_examples=30, deadline=None)
def test_a_selection_gives_its_rows_in_its_order(places: list[int], data: st.DataObject) -> None:
    file = stored(600)
    chosen = StoredRecords(file).select(np.array(places, dtype=np.int64))
    assert [record.source for record in chosen] == [f"a:{place}" for place in places]
    if places:
        index = data.draw(st.integers(-len(places), len(places) - 1))
        assert chosen[index] == row(places[index])
        again = chosen.select(np.array([index % len(places)]))
        assert list(again) == [row(places[index])]


def test_a_row_outside_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        StoredRecords(stored(2))[2]


def test_the_size_of_a_row_is_that_of_its_line() -> None:
    sizes = StoredRecords(stored(3)).sizes()
    assert list(np.diff(sizes)) == [1, 1]  # the completion grows by one character


def test_rows_can_be_appended_after_others_were_read_or_removed() -> None:
    file = stored(4)
    assert file.read(0, 1) == [row(0)]
    file.truncate(2)
    file.append(row(9))
    assert list(StoredRecords(file)) == [row(0), row(1), row(9)]


@pytest.mark.parametrize(("rows", "kind"), [(3, tuple), (4, StoredRecords)])
def test_many_rows_are_stored_and_few_are_kept_in_memory(rows: int, kind: type) -> None:
    store = RecordStore(in_memory_rows=3)
    for number in range(rows):
        store.append(row(number))
    assert isinstance(store.records(), kind)
    assert list(store.records()) == [row(number) for number in range(rows)]


def test_rows_with_a_text_among_them_stay_in_memory() -> None:
    store = RecordStore(in_memory_rows=1)
    expected = [row(0), row(1), row(2, "text"), row(3)]
    for record in expected:
        store.append(record)
    assert store.records() == tuple(expected)


def test_a_store_forgets_the_rows_after_a_number() -> None:
    for limit in (1, 100):
        store = RecordStore(limit)
        for number in range(5):
            store.append(row(number))
        store.truncate(2)
        assert list(store.records()) == [row(0), row(1)]


def test_the_file_of_rows_has_no_name() -> None:
    stored(3)
    assert not list(folders().cache.iterdir())


def test_a_full_disk_is_a_storage_error() -> None:
    class Full:
        def write(self, _: bytes) -> int:
            raise OSError(28, "No space left on device")

    file = RecordFile()
    file._file = Full()  # type: ignore[assignment]
    with raises("paths.storage", "no space left") as caught:
        file.append(row(1))
    assert caught.value.code == "paths.storage"
