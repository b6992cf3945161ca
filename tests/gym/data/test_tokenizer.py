"""Loading a tokenizer, and tokens that know their characters."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.data.tokenizer import load_tokenizer, tokenise
from zoo.gym.errors import InputError, NotAvailableError


def test_a_saved_tokenizer_is_loaded_again(
    tmp_path: Path, byte_tokenizer: Callable[..., Any]
) -> None:
    byte_tokenizer().save_pretrained(tmp_path)
    assert tokenise(load_tokenizer(tmp_path), "<s>a").ids == tokenise(byte_tokenizer(), "<s>a").ids


@pytest.mark.slow
def test_qwen3_is_rebuilt_from_vocabulary_and_merges(shared: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(shared("data/tokenizers/qwen3"))
    tokens = tokenise(tokenizer, "<|im_start|>Hi there")
    assert tokens.ids[0] == 151644
    assert (tokens.starts, tokens.stops) == ([0, 12, 14], [12, 14, 20])


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "no tokenizer: expected tokenizer.json"),
        ({"tokenizer.json": "{"}, "tokenizer.json: expected a JSON object, got a damaged file"),
        ({"tokenizer.json": "[]"}, "tokenizer.json: expected a JSON object, got a list"),
        (
            {"tokenizer.json": '{"added_tokens": []}'},
            "the tokenizer cannot be loaded: Model missing",
        ),
        (
            {"tokenizer.json": "version https://git-lfs.github.com/spec/v1"},
            "tokenizer.json: expected a JSON object, got a Git LFS pointer",
        ),
    ],
)
def test_a_folder_without_a_good_tokenizer_is_refused(
    tmp_path: Path, files: dict[str, str], sentence: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=sentence):
        load_tokenizer(tmp_path)


def test_an_absent_folder_is_not_available(tmp_path: Path) -> None:
    with raises("data.missing_model") as caught:
        load_tokenizer(tmp_path / "absent")
    assert caught.value.code == "data.missing_model"


def test_a_folder_deleted_while_read_is_reported_missing(
    tmp_path: Path, byte_tokenizer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    byte_tokenizer().save_pretrained(folder)
    # the last thing that is done before the library reads the folder
    monkeypatch.setattr("zoo.gym.data.tokenizer._refuse_damaged", shutil.rmtree)
    with pytest.raises(NotAvailableError, match="cannot be loaded: no such folder: "):
        load_tokenizer(folder)


@pytest.mark.slow
@given(st.text(), st.lists(st.integers(0, 20)))
def test_tokens_cover_the_text_whatever_the_cuts(
    byte_tokenizer: Callable[..., Any], text: str, places: list[int]
) -> None:
    tokenizer = byte_tokenizer()
    cuts = sorted({min(place, len(text)) for place in places})
    tokens = tokenise(tokenizer, text, cuts)
    assert tokenizer.decode(tokens.ids) == text
    assert not any(
        a < cut < b for cut in cuts for a, b in zip(tokens.starts, tokens.stops, strict=True)
    )


@pytest.mark.slow
def test_a_token_across_a_cut_is_read_in_two_pieces(shared: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(shared("data/tokenizers/qwen3"))
    whole, pieces = tokenise(tokenizer, "a\n\nb"), tokenise(tokenizer, "a\n\nb", [2])
    assert (whole.starts, whole.stops) == ([0, 1, 3], [1, 3, 4])
    assert (pieces.starts, pieces.stops) == ([0, 1, 2, 3], [1, 2, 3, 4])


def test_cuts_between_tokens_leave_a_text_in_one_piece(shared: Callable[[str], Path]) -> None:
    # this tokenizer puts a space of its own in front of every piece
    tokenizer = load_tokenizer(shared("data/models/stories260K"))
    text = "Once upon a time"
    assert tokenise(tokenizer, text, [4, 9]) == tokenise(tokenizer, text)
