"""Text that grows by a token at a time: parts are complete, and together they are the whole."""

import pytest

from zoo.backends.detokenizer import Detokenizer
from zoo.gym.data import load_tokenizer
from zoo.models import pico_folder


def parts_of(text: str) -> tuple[list[str], str]:
    """Returns the complete parts of a text in zen-pico's tokens, and what is left."""
    tokenizer = load_tokenizer(pico_folder())
    growing = Detokenizer(tokenizer.decode)
    ids: object = tokenizer(text)["input_ids"]
    assert isinstance(ids, list)
    return [growing.add(token) for token in ids], growing.pending


@pytest.mark.parametrize(
    "text", ["Two words.", " a  b\n\n", "für 5 €", "\U0001f469\u200d\U0001f52c!", ""]
)
def test_the_parts_are_the_text(text: str) -> None:
    parts, pending = parts_of(text)
    assert "".join(parts) + pending == text
    assert not any("\ufffd" in part for part in parts)


def test_a_character_of_several_tokens_comes_whole() -> None:
    parts, _ = parts_of("€")
    assert len(parts) > 1
    assert parts == [*[""] * (len(parts) - 1), "€"]


def test_the_first_token_of_a_text_may_decode_otherwise() -> None:
    def decode(ids: list[int]) -> str:
        """As sentencepiece: the space before the first word is not written."""
        return " ".join("abc"[token] for token in ids)

    growing = Detokenizer(decode)
    assert [growing.add(token) for token in (0, 1, 2)] == ["a", " b", " c"]


def test_the_time_does_not_grow_with_the_text() -> None:
    lengths: list[int] = []

    def decode(ids: list[int]) -> str:
        lengths.append(len(ids))
        return "x" * len(ids)

    growing = Detokenizer(decode)
    for token in range(100):
        growing.add(token)
    assert max(lengths) == 2
