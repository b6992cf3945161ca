"""Signed measurements: what a line must be to count."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.experience.sharing.measurement import (
    CONTEXT,
    Measurement,
    read_measurements,
    write_measurements,
)
from zoo.gym.signing import OwnKey, PublicKey, canonical, sign
from zoo.gym.signing.keys import public_of

SECRET = bytes(range(32))
KEY = OwnKey(SECRET, PublicKey(public_of(SECRET)))
ONE = Measurement("Check the units.", "m", 20, 0.1, -0.05, 0.25)


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    records = [ONE, replace(ONE, text="Check the sign.", effect=0.0)]
    write_measurements(tmp_path / "a", records, KEY)
    assert read_measurements(tmp_path / "a") == ([(KEY.public, one) for one in records], [])
    with raises("experience.no_such_file"):
        read_measurements(tmp_path / "absent")


def test_files_one_behind_the_other_are_one_file(tmp_path: Path) -> None:
    write_measurements(tmp_path / "a", [ONE], KEY)
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes() * 2)
    assert len(read_measurements(tmp_path / "b")[0]) == 2


CHANGES: list[tuple[str, Any]] = [
    ("text", "Check the signs."),
    ("item", "0" * 16),
    ("model", 5),
    ("tasks", 0),
    ("effect", 0.5),
    ("low", 0.11),
    ("high", "high"),
    ("high", 10**400),
    ("high", 1.7e308),
    ("low", -(10**400)),
    ("low", -1e308),
    ("more", 1),
]


@pytest.mark.parametrize(("name", "value"), CHANGES, ids=range(len(CHANGES)))
def test_nonsense_is_left_out_even_if_it_is_signed(name: str, value: Any, tmp_path: Path) -> None:
    write_measurements(tmp_path / "a", [ONE], KEY)
    body = json.loads((tmp_path / "a").read_text())["body"] | {name: value}
    with (tmp_path / "a").open("ab") as file:
        file.write(canonical(sign(KEY, CONTEXT, body).as_json()) + b"\n")
    found, left_out = read_measurements(tmp_path / "a")
    assert found == [(KEY.public, ONE)]
    assert left_out[0].startswith(f"{tmp_path / 'a'}:2: ")


def test_a_changed_line_is_left_out_with_its_number(tmp_path: Path) -> None:
    write_measurements(tmp_path / "a", [ONE, ONE], KEY)
    text = (tmp_path / "a").read_text().replace('"effect":0.1', '"effect":0.2', 1)
    (tmp_path / "a").write_text(text)
    found, left_out = read_measurements(tmp_path / "a")
    assert len(found) == 1
    assert left_out[0].startswith(f"{tmp_path / 'a'}:1: signature: expected that of key")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "a"
    path.write_bytes(content)
    with raises("experience.no_measurements") as caught:
        read_measurements(path)
    assert caught.value.code == "experience.no_measurements"
