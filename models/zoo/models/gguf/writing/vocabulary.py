"""The tokenizer of a folder as keys of a GGUF file, from which llama.cpp makes the same tokens.

llama.cpp knows ways to split text by name. Which one a tokenizer has follows from its parts; one
that no name describes is refused, because its file would load and read other tokens.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from zoo.core.errors import InputError
from zoo.models.gguf.vocabulary import (
    BYTE_LEVEL,
    CONTROL,
    IDS,
    MERGES,
    MODEL,
    SCORES,
    SENTENCEPIECE,
    SPACE,
    SPACE_PREFIX,
    SPLIT,
    TEMPLATE,
    TOKENS,
    TYPES,
    UNKNOWN,
    USER_DEFINED,
    library_splits,
)

Tokenizer: TypeAlias = Any
"""A fast tokenizer of transformers."""

NORMAL, UNUSED, BYTE = 1, 5, 6
_LOWEST = -1e9
_SPLITS = ("llama-bpe", "qwen2", "qwen35", "tekken", "gpt-4o")
"""The names that are written for a regular expression, of those that mean the same."""

_LONE = "GPT-2's, at digits and as for GPT-2, or one of "
_IGNORED = {"NFC"}
"""Normalizers that llama.cpp leaves out, as its own converter does: most text has that form."""


@dataclass(frozen=True)
class Ends:
    """The special tokens of answers.

    Attributes:
        stops: the tokens that end an answer, that of the tokenizer first.
        template: the chat template; None for a model without.
        chat_begins: whether a rendered chat begins with BOS; None without a template. llama.cpp
            has one setting for chats and texts.
    """

    stops: Sequence[int]
    template: str | None
    chat_begins: bool | None = None


def vocabulary_keys(tokenizer: Tokenizer, rows: int, ends: Ends) -> dict[str, Any]:
    """Returns the keys of a tokenizer.

    Args:
        tokenizer: the tokenizer, with the fine-tune's own parts.
        rows: the rows of the embedding; tokens that are missing become unused ones.
        ends: what ends answers.

    Raises:
        InputError: llama.cpp has no such tokenizer, or there are more tokens than rows.
    """
    parts: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    kind = _kind(parts)
    _check_added(parts)
    words, types = _words(parts, rows, kind)
    keys: dict[str, Any] = {MODEL: kind, TOKENS: words, TYPES: types}
    if kind == BYTE_LEVEL:
        keys |= _byte_level(parts, words, types)
    else:
        keys |= _sentencepiece(parts, words)
    keys |= _special(tokenizer, ends, rows)
    if ends.template is not None:
        keys[TEMPLATE] = ends.template
    return keys


def _kind(parts: Mapping[str, Any]) -> str:
    model = parts["model"]
    steps = {step["type"] for step in _steps(parts["pre_tokenizer"], "pretokenizers")}
    if model["type"] == "BPE":
        if "ByteLevel" in steps:
            return BYTE_LEVEL
        if steps <= {"Metaspace"} or (_replaces_spaces(parts) and _splits_at_spaces(parts)):
            return SENTENCEPIECE
    raise InputError(
        f"tokenizer: expected BPE over bytes, or over words that begin with '{SPACE}', got "
        f"{model['type']} of another kind, which llama.cpp would read otherwise",
        hint="--format hf writes a folder that transformers loads",
        code="models.tokenizer_not_for_gguf",
    )


def _replaces_spaces(parts: Mapping[str, Any]) -> bool:
    steps = _steps(parts["normalizer"], "normalizers")
    return any(step["type"] == "Replace" and step["content"] == SPACE for step in steps)


def _splits_at_spaces(parts: Mapping[str, Any]) -> bool:
    """Returns whether text is split at spaces alone, of which none are left once replaced."""
    steps = _steps(parts["pre_tokenizer"], "pretokenizers")
    return all(step["type"] == "Split" and step["pattern"].get("String") == " " for step in steps)


def needs_stripping(parts: Mapping[str, Any]) -> bool:
    """Returns whether special tokens take the blanks behind them, as Phi-3's do.

    llama.cpp does that for these tokens if `general.name` says phi-3, and for no other.
    """
    special = [token for token in parts["added_tokens"] if token["special"]]
    taking = {token["content"] for token in special if token["rstrip"]}
    return bool(taking) and taking == {token["content"] for token in special} - _NOT_STRIPPING


_NOT_STRIPPING = {"<unk>", "<s>", "<|endoftext|>"}


def _check_added(parts: Mapping[str, Any]) -> None:
    """Refuses tokens that take blanks, or must stand alone: llama.cpp would read them anywhere.

    Raises:
        InputError: there is one.
    """
    stripping = needs_stripping(parts)
    for token in parts["added_tokens"]:
        flags = [name for name in ("lstrip", "rstrip", "single_word") if token[name]]
        if flags and not (stripping and flags == ["rstrip"]):
            raise InputError(
                f"tokenizer: token {token['content']!r}: expected one that takes no blanks and may "
                f"stand within a word, got {' and '.join(flags)}, which llama.cpp leaves out",
                hint="--format hf writes a folder that transformers loads",
                code="models.tokenizer_not_for_gguf",
            )


def _steps(part: Mapping[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    """Returns the parts of a normalizer or a pre-tokenizer, one after the other."""
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [step for each in part[inner] for step in _steps(each, inner)]
    return [dict(part)]


def _words(parts: Mapping[str, Any], rows: int, kind: str) -> tuple[list[str], list[int]]:
    """Returns the tokens and their types, with unused ones in the gaps."""
    vocab: dict[str, int] = dict(parts["model"]["vocab"])
    added = {token["content"]: token for token in parts["added_tokens"]}
    vocab |= {word: token["id"] for word, token in added.items()}
    if vocab and max(vocab.values()) >= rows:
        raise InputError(
            f"tokenizer: expected tokens below {rows:,}, the rows of the embedding, got "
            f"{max(vocab.values()):,}",
            code="models.bad_tokenizer",
        )
    words, types = [f"[PAD{index}]" for index in range(rows)], [UNUSED] * rows
    unknown = parts["model"].get("unk_token")
    for word, index in vocab.items():
        words[index], types[index] = word, NORMAL
        if word in added:
            types[index] = CONTROL if added[word]["special"] else USER_DEFINED
        elif kind == SENTENCEPIECE and _is_byte(word):
            types[index] = BYTE
        if kind == SENTENCEPIECE and word == unknown:
            types[index] = UNKNOWN
    if len(set(words)) < rows:
        raise InputError(
            "tokenizer: expected each token once, got one twice", code="models.bad_tokenizer"
        )
    return words, types


def _is_byte(word: str) -> bool:
    return len(word) == 6 and word.startswith("<0x") and word.endswith(">")


def _byte_level(
    parts: Mapping[str, Any], words: Sequence[str], types: Sequence[int]
) -> dict[str, Any]:
    normalizers = {step["type"] for step in _steps(parts["normalizer"], "normalizers")}
    if normalizers - _IGNORED:
        raise InputError(
            f"tokenizer: expected no normalizer but NFC, got {', '.join(sorted(normalizers))}",
            code="models.tokenizer_not_for_gguf",
        )
    merges = [
        merge if isinstance(merge, str) else " ".join(merge) for merge in parts["model"]["merges"]
    ]
    split = _split(parts, has_merges=bool(merges))
    if not merges:  # the key is required: a merge of two tokens that no text has
        special = [word for word, kind in zip(words, types, strict=True) if kind == CONTROL]
        merges = [" ".join((special or list(words[:1]))[-1:] * 2)]
    return {SPLIT: split, MERGES: merges}


def _split(parts: Mapping[str, Any], *, has_merges: bool) -> str:
    """Returns the name of how a text is split into words.

    Raises:
        InputError: there is none.
    """
    steps = _steps(parts["pre_tokenizer"], "pretokenizers")
    *before, last = steps
    whole = bool(parts["model"].get("ignore_merges"))
    spaced = any(step.get("add_prefix_space") for step in steps)
    if not has_merges and not spaced:
        return "gpt-2"  # each byte is a token, however it is split
    patterns = [
        step["pattern"].get("Regex")
        for step in before
        if step["type"] == "Split" and step["behavior"] == "Isolated" and not step.get("invert")
    ]
    if not spaced and last["type"] == "ByteLevel":
        if last.get("use_regex", True) and not before and not whole:
            return "gpt-2"
        digits = [step for step in before if step["type"] == "Digits"]
        if len(digits) == len(before) == 1 and last["use_regex"] and digits[0]["individual_digits"]:
            return "smollm"
        if len(patterns) == len(before) == 1 and not last["use_regex"]:
            named = library_splits()
            names = [name for name in _SPLITS if named.get(name) == patterns[0]]
            if names and whole == (names[0] in {"llama-bpe", "tekken"}):
                return names[0]
    raise InputError(
        f"tokenizer: expected text that is split as {_LONE}{', '.join(_SPLITS)}, got another way, "
        "which llama.cpp has no name for",
        hint="--format hf writes a folder that transformers loads",
        code="models.tokenizer_not_for_gguf",
    )


def _sentencepiece(parts: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Returns the keys of a vocabulary whose merges llama.cpp recovers from scores."""
    normalizers = _steps(parts["normalizer"], "normalizers")
    pre = _steps(parts["pre_tokenizer"], "pretokenizers")
    prefixed = any(step["type"] == "Prepend" for step in normalizers)
    prefixed |= any(step.get("prepend_scheme") in {"first", "always"} for step in pre)
    spaces = any(
        step["type"] == "Replace" and step["content"] == SPACE for step in normalizers
    ) or bool(pre)
    is_known = all(
        (step["type"] == "Prepend" and step["prepend"] == SPACE)
        or (
            step["type"] == "Replace"
            and step["pattern"] == {"String": " "}
            and step["content"] == SPACE
        )
        for step in normalizers
    )
    if not spaces or not is_known:
        raise InputError(
            "tokenizer: expected spaces as '\u2581' and no other normalizer",
            code="models.tokenizer_not_for_gguf",
        )
    ranks: dict[str, int] = {}
    for rank, merge in enumerate(parts["model"]["merges"]):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        ranks.setdefault("".join(pair), rank)
    scores = [float(-ranks[word]) if word in ranks else _LOWEST for word in words]
    return {SPLIT: "default", SCORES: scores, SPACE_PREFIX: prefixed}


def _special(tokenizer: Tokenizer, ends: Ends, rows: int) -> dict[str, Any]:
    ids: dict[str, int | None] = {
        "bos": tokenizer.bos_token_id,
        "unknown": tokenizer.unk_token_id,
        "padding": tokenizer.pad_token_id,
    }
    if len(ends.stops) > 3:
        raise InputError(
            f"tokens that end an answer: expected at most 3, which a GGUF file can name, got "
            f"{len(ends.stops)}",
            code="models.tokenizer_not_for_gguf",
        )
    ids |= dict(zip(("eos", "eot", "eom"), ends.stops, strict=False))
    keys: dict[str, Any] = {
        f"tokenizer.ggml.{name}_token_id": ids[name]
        for name in IDS
        if ids.get(name) is not None and int(ids[name] or 0) < rows
    }
    added = _added(tokenizer)
    if ends.chat_begins is not None:
        added["tokenizer.ggml.add_bos_token"] = ends.chat_begins
    return keys | added


def _added(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns whether a text gets a token before it, and one after it."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a", add_special_tokens=True)["input_ids"]
    first = bool(full) and full != bare and full[0] == tokenizer.bos_token_id
    last = full[first:] != bare and full[-1] == tokenizer.eos_token_id
    if full[first : len(full) - last] != bare:
        raise InputError(
            "tokenizer: expected at most BOS before a text and EOS after it, got other tokens",
            code="models.tokenizer_not_for_gguf",
        )
    return {"tokenizer.ggml.add_bos_token": first, "tokenizer.ggml.add_eos_token": last}
