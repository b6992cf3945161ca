"""The model's own tokenizer, and tokens with their character offsets."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.models.folder import read_object
from zoo.models.refusals import refusals

_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")


class Tokenizer(Protocol):
    """The part of a fast transformers tokenizer that is used.

    Attributes:
        bos_token_id: the beginning-of-text token, None if there is none.
        pad_token_id: the token that fills rows of a batch, None if there is none.
        backend_tokenizer: the tokenizer of the library `tokenizers` inside.
        chat_template: one template, several by name, or None.
    """

    name_or_path: str
    bos_token_id: int | None
    eos_token_id: int | None
    pad_token_id: int | None
    unk_token_id: int | None
    chat_template: object
    backend_tokenizer: Any

    @property
    def special_tokens_map(self) -> Mapping[str, object]:
        """Returns the special tokens by purpose: `bos_token` and so on."""
        ...

    @property
    def added_tokens_decoder(self) -> Mapping[int, object]:
        """Returns the markers that were added to the vocabulary, by id."""
        ...

    def __call__(self, text: str, **options: object) -> Mapping[str, object]:
        """Returns the token ids of a text, and whatever else the options request."""
        ...

    def get_chat_template(self, *, tools: Sequence[object] | None = None) -> str:
        """Returns the template of a plain chat, or that of a chat with tools."""
        ...

    def decode(self, token_ids: list[int]) -> str:
        """Returns the text of tokens, markers included."""
        ...


def has_tokenizer(folder: Path) -> bool:
    """Returns whether a model folder has the files of a tokenizer."""
    return any((folder / name).is_file() for name in _FILES)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Loads the tokenizer of a model folder, only from disk and without running its code.

    Args:
        folder: a model folder with `tokenizer.json`, or with the files it can be built from.

    Raises:
        NotAvailableError: the folder is missing.
        InputError: it has no tokenizer, a damaged one, or one without character offsets.
    """
    if not folder.is_dir():
        raise NotAvailableError(f"{folder}: no such model folder", code="data.missing_model")
    if not has_tokenizer(folder):
        raise InputError(
            f"{folder}: no tokenizer: expected {' or '.join(_FILES)}", code="data.no_tokenizer"
        )
    _refuse_damaged(folder)
    from transformers import AutoTokenizer

    with refusals(f"{folder}: the tokenizer cannot be loaded", folder):
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    if not tokenizer.is_fast:
        got = type(tokenizer).__name__
        raise InputError(
            f"{folder}: expected a fast tokenizer, got {got}", code="data.slow_tokenizer"
        )
    return cast("Tokenizer", tokenizer)


def _refuse_damaged(folder: Path) -> None:
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            read_object(folder / name)


def stop_ids(folder: Path, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Returns the tokens that end an answer, from the tokenizer and the model's configs."""
    tokens: list[object] = [tokenizer.eos_token_id]
    for path in (folder / "generation_config.json", folder / "config.json"):
        if path.is_file():
            value = read_object(path).get("eos_token_id")
            tokens += value if isinstance(value, list) else [value]
    return tuple(sorted({token for token in tokens if isinstance(token, int)}))


def check_same_tokens(name: str, other: Path, base: Path) -> None:
    """Checks that each id is the same token in two models.

    How they split a text into tokens may differ: one of them does it for both.

    Args:
        name: of the other model, in the message.
        base: the folder of the model with the expected tokens.

    Raises:
        InputError: a token differs; see also `load_tokenizer`.
    """
    theirs, ours = (
        load_tokenizer(folder).backend_tokenizer.get_vocab() for folder in (other, base)
    )
    if odd := theirs.items() ^ ours.items():
        first = min(number for _, number in odd)
        got, expected = (_token(vocabulary, first) for vocabulary in (theirs, ours))
        raise InputError(
            f"{name}: expected the tokenizer of the base, got another one: token {first} is "
            f"{got} in {other.name} and {expected} in the base",
            hint="the models of one family usually have the same tokenizer",
            code="data.other_tokenizer",
        )


def _token(vocabulary: Mapping[str, int], number: int) -> str:
    """Returns the token of an id, for a message."""
    return next((repr(text) for text, token in vocabulary.items() if token == number), "unused")


class Tokens(NamedTuple):
    """A tokenized text.

    Attributes:
        starts: the character that each token starts at; tokens of one character share it.
    """

    ids: list[int]
    starts: list[int]
    stops: list[int]

    def first_from(self, position: int) -> int:
        """Returns the index of the first token that starts at or after a character."""
        return bisect_left(self.starts, position)


def tokenise(tokenizer: Tokenizer, text: str, cuts: Sequence[int] = ()) -> Tokens:
    """Returns the tokens of a text, without the tokenizer's own first and last ones.

    The text is tokenized as a whole. Only if a token would cross one of the cuts, it is tokenized
    in pieces between them, which is also how a model reads it: first the prompt, then the answer.

    Args:
        text: the text; markers in it become the corresponding tokens.
        cuts: character positions, in order, that no token may cross.
    """
    tokens = _tokenise(tokenizer, text, 0)
    previous = [(tokens.first_from(cut) - 1, cut) for cut in cuts]
    if not any(index >= 0 and tokens.stops[index] > cut for index, cut in previous):
        return tokens
    edges = [0, *cuts, len(text)]
    pieces = [_tokenise(tokenizer, text[start:stop], start) for start, stop in pairwise(edges)]
    return Tokens(*(list(chain(*parts)) for parts in zip(*pieces, strict=True)))


def _tokenise(tokenizer: Tokenizer, text: str, offset: int) -> Tokens:
    read = tokenizer(
        text,
        add_special_tokens=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        verbose=False,
    )
    spans = cast("list[tuple[int, int]]", read["offset_mapping"])
    starts, stops = ([span[side] + offset for span in spans] for side in (0, 1))
    return Tokens(list(cast("list[int]", read["input_ids"])), starts, stops)
