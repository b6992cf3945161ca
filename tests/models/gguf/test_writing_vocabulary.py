"""llama.cpp makes the same tokens of a written vocabulary as the tokenizer, or it is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.models.gguf.files import LLAMA, llama_tensors, settings, write_gguf
from tests.models.gguf.llama_cpp import LlamaCpp
from zoo.gym.export.conversations import random_texts
from zoo.models import pico_folder
from zoo.models.gguf.writing.vocabulary import Ends, vocabulary_keys

Shared = Callable[[str], Path]

FOLDERS = {
    "zen-pico": None,
    "stories260K": "data/models/stories260K",
    "babyllama": "data/models/babyllama-105",
    "qwen3": "data/tokenizers/qwen3",
}
VECTORS = "data/tokenizers/ggml/ggml-vocab-qwen2.gguf"


def _tokenizer(name: str, shared: Shared) -> Any:
    from transformers import AutoTokenizer

    folder = FOLDERS[name]
    return AutoTokenizer.from_pretrained(shared(folder) if folder else pico_folder())


def _texts(shared: Shared) -> list[str]:
    content = shared(f"{VECTORS}.inp").read_text(encoding="utf-8")
    return content.split("\n__ggml_vocab_test__\n")


def _written(tokenizer: Any, path: Path) -> Path:
    """Writes a tiny model with a vocabulary."""
    keys = vocabulary_keys(tokenizer, len(tokenizer), Ends((tokenizer.eos_token_id,), None))
    model = {
        key: value for key, value in settings("llama", LLAMA).items() if "tokenizer" not in key
    }
    shapes: Any = {"token_embd.weight": (len(tokenizer), 32)}
    tensors = llama_tensors(**shapes)
    return write_gguf(path, model | keys, tensors)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_a_thousand_random_texts_have_the_same_tokens(
    name: str, shared: Shared, tmp_path: Path
) -> None:
    tokenizer = _tokenizer(name, shared)
    llama = LlamaCpp(_written(tokenizer, tmp_path / "v.gguf"))
    compared = 0
    for text in random_texts(1000):
        ids = tokenizer(text)["input_ids"]
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
            continue  # a letter that llama.cpp cannot read without a token
        assert llama.ids(text) == ids, text
        compared += 1
    assert compared > (0 if name == "babyllama" else 900)


@pytest.mark.parametrize("name", ["zen-pico", "qwen3"])
def test_the_texts_of_llama_cpps_own_tests_have_the_same_tokens(
    name: str, shared: Shared, tmp_path: Path
) -> None:
    tokenizer = _tokenizer(name, shared)
    texts = _texts(shared)
    llama = LlamaCpp(_written(tokenizer, tmp_path / "v.gguf"))
    assert len(texts) == 47
    for text in texts:
        assert llama.ids(text) == tokenizer(text)["input_ids"], text


def test_qwens_tokens_are_those_that_llama_cpp_publishes(shared: Shared) -> None:
    tokenizer = _tokenizer("qwen3", shared)
    lines = shared(f"{VECTORS}.out").read_text(encoding="utf-8").split("\n")
    for text, line in zip(_texts(shared), lines, strict=True):
        assert tokenizer(text)["input_ids"] == [int(token) for token in line.split()]


def _pico() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(pico_folder())


def _changed(**parts: Any) -> Any:
    """Returns zen-pico's tokenizer with other parts."""
    from tokenizers import Tokenizer

    tokenizer = _pico()
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    model = parts.pop("model", {})
    content = content | parts | {"model": content["model"] | model}
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(content))
    return tokenizer


def test_an_unknown_way_to_split_text_is_refused() -> None:
    split = {
        "type": "Split",
        "pattern": {"Regex": "[a-z]+|[0-9]+"},
        "behavior": "Isolated",
        "invert": False,
    }
    last = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    tokenizer = _changed(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [split, last]},
        model={
            "vocab": dict(_pico().get_vocab()) | {"zz": 264},
            "merges": [["z", "z"]],
        },
    )
    with raises("models.tokenizer_not_for_gguf", "got another way"):
        vocabulary_keys(tokenizer, 265, Ends((258,), None))


def test_a_normalizer_that_llama_cpp_lacks_is_refused() -> None:
    tokenizer = _changed(normalizer={"type": "Lowercase"})
    with raises("models.tokenizer_not_for_gguf", "no normalizer but NFC, got Lowercase"):
        vocabulary_keys(tokenizer, 264, Ends((258,), None))


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_a_token_that_takes_blanks_is_refused(flag: str) -> None:
    added = json.loads(_pico().backend_tokenizer.to_str())["added_tokens"]
    added[3] = added[3] | {flag: True}
    with raises("models.tokenizer_not_for_gguf", f"got {flag}, which llama.cpp leaves out"):
        vocabulary_keys(_changed(added_tokens=added), 264, Ends((258,), None))


def test_three_ends_have_a_key_each_and_a_fourth_is_refused() -> None:
    keys = vocabulary_keys(_pico(), 264, Ends((258, 256, 257), "{{ x }}"))
    names = [f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom")]
    assert [keys[name] for name in names] == [258, 256, 257]
    assert keys["tokenizer.chat_template"] == "{{ x }}"
    with raises("models.tokenizer_not_for_gguf", "at most 3"):
        vocabulary_keys(_pico(), 264, Ends((258, 256, 257, 259), None))


def test_scores_are_the_order_of_merges(shared: Shared) -> None:
    keys = vocabulary_keys(_tokenizer("stories260K", shared), 512, Ends((2,), None))
    words, scores = keys["tokenizer.ggml.tokens"], np.array(keys["tokenizer.ggml.scores"])
    assert scores[words.index("▁t")] == 0
    assert scores[words.index("he")] == -1
    assert keys["tokenizer.ggml.add_space_prefix"] is True
