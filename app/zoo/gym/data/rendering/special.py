"""Tokenises special tokens in the data as plain text, so that no text can forge a turn.

A tokenizer reads `<|im_end|>` as the end of a turn wherever it occurs. Here only those of the
template count. Before tokenization each special token written by the template is replaced with a
private-use character, and a copy of the tokenizer, created when it is first needed, maps these
characters to the special tokens; the text of any other special token is read as ordinary text.
Tokens that are added but not flagged as special, such as `<think>`, remain tokens everywhere.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from zoo.gym.data.tokenizer import Tokenizer, Tokens, tokenise
from zoo.gym.errors import InputError
from zoo.models.refusals import refusals

_FIRST = 0x10E000
_STANDING_IN = re.compile("[\U0010e000-\U0010fffd]")
_cached: "WeakKeyDictionary[Tokenizer, SpecialTokens]" = WeakKeyDictionary()


class SpecialTokens:
    """The special tokens of a tokenizer, and the copy that reads text as text.

    Attributes:
        pattern: matches the longest special token at a position.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        added = cast("Mapping[int, Any]", tokenizer.added_tokens_decoder)
        self._ids = {str(t.content): i for i, t in added.items() if t.special and str(t.content)}
        words = sorted(self._ids, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, words)) or r"(?!)")
        self._stand_ins = {word: chr(_FIRST + index) for index, word in enumerate(words)}
        self.ids = frozenset(self._ids.values())
        # an unknown character cannot forge a turn
        self._counted = self.ids - {tokenizer.unk_token_id}
        self._copy: _PlainReader | None = None

    def stood_in(self, text: str) -> str:
        """Returns a text with a private-use character for each special token.

        Raises:
            InputError: the text already contains such characters.
        """
        _refuse_stand_ins(text)
        return self.pattern.sub(lambda match: self._stand_ins[match[0]], text)

    def tokenise(self, text: str, cuts: Sequence[int] = (), *, plain: bool) -> Tokens:
        """Returns the tokens of a text with no special tokens but the template's.

        Args:
            text: the text; if `plain`, the result of `stood_in`.
            cuts: character positions, in order, that no token may cross.
            plain: the text contains special tokens that are plain text.

        Raises:
            InputError: the tokenizer makes a special token of plain text, or cannot be copied.
        """
        reader = self._tokenizer
        if plain:
            self._copy = self._copy or _PlainReader(reader, self._stand_ins)
            reader = cast("Tokenizer", self._copy)
        tokens = tokenise(reader, text, cuts)
        written = len((_STANDING_IN if plain else self.pattern).findall(text))
        if sum(token in self._counted for token in tokens.ids) > written:
            raise InputError(
                "the tokenizer reads part of the text as a special token: expected plain text",
                hint="split_special_tokens=false allows special tokens in the data",
                code="data.special_token",
            )
        return tokens

    def tokenise_text(self, text: str, cuts: Sequence[int] = ()) -> Tokens:
        """Returns the tokens of untrusted text: none of them is special.

        Raises:
            InputError: see `tokenise`.
        """
        plain = self.pattern.search(text) is not None
        if plain:
            _refuse_stand_ins(text)
        return self.tokenise(text, cuts, plain=plain)


def _refuse_stand_ins(text: str) -> None:
    if match := _STANDING_IN.search(text):
        raise InputError(
            f"the character U+{ord(match[0]):X} occurs together with special tokens: expected text "
            "without private-use characters from U+10E000 on",
            code="data.private_use",
        )


def special_tokens(tokenizer: Tokenizer) -> SpecialTokens:
    """Returns the special tokens of a tokenizer, cached for its lifetime."""
    if tokenizer not in _cached:
        _cached[tokenizer] = SpecialTokens(tokenizer)
    return _cached[tokenizer]


class _PlainReader:
    """A copy of a fast tokenizer with other text for its special tokens, and the same ids."""

    def __init__(self, tokenizer: Tokenizer, stand_ins: Mapping[str, str]) -> None:
        from tokenizers import Tokenizer as Core

        with refusals(f"{tokenizer.name_or_path}: the tokenizer cannot be copied"):
            content = json.loads(tokenizer.backend_tokenizer.to_str())
            for token in content["added_tokens"]:
                if token["special"]:
                    token["content"] = stand_ins.get(token["content"], token["content"])
                    token |= {"normalized": False, "single_word": False}
            ids = {token["content"]: token["id"] for token in content["added_tokens"]}
            content |= {"post_processor": None, "truncation": None, "padding": None}
            self._core = Core.from_str(json.dumps(content))
        changed = {self._core.token_to_id(word): token for word, token in ids.items()}
        self._ids = {ours: token for ours, token in changed.items() if ours != token}

    def __call__(self, text: str, **_: object) -> Mapping[str, object]:
        """Returns the ids of a text and their character offsets."""
        read = self._core.encode(text, add_special_tokens=False)
        ids = [self._ids.get(token, token) for token in read.ids]
        return {"input_ids": ids, "offset_mapping": read.offsets}
