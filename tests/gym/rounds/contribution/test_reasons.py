"""Why a file does not count: in the same words with every Python, at every address."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.rounds.contribution.conftest import (
    LAYERS,
    Round,
)
from zoo.gym.delta.codecs.dense import Coded, code_matrix
from zoo.gym.delta.codecs.lowrank import code_factors
from zoo.gym.delta.codecs.options import Dense, LowRank
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.header import FORMAT
from zoo.gym.delta.file.reader import open_delta, read_container
from zoo.gym.errors import InputError
from zoo.gym.rounds.contribution.check import check_characters, open_contribution
from zoo.gym.rounds.contribution.write import write_contribution


@pytest.mark.parametrize("said", ["\U0001fae8", "A/the/round: B", "\u202e", "'"])
def test_reason_is_the_same_on_every_python_and_address(
    base: Path, tuned: Path, round_of: Round, tmp_path: Path, said: str
) -> None:
    """What the file says is quoted in ASCII, where it is quoted at all, and left whole."""
    manifest = round_of("signs")
    whole = write_contribution(tuned, base, manifest, tmp_path / "c").path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = whole[8 : 8 + length].decode().replace(f'"{FORMAT}"', f'"{said}"').encode()
    padded = header + b" " * (-len(header) % 8)
    path = tmp_path / "changed"
    path.write_bytes(len(padded).to_bytes(8, "little") + padded + whole[8 + length :])
    with raises("rounds.no_delta") as caught:
        open_contribution(path, manifest)
    assert caught.value.message == "contribution: expected a whole delta file of version 1"
    assert "metadata format" in str(caught.value.hint)

    strange = manifest.model_copy(
        update={"base": manifest.base.model_copy(update={"identity": "0" * 64})}
    )
    with raises("rounds.other_base") as caught:
        open_contribution(tmp_path / "c", strange)
    expected = "contribution: expected a change of the round's base, got one of 'tiny'"
    assert caught.value.message == expected


@pytest.mark.parametrize("said", ["a\U0001fae8", '"', "\udc00"])
def test_newer_unicode_characters_decide_nothing(
    base: Path, tuned: Path, round_of: Round, tmp_path: Path, said: str
) -> None:
    """A header that names it, escaped, is refused before its fields are read."""
    path = write_contribution(tuned, base, round_of("signs"), tmp_path / "c").path
    container = read_container(path, open_delta(path))
    header = json.loads(container.metadata["header"])
    check_characters(json.dumps(header))
    header["base"]["id"] = said
    for text in (json.dumps(header), "[", "[" * 100_000):
        if said == "a\U0001fae8" or text[0] == "[":
            with pytest.raises(InputError, match=r"^header: expected "):
                check_characters(text)
        else:
            check_characters(text)


Bad = Callable[[Values, Values, Dense], Coded]


def not_finite(value: float) -> Bad:
    def coded(before: Values, after: Values, coding: Dense) -> Coded:
        found = code_matrix(before, after, coding)
        assert found
        return found[0], {**found[1], "scale": np.full_like(found[1]["scale"], value)}

    return coded


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_infinite_value_is_refused_by_tensor_name(
    base: Path,
    tuned: Path,
    round_of: Round,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: float,
) -> None:
    monkeypatch.setattr("zoo.gym.rounds.contribution.write.code_matrix", not_finite(value))
    with raises("rounds.not_finite") as caught:
        write_contribution(tuned, base, round_of("signs"), tmp_path / "c")
    where = f"tensor {LAYERS[0]!r}: scale"
    assert caught.value.message == f"contribution: {where}: expected finite values, got others"


def factors(a: float, b: list[float]) -> Callable[..., object]:
    """Codes factors of which each row of A has one value, and each row of B another."""

    def coded(name: str, A: np.ndarray, B: np.ndarray, coding: LowRank) -> object:
        rows = np.array(b, np.float32)[:, None]
        made = np.full((len(b), A.shape[1]), a, np.float32), np.repeat(rows, B.shape[1], axis=1)
        return code_factors(name, *made, coding)

    return coded


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (9.0, [1.0, 2.0, -3.0], "expected factors of a change, got some that cancel out"),
        (9.0, [1.0, 2.0, -2.9999], "expected factors of a change, got some that cancel out"),
        (900.0, [900.0] * 3, "expected a squared norm below 2^40, got more"),
    ],
)
def test_factors_of_which_products_would_say_nothing_are_refused(
    base: Path,
    adapter: Path,
    round_of: Round,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    a: float,
    b: list[float],
    said: str,
) -> None:
    caps = {"file_bytes": 100_000, "rank": 64, "value": 1000.0}
    monkeypatch.setattr("zoo.gym.rounds.contribution.write.code_factors", factors(a, b))
    with pytest.raises(InputError) as caught:
        write_contribution(adapter, base, round_of("lowrank", caps=caps), tmp_path / "c")
    assert caught.value.message == f"contribution: {said}"


def test_factors_that_partly_cancel_out_are_taken(
    base: Path, adapter: Path, round_of: Round, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partly = factors(1.0, [1.0, 2.0, -2.95])
    monkeypatch.setattr("zoo.gym.rounds.contribution.write.code_factors", partly)
    write_contribution(adapter, base, round_of("lowrank"), tmp_path / "c")


def test_what_a_reason_quotes_is_in_ascii(
    base: Path, tuned: Path, round_of: Round, tmp_path: Path
) -> None:
    named = round_of("signs", model="a \u00e9\u6f22")
    path = write_contribution(tuned, base, named, tmp_path / "c").path
    strange = named.model_copy(
        update={"base": named.base.model_copy(update={"identity": "0" * 64})}
    )
    with raises("rounds.other_base") as caught:
        open_contribution(path, strange)
    assert "got one of 'a \\xe9\\u6f22'" in caught.value.message


def test_header_with_newer_unicode_is_refused(
    base: Path, tuned: Path, round_of: Round, tmp_path: Path
) -> None:
    """Python 3.11 prints U+0221, which is of Unicode 4.0; others may print more than this one."""
    manifest = round_of("signs")
    named = manifest.model_copy(
        update={"base": manifest.base.model_copy(update={"model": "a\u0221"})}
    )
    with raises("rounds.no_delta") as caught:
        write_contribution(tuned, base, named, tmp_path / "c")
    assert caught.value.message == "contribution: expected a whole delta file of version 1"
    assert "expected characters of Unicode 3.2, got others" in str(caught.value.hint)


def test_what_the_core_says_of_a_file_is_no_reason(
    base: Path, tuned: Path, round_of: Round, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_contribution(tuned, base, round_of("signs"), tmp_path / "c").path

    def refuse(_: object) -> None:
        raise InputError(f"{path}: a code that is none")

    monkeypatch.setattr("zoo.gym.rounds.contribution.check.verify_whole", refuse)
    with raises("rounds.no_delta") as caught:
        open_contribution(path, round_of("signs"))
    assert caught.value.message == "contribution: expected values and codes of a delta"
    assert "a code that is none" in str(caught.value.hint)
