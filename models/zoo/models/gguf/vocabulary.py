"""The tokenizer in a GGUF file as one of transformers, with the same ids as in llama.cpp.

Built from the parts of the library `tokenizers`, because transformers' own conversion knows only
some of the ways to split text, and adds tokens that the embedding has no rows for.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from zoo.core.errors import InputError
from zoo.models.gguf.parts import Source
from zoo.models.refusals import refusals

BYTE_LEVEL, SENTENCEPIECE = "gpt2", "llama"
MODELS = (BYTE_LEVEL, SENTENCEPIECE)
"""Values of `tokenizer.ggml.model` that can be converted."""

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
TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>")
"""Control tokens that end an answer if the chat template has them."""

MOST_TEMPLATE_CHARACTERS = 1 << 18


def check_vocabulary(source: Source, rows: int) -> None:
    """Refuses a vocabulary that cannot be converted or does not fit the embedding.

    Args:
        source: the open file.
        rows: the rows of the embedding.

    Raises:
        InputError: it is missing, of an unknown kind, incomplete or inconsistent.
    """
    kind = source.metadata.get("tokenizer.ggml.model")
    if kind not in MODELS:
        raise _unlike(source, "model", f"one of {', '.join(MODELS)}", kind)
    tokens = source.metadata.get("tokenizer.ggml.tokens")
    if not _are_texts(tokens):
        raise _unlike(source, "tokens", "a list of texts", tokens)
    if len(tokens) != rows:
        raise _unlike(source, "tokens", f"{rows:,}, a row of the embedding each", len(tokens))
    repeated = [token for token, count in Counter(tokens).items() if count > 1]
    if repeated:
        raise _unlike(source, "tokens", "each token once", repeated[0])
    for key in ("token_type", "scores"):
        values = source.metadata.get(f"tokenizer.ggml.{key}")
        if values is not None and (isinstance(values, str) or _length(values) != rows):
            raise _unlike(source, key, f"{rows:,} numbers", _length(values))
    _check_model(source, kind)
    for name in IDS:
        token = source.metadata.get(f"tokenizer.ggml.{name}_token_id")
        if token is not None and not (type(token) is int and 0 <= token < rows):
            raise _unlike(source, f"{name}_token_id", f"a token below {rows:,}", token)
    for name in _added(source.metadata):
        if source.metadata.get(f"tokenizer.ggml.{name}_token_id") is None:
            raise _unlike(source, f"{name}_token_id", "the token that each text gets", None)


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
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    template = chat_template(source)
    with refusals(f"'{source.path}': this tokenizer cannot be converted"):
        backend = _backend(metadata)
        special = {
            f"{short}_token": tokens[metadata[f"tokenizer.ggml.{name}_token_id"]]
            for short, name in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"))
            if metadata.get(f"tokenizer.ggml.{name}_token_id") is not None
        }
        pad = metadata.get("tokenizer.ggml.padding_token_id")
        if pad is not None:
            special["pad_token"] = tokens[pad]
        tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=backend,
            model_max_length=positions,
            clean_up_tokenization_spaces=False,
            chat_template=template,
            **special,
        )
    if len(tokenizer) != len(tokens):
        raise _unlike(source, "tokens", f"{len(tokens):,} after conversion", len(tokenizer))
    tokenizer.save_pretrained(folder)
    return template is not None


def chat_template(source: Source) -> str | None:
    """Returns the chat template, or None if there is none.

    Raises:
        InputError: it is no text, too long, no Jinja, or reaches for the inside of Python objects.
    """
    from jinja2 import TemplateError, nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    template = source.metadata.get("tokenizer.chat_template")
    if template is None or (isinstance(template, str) and not template):
        return None
    where = f"'{source.path}': tokenizer.chat_template"
    if not isinstance(template, str) or len(template) > MOST_TEMPLATE_CHARACTERS:
        raise InputError(
            f"{where}: expected a text of at most {MOST_TEMPLATE_CHARACTERS:,} characters"
        )
    environment = ImmutableSandboxedEnvironment(
        extensions=["jinja2.ext.loopcontrols"], trim_blocks=True, lstrip_blocks=True
    )
    try:
        tree = environment.parse(
            template.replace("{% generation %}", "").replace("{% endgeneration %}", "")
        )
    except (TemplateError, RecursionError) as error:
        raise InputError(f"{where}: expected a Jinja template: {error}") from error
    reached = [node.attr for node in tree.find_all(nodes.Getattr)]
    reached += [str(node.value) for node in tree.find_all(nodes.Const)]
    inside = [name for name in reached if name.startswith("__")]
    if inside or any(tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends))):
        what = repr(inside[0]) if inside else "another template"
        raise InputError(f"{where}: expected a template for chats alone, got one that uses {what}")
    return template


def end_tokens(source: Source) -> list[int]:
    """Returns the ids that end an answer, the one of `eos` first."""
    metadata = source.metadata
    ids = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    template = metadata.get("tokenizer.chat_template")
    types = metadata.get("tokenizer.ggml.token_type")
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    if isinstance(template, str) and types is not None:
        control = {token: i for i, token in enumerate(tokens) if types[i] == CONTROL}
        ids += [control.get(token) for token in TURN_ENDS if token in template]
    return list(dict.fromkeys(token for token in ids if token is not None))


def _check_model(source: Source, kind: str) -> None:
    metadata = source.metadata
    if kind == SENTENCEPIECE:
        if metadata.get("tokenizer.ggml.scores") is None:
            raise _unlike(source, "scores", "a number for each token", None)
        return
    if not _are_texts(metadata.get("tokenizer.ggml.merges")):
        raise _unlike(source, "merges", "a list of texts", metadata.get("tokenizer.ggml.merges"))
    splits = {*PLAIN_SPLITS, *DIGIT_SPLITS, *SAME_AS, *_library_splits()}
    if metadata.get("tokenizer.ggml.pre") not in splits:
        expected = f"one of {', '.join(sorted(splits))}"
        raise _unlike(source, "pre", expected, metadata.get("tokenizer.ggml.pre"))


def _library_splits() -> Mapping[str, str]:
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    splits: Mapping[str, str] = GGUF_PRE_TOKENIZER_SPLITS
    return splits


def _backend(metadata: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Returns the tokenizer of the library `tokenizers`."""
    if metadata["tokenizer.ggml.model"] == BYTE_LEVEL:
        backend = _byte_level(metadata)
    else:
        backend = _sentencepiece(metadata)
    _add_whole_tokens(backend, metadata)
    _add_ends(backend, metadata)
    return backend


def _byte_level(metadata: Mapping[str, Any]) -> Any:  # noqa: ANN401
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    name = str(metadata.get("tokenizer.ggml.pre"))
    vocab = {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    whole_words = name in WHOLE_WORDS or name == "tekken"
    backend = Tokenizer(models.BPE(vocab, merges, ignore_merges=whole_words))
    regex = _library_splits().get(SAME_AS.get(name, name))
    steps: list[Any] = []
    if regex is not None:
        steps.append(pre_tokenizers.Split(Regex(regex), behavior="isolated"))
    elif name in DIGIT_SPLITS:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex is None))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    return backend


def _sentencepiece(metadata: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Returns a tokenizer whose merges are recovered from the scores of the tokens."""
    from tokenizers import Tokenizer, models
    from transformers.tokenization_utils_base import generate_merges

    tokens = list(metadata["tokenizer.ggml.tokens"])
    scores = [score.item() for score in metadata["tokenizer.ggml.scores"]]
    if str(metadata["general.architecture"]).startswith("gemma"):
        # its file has runs of spaces as such, and its merges are in the order of the tokens
        tokens = [SPACE * len(each) if each and not each.strip(" ") else each for each in tokens]
        scores = [-i for i in range(len(tokens))]
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = generate_merges(vocab, dict(zip(tokens, scores, strict=True)))
    unknown = metadata.get("tokenizer.ggml.unknown_token_id")
    backend = Tokenizer(
        models.BPE(
            vocab,
            merges,
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    _mark_spaces(backend, prefix=metadata.get("tokenizer.ggml.add_space_prefix", True) is not False)
    return backend


def _add_whole_tokens(backend: Any, metadata: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Sets which tokens are never cut into pieces: control, unknown and user-defined ones."""
    from tokenizers import AddedToken

    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    types = metadata.get("tokenizer.ggml.token_type")
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


def _added(metadata: Mapping[str, Any]) -> list[str]:
    """Returns which of `bos` and `eos` a text gets, as in llama.cpp."""
    kind, split = metadata["tokenizer.ggml.model"], metadata.get("tokenizer.ggml.pre")
    by_default = kind == SENTENCEPIECE or split in WHOLE_WORDS or split == "tekken"
    defaults = (("bos", by_default), ("eos", False))
    key = "tokenizer.ggml.add_{}_token"
    return [name for name, default in defaults if metadata.get(key.format(name), default) is True]


def _add_ends(backend: Any, metadata: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Sets which tokens are added before and after a text, as llama.cpp adds them."""
    from tokenizers import processors

    ends: dict[str, tuple[str, int]] = {}
    for name in _added(metadata):
        token = metadata[f"tokenizer.ggml.{name}_token_id"]
        ends[name] = metadata["tokenizer.ggml.tokens"][token], token
    prefix = f"{ends['bos'][0]} " if "bos" in ends else ""
    suffix = f" {ends['eos'][0]}" if "eos" in ends else ""
    backend.post_processor = processors.TemplateProcessing(
        single=f"{prefix}$A{suffix}",
        pair=f"{prefix}$A{suffix} {prefix}$B:1{suffix}",
        special_tokens=list(dict.fromkeys(ends.values())),
    )


def _are_texts(values: object) -> TypeGuard[list[str]]:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _length(values: Any) -> int | None:  # noqa: ANN401
    return len(values) if hasattr(values, "__len__") else None


def _unlike(source: Source, key: str, expected: str, got: object) -> InputError:
    text = "none" if got is None else f"{got:,}" if type(got) is int else repr(got)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return InputError(f"'{source.path}': tokenizer.ggml.{key}: expected {expected}, got {text}")
