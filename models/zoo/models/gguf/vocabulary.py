"""The tokenizer in a GGUF file as one of transformers, with the same ids as in llama.cpp.

Built from the parts of the library `tokenizers`, because transformers' own conversion knows only
some of the ways to split text, and adds tokens that the embedding has no rows for.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.core.errors import InputError
from zoo.models.gguf.metadata import Metadata
from zoo.models.gguf.parts import Source
from zoo.models.refusals import refusals

BYTE_LEVEL, SENTENCEPIECE = "gpt2", "llama"
MODELS = (BYTE_LEVEL, SENTENCEPIECE)
"""Values of `tokenizer.ggml.model` that can be converted."""

MODEL, SPLIT = "tokenizer.ggml.model", "tokenizer.ggml.pre"
TOKENS, TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
SCORES, MERGES = "tokenizer.ggml.scores", "tokenizer.ggml.merges"
SPACE_PREFIX = "tokenizer.ggml.add_space_prefix"
TEMPLATE = "tokenizer.chat_template"

PLAIN_SPLITS = frozenset(
    {"gpt-2", "phi-2", "gigachat", "mellum", "mpt", "olmo", "jais", "trillion", "exaone4"}
)
"""Values of `tokenizer.ggml.pre` whose text is split as for GPT-2."""

DIGIT_SPLITS = frozenset(
    {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"}
)
"""Values whose text is split at each digit, then as for GPT-2."""

SAME_AS = {"stablelm2": "qwen2", "hunyuan": "qwen2"}
WHOLE_WORDS = frozenset(
    {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}
)
"""Values of vocabularies in which a whole word comes before its merges; they start with BOS."""

SPACE = "\u2581"
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4
SPECIAL = frozenset({UNKNOWN, CONTROL})
IDS = ("bos", "eos", "unknown", "padding", "eot", "eom")
SPECIAL_NAMES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
"""Names in transformers and in the file."""

TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>")
"""Control tokens that end an answer if the chat template has them."""

MOST_TEMPLATE_CHARACTERS = 1 << 18

_MISREAD = re.compile(r"|\$.*|.*[\s:].*|bos|eos", re.DOTALL)
"""Texts of tokens that stand in a template of `tokenizers` for something else, or for no token.

Such a token has its name there, `bos` or `eos`; so these two must not stand for other tokens.
"""


def check_vocabulary(source: Source, rows: int) -> None:
    """Refuses a vocabulary that cannot be converted or does not fit the embedding.

    Args:
        source: the open file.
        rows: the rows of the embedding.

    Raises:
        InputError: it is missing, of an unknown kind, incomplete or inconsistent.
    """
    metadata = source.metadata
    kind = metadata.text(MODEL)
    if kind not in MODELS:
        raise metadata.unlike(MODEL, f"one of {', '.join(MODELS)}", kind)
    tokens = metadata.texts(TOKENS)
    if tokens is None:
        raise metadata.unlike(TOKENS, "a list of texts", None)
    if len(tokens) != rows:
        raise metadata.unlike(TOKENS, f"{rows:,}, a row of the embedding each", len(tokens))
    repeated = [token for token, count in Counter(tokens).items() if count > 1]
    if repeated:
        raise metadata.unlike(TOKENS, "each token once", repeated[0])
    for key, values in ((TYPES, metadata.integers(TYPES)), (SCORES, metadata.numbers(SCORES))):
        if values is not None and len(values) != rows:
            raise metadata.unlike(key, f"{rows:,} numbers", len(values))
    _check_model(metadata, kind)
    for name in IDS:
        token = _id(metadata, name)
        if token is not None and not 0 <= token < rows:
            raise metadata.unlike(_id_key(name), f"a token below {rows:,}", token)
    for name in _added(metadata):
        if _id(metadata, name) is None:
            raise metadata.unlike(_id_key(name), "the token that each text gets", None)


def write_vocabulary(source: Source, folder: Path, positions: int | None) -> bool:
    """Writes the tokenizer's files, and returns whether there is a chat template.

    Args:
        source: the open file; its vocabulary was checked.
        folder: where to write.
        positions: the longest supported input in tokens.

    Raises:
        InputError: it cannot be converted, or the chat template is unusable.
        OSError: the files cannot be written.
    """
    from transformers import PreTrainedTokenizerFast

    metadata = source.metadata
    tokens = _tokens(metadata)
    template = chat_template(source)
    with refusals(f"'{source.path}': this tokenizer cannot be converted"):
        backend = _backend(metadata)
        special = {
            f"{short}_token": tokens[token]
            for short, name in SPECIAL_NAMES.items()
            if (token := _id(metadata, name)) is not None
        }
        tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=backend,
            model_max_length=positions,
            clean_up_tokenization_spaces=False,
            chat_template=template,
            **special,
        )
    if len(tokenizer) != len(tokens):
        raise metadata.unlike(TOKENS, f"{len(tokens):,} after conversion", len(tokenizer))
    _save(tokenizer, folder)
    return template is not None


def _save(tokenizer: Any, folder: Path) -> None:  # noqa: ANN401
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:  # a plain one of the library `tokenizers` if a file is not written
        reason = re.fullmatch(r".*\(os error (\d+)\)", str(error))
        if reason is None:
            raise
        code = int(reason[1])
        raise OSError(code, os.strerror(code)) from error


def chat_template(source: Source) -> str | None:
    """Returns the chat template, or None if there is none.

    Raises:
        InputError: it is no text, too long, no Jinja, or reaches for the inside of Python objects.
    """
    from jinja2 import TemplateError, nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    template = source.metadata.text(TEMPLATE)
    if template is None or not template.strip():
        return None
    where = f"'{source.path}': {TEMPLATE}"
    if len(template) > MOST_TEMPLATE_CHARACTERS:
        raise InputError(
            f"{where}: expected a text of at most {MOST_TEMPLATE_CHARACTERS:,} characters, "
            f"got {len(template):,}",
            code="models.bad_chat_template",
        )
    environment = ImmutableSandboxedEnvironment(
        extensions=["jinja2.ext.loopcontrols"], trim_blocks=True, lstrip_blocks=True
    )
    try:
        tree = environment.parse(
            template.replace("{% generation %}", "").replace("{% endgeneration %}", "")
        )
    except (TemplateError, RecursionError) as error:
        raise InputError(
            f"{where}: expected a Jinja template: {error}", code="models.bad_chat_template"
        ) from error
    reached = [node.attr for node in tree.find_all(nodes.Getattr)]
    reached += [str(node.value) for node in tree.find_all(nodes.Const)]
    inside = [name for name in reached if name.startswith("__")]
    if inside or any(tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends))):
        what = repr(inside[0]) if inside else "another template"
        raise InputError(
            f"{where}: expected a template for chats alone, got one that uses {what}",
            code="models.bad_chat_template",
        )
    return template


def end_tokens(source: Source) -> list[int]:
    """Returns the ids that end an answer, the one of `eos` first."""
    metadata = source.metadata
    ids = [_id(metadata, name) for name in ("eos", "eot", "eom")]
    template = metadata.text(TEMPLATE)
    types = metadata.integers(TYPES)
    if template is not None and types is not None:
        control = {token: i for i, token in enumerate(_tokens(metadata)) if types[i] == CONTROL}
        ids += [control.get(token) for token in TURN_ENDS if token in template]
    return list(dict.fromkeys(token for token in ids if token is not None))


def _check_model(metadata: Metadata, kind: str) -> None:
    """Refuses a vocabulary without what its kind needs; every key's type is checked in each."""
    import numpy as np

    split, merges, scores = metadata.text(SPLIT), metadata.texts(MERGES), metadata.numbers(SCORES)
    metadata.boolean(SPACE_PREFIX)
    if kind == SENTENCEPIECE:
        if scores is None:
            raise metadata.unlike(SCORES, "a number for each token", None)
        if not bool(np.isfinite(scores).all()):
            got = scores[~np.isfinite(scores)][0]
            raise metadata.unlike(SCORES, "a list of finite numbers", got)
        return
    if merges is None:
        raise metadata.unlike(MERGES, "a list of texts", None)
    splits = {*PLAIN_SPLITS, *DIGIT_SPLITS, *SAME_AS, *library_splits()}
    if split not in splits:
        raise metadata.unlike(SPLIT, f"one of {', '.join(sorted(splits))}", split)


def _tokens(metadata: Metadata) -> list[str]:
    """Returns the tokens of a checked vocabulary."""
    return metadata.texts(TOKENS) or []


def _id(metadata: Metadata, name: str) -> int | None:
    """Returns the id of a special token of `IDS`."""
    return metadata.integer(_id_key(name))


def _id_key(name: str) -> str:
    return f"tokenizer.ggml.{name}_token_id"


def library_splits() -> Mapping[str, str]:
    """Returns transformers' regular expressions by the name of a split."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    splits: Mapping[str, str] = GGUF_PRE_TOKENIZER_SPLITS
    return splits


def _backend(metadata: Metadata) -> Any:  # noqa: ANN401
    """Returns the tokenizer of the library `tokenizers`."""
    if metadata.text(MODEL) == BYTE_LEVEL:
        backend = _byte_level(metadata)
    else:
        backend = _sentencepiece(metadata)
    _add_whole_tokens(backend, metadata)
    _add_ends(backend, metadata)
    return backend


def _byte_level(metadata: Metadata) -> Any:  # noqa: ANN401
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    name = metadata.text(SPLIT) or ""
    vocab = {token: i for i, token in enumerate(_tokens(metadata))}
    merges = _merges(metadata, vocab)
    whole_words = name in WHOLE_WORDS or name == "tekken"
    backend = Tokenizer(models.BPE(vocab, merges, ignore_merges=whole_words))
    regex = library_splits().get(SAME_AS.get(name, name))
    steps: list[Any] = []
    if regex is not None:
        steps.append(pre_tokenizers.Split(Regex(regex), behavior="isolated"))
    elif name in DIGIT_SPLITS:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex is None))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    return backend


def _merges(metadata: Metadata, vocab: Mapping[str, int]) -> list[Any]:
    """Returns the merges; one of control tokens stands for none in a vocabulary of bytes alone.

    Raises:
        InputError: one makes no token; the library would end the process.
    """
    types = metadata.integers(TYPES)
    merges: list[Any] = []
    for merge in metadata.texts(MERGES) or []:
        pair = tuple(merge.split(" "))
        if len(pair) == 2 and {*pair, "".join(pair)} <= vocab.keys():
            merges.append(pair)
        elif types is None or any(types[vocab[part]] != CONTROL for part in pair if part in vocab):
            raise metadata.unlike(MERGES, "pairs of tokens that make a token", merge)
    return merges


def _sentencepiece(metadata: Metadata) -> Any:  # noqa: ANN401
    """Returns a tokenizer whose merges are recovered from the scores of the tokens."""
    from tokenizers import Tokenizer, models
    from transformers.tokenization_utils_base import generate_merges

    tokens = list(_tokens(metadata))
    stored = metadata.numbers(SCORES)
    scores: list[float] = [] if stored is None else stored.tolist()
    if (metadata.text("general.architecture") or "").startswith("gemma"):
        # its file has runs of spaces as such, and its merges are in the order of the tokens
        tokens = [SPACE * len(each) if each and not each.strip(" ") else each for each in tokens]
        scores = [-i for i in range(len(tokens))]
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = generate_merges(vocab, dict(zip(tokens, scores, strict=True)))
    unknown = _id(metadata, "unknown")
    backend = Tokenizer(
        models.BPE(
            vocab,
            merges,
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    _mark_spaces(backend, prefix=metadata.boolean(SPACE_PREFIX) is not False)
    return backend


def _add_whole_tokens(backend: Any, metadata: Metadata) -> None:  # noqa: ANN401
    """Sets which tokens are never cut into pieces: control, unknown and user-defined ones."""
    from tokenizers import AddedToken

    tokens = _tokens(metadata)
    types = metadata.integers(TYPES)
    if types is None:
        return
    control = [token for token, kind in zip(tokens, types, strict=True) if kind in SPECIAL]
    defined = [token for token, kind in zip(tokens, types, strict=True) if kind == USER_DEFINED]
    backend.add_special_tokens([AddedToken(each, normalized=False) for each in control if each])
    backend.add_tokens([AddedToken(each, normalized=False) for each in defined if each])


def _mark_spaces(backend: Any, *, prefix: bool) -> None:  # noqa: ANN401
    """Sets how spaces are written; `prefix` puts one before a text even if it starts with one."""
    from tokenizers import decoders, normalizers

    prepended = [normalizers.Prepend(SPACE)] if prefix else []
    backend.normalizer = normalizers.Sequence([*prepended, normalizers.Replace(" ", SPACE)])
    backend.pre_tokenizer = None
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, *([decoders.Strip(" ", 1, 0)] if prefix else [])])


def _added(metadata: Metadata) -> list[str]:
    """Returns which of `bos` and `eos` a text gets, as in llama.cpp."""
    kind, split = metadata.text(MODEL), metadata.text(SPLIT)
    by_default = kind == SENTENCEPIECE or split in WHOLE_WORDS or split == "tekken"
    added: list[str] = []
    for name, default in (("bos", by_default), ("eos", False)):
        stated = metadata.boolean(f"tokenizer.ggml.add_{name}_token")
        if default if stated is None else stated:
            added.append(name)
    return added


def _add_ends(backend: Any, metadata: Metadata) -> None:  # noqa: ANN401
    """Sets which tokens are added before and after a text, as llama.cpp adds them."""
    from tokenizers import processors

    ends: dict[str, dict[str, Any]] = {}
    for name in _added(metadata):
        if (token := _id(metadata, name)) is not None:
            text = _tokens(metadata)[token]
            label = name if _MISREAD.fullmatch(text) else text
            ends[name] = {"id": label, "ids": [token], "tokens": [text]}
    prefix = f"{ends['bos']['id']} " if "bos" in ends else ""
    suffix = f" {ends['eos']['id']}" if "eos" in ends else ""
    backend.post_processor = processors.TemplateProcessing(
        single=f"{prefix}$A{suffix}",
        pair=f"{prefix}$A{suffix} {prefix}$B:1{suffix}",
        special_tokens=list(ends.values()),
    )
