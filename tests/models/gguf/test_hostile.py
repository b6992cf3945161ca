"""Damaged, foreign and hostile files: each ends in one sentence and leaves no file behind."""

import errno
import math
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests.core.hostile_gguf import GGUF, SOUND
from tests.models.gguf.files import LLAMA, TOKENS, llama_tensors, settings, vocabulary, write_gguf
from zoo.core import OpenFile
from zoo.core.errors import GymError
from zoo.models.gguf import import_gguf
from zoo.models.gguf.parts import Part, open_gguf

EPSILON = "llama.attention.layer_norm_rms_epsilon"
Make = Callable[[Path], Path]


def refuse(file: Path, home: Path, match: str) -> GymError:
    """Imports a file that must be refused in a sentence, and looks for what is left of it."""
    with pytest.raises(GymError, match=match) as caught:
        import_gguf(file)
    assert caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 1_000
    left = [path.name for path in home.rglob("*")] if home.exists() else []
    assert left in ([], [".lock"])
    return caught.value


@pytest.mark.parametrize("name", [*GGUF, *(f"sound: {name}" for name in SOUND)])
def test_no_malformed_header_becomes_a_model(tmp_path: Path, home: Path, name: str) -> None:
    file = tmp_path / "bad.gguf"
    kind = name.removeprefix("sound: ")
    file.write_bytes(SOUND[kind] if kind != name else GGUF[name].make())
    refuse(file, home, ".")


def llama(_keys: dict[str, Any] | None = None, /, **values: Any) -> Make:
    """Makes a tiny Llama with other settings; None leaves a key out."""

    def make(folder: Path) -> Path:
        keys = settings("llama", LLAMA | values) | (_keys or {})
        keys = {key: value for key, value in keys.items() if value is not None}
        return write_gguf(folder / "bad.gguf", keys, llama_tensors())

    return make


def tensors(**changed: "np.ndarray | None") -> Make:
    """Makes a tiny Llama with other tensors; None leaves one out."""

    def make(folder: Path) -> Path:
        kept = {
            name: values
            for name, values in (llama_tensors() | _dotted(changed)).items()
            if values is not None
        }
        return write_gguf(folder / "bad.gguf", settings("llama", LLAMA), kept)

    return make


def _dotted(changed: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("__", "."): values for name, values in changed.items()}


def of_architecture(name: str) -> Make:
    """Makes a file of another architecture."""

    def make(folder: Path) -> Path:
        return write_gguf(folder / "bad.gguf", settings(name, LLAMA), llama_tensors())

    return make


def nan_scales(folder: Path) -> Path:
    """Makes a file whose codes have scales that are no number."""
    file = write_gguf(folder / "bad.gguf", settings("llama", LLAMA), llama_tensors(), "Q4_0")
    tensor = open_gguf(file).tensors["blk.0.ffn_up.weight"][1]
    content = bytearray(file.read_bytes())
    content[tensor.start : tensor.start + 2] = struct.pack("<H", 0x7E00)
    file.write_bytes(content)
    return file


def integers(folder: Path) -> Path:
    """Makes a file with a matrix of whole numbers."""
    changed = llama_tensors() | {"blk.0.ffn_up.weight": np.zeros((64, 32), np.int32)}
    return write_gguf(folder / "bad.gguf", settings("llama", LLAMA), changed)


def cut(share: float) -> Make:
    """Makes a file of which only a part is left."""

    def make(folder: Path) -> Path:
        file = llama()(folder)
        os.truncate(file, int(share * file.stat().st_size))
        return file

    return make


def content(data: bytes) -> Make:
    """Makes a file of these bytes."""

    def make(folder: Path) -> Path:
        (folder / "bad.gguf").write_bytes(data)
        return folder / "bad.gguf"

    return make


def folder_of_that_name(folder: Path) -> Path:
    (folder / "bad.gguf").mkdir()
    return folder / "bad.gguf"


def loop_of_links(folder: Path) -> Path:
    (folder / "bad.gguf").symlink_to(folder / "other.gguf")
    (folder / "other.gguf").symlink_to(folder / "bad.gguf")
    return folder / "bad.gguf"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "bad.gguf")
    return folder / "bad.gguf"


def absent(folder: Path) -> Path:
    return folder / "bad.gguf"


def part_of_nothing(folder: Path) -> Path:
    return llama()(folder).rename(folder / "bad-00002-of-00001.gguf")


GGML = "tokenizer.ggml."
TEMPLATE = "tokenizer.chat_template"
VOCABULARY = vocabulary()[f"{GGML}tokens"]
SAFETENSORS = b"\x02\0\0\0\0\0\0\0{}"

HOSTILE: dict[str, tuple[Make, str]] = {
    "no bytes": (content(b""), "empty file"),
    "a safetensors file": (content(SAFETENSORS), "expected it to begin with GGUF"),
    "a pickle": (content(b"\x80\x04K\x01."), "expected it to begin with GGUF"),
    "cut in the header": (cut(0.05), "truncated|expected at least|too many"),
    "cut in the tensors": (cut(0.7), "bytes for tensor"),
    "a folder": (folder_of_that_name, "expected a (regular )?file|folder|directory"),
    "a loop of links": (loop_of_links, "cannot be read"),
    "a pipe": (pipe, "pipe|regular file"),
    "no file": (absent, "no such file"),
    "a part beyond the last": (part_of_nothing, "expected a part from 1 to 1"),
    "unknown architecture": (of_architecture("gguf-vlm"), "general.architecture: expected one of"),
    "architecture not taken": (of_architecture("bloom"), "architecture: expected .*, got 'bloom'"),
    "no layers": (llama(block_count=0), "block_count: expected a whole number from 1"),
    "layers without end": (llama(block_count=2**30), "block_count: expected 2, as many as"),
    "layers as text": (llama(block_count="2"), "block_count: expected a whole number"),
    "no number of layers": (llama(block_count=None), "block_count: expected 2, .* got none"),
    "width without end": (llama(embedding_length=2**30), "."),
    "width that heads do not divide": (llama(embedding_length=33), "."),
    "heads of no divisor": (llama(**{"attention.head_count_kv": 3}), "expected a divisor of 4"),
    "no heads": (
        llama(**{"attention.head_count": 0}),
        "head_count: expected a whole number from 1",
    ),
    "no number of heads": (
        llama(**{"attention.head_count": None}),
        "head_count: expected a whole number from 1, got none",
    ),
    "heads without end": (llama(**{"attention.head_count": 2**30}), "."),
    "a width of heads without end": (llama(**{"rope.dimension_count": 2**31}), "."),
    "epsilon as text": (
        llama(**{"attention.layer_norm_rms_epsilon": "tiny"}),
        "layer_norm_rms_epsilon: expected a number, got 'tiny'",
    ),
    "experts": (llama(expert_count=8), r"llama\.expert_count: expected 0, got 8"),
    "scaled positions": (
        llama(**{"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}),
        r"rope\.scaling\.type: expected 'none', got 'yarn'",
    ),
    "a setting that would be ignored": (
        llama(**{"attention.alibi": True}),
        r"llama\.attention\.alibi: this setting is not supported",
    ),
    "another number of tokens": (
        llama(vocab_size=TOKENS + 1),
        f"vocab_size: expected {TOKENS}, as many as rows of the embedding, got {TOKENS + 1}",
    ),
    "no tokens at all": (llama(vocab_size=0), f"vocab_size: expected {TOKENS}, .* got 0"),
    "missing tensor": (
        tensors(blk__1__ffn_up__weight=None),
        "expected a tensor 'blk.1.ffn_up.weight', got none",
    ),
    "missing layer": (
        tensors(**{name: None for name in llama_tensors() if name.startswith("blk.1.")}),
        "block_count: expected 1",
    ),
    "missing embedding": (
        tensors(token_embd__weight=None),
        "expected a matrix 'token_embd.weight'",
    ),
    "missing norm": (tensors(output_norm__weight=None), "tensor 'output_norm.weight', got none"),
    "extra tensor": (
        tensors(blk__0__extra=np.zeros((2, 2), np.float32)),
        "unexpected tensor 'blk.0.extra'",
    ),
    "tensor of another layer": (
        tensors(blk__7__ffn_up__weight=np.zeros((64, 32), np.float32)),
        "block_count: expected 3",
    ),
    "matrix of another shape": (
        tensors(blk__0__ffn_up__weight=np.zeros((32, 64), np.float32)),
        r"expected a shape for .* of \[64, 32\], got \[32, 64\]",
    ),
    "query of another shape": (
        tensors(blk__0__attn_q__weight=np.zeros((30, 32), np.float32)),
        "'blk.0.attn_q.weight': expected a shape",
    ),
    "vector as matrix": (
        tensors(output_norm__weight=np.ones((4, 8), np.float32)),
        "expected a shape",
    ),
    "too few factors of frequencies": (
        tensors(rope_freqs__weight=np.ones(3, np.float32)),
        r"'rope_freqs.weight': expected type F32 and shape \[4\], half the 8 .* got F32 and \[3\]",
    ),
    "no values": (tensors(blk__0__ffn_up__weight=np.zeros((0, 32), np.float32)), "."),
    "embedding of more tokens": (
        tensors(token_embd__weight=np.zeros((TOKENS + 5, 32), np.float32)),
        f"tokens: expected {TOKENS + 5}, a row of the embedding each, got {TOKENS}",
    ),
    "embedding as a vector": (
        tensors(token_embd__weight=np.zeros(32, np.float32)),
        "expected a matrix",
    ),
    "whole numbers": (integers, "values of type I32 cannot be read"),
    "scales that are no number": (nan_scales, "expected finite values, got infinity or NaN"),
    "infinite weight": (tensors(output_norm__weight=np.full(32, np.inf, np.float32)), "finite"),
    "no vocabulary": (llama({f"{GGML}model": None}), r"ggml\.model: expected one of gpt2, llama"),
    "unknown vocabulary": (llama({f"{GGML}model": "bert"}), "got 'bert'"),
    "no tokens": (llama({f"{GGML}tokens": None}), r"ggml\.tokens: expected a list of texts"),
    "numbers as tokens": (llama({f"{GGML}tokens": [1, 2, 3]}), "tokens: expected a list of texts"),
    "one token twice": (
        llama({f"{GGML}tokens": [*VOCABULARY[:-1], "</s>"]}),
        "tokens: expected each token once, got '</s>'",
    ),
    "fewer types than tokens": (llama({f"{GGML}token_type": [1, 2]}), "token_type: expected"),
    "no merges": (llama({f"{GGML}merges": None}), r"merges: expected a list of texts"),
    "a merge of nothing": (llama({f"{GGML}merges": ["a"]}), "merges: expected pairs of tokens"),
    "a merge of strangers": (llama({f"{GGML}merges": ["a zz"]}), "merges: expected pairs of"),
    "an unknown way to split": (llama({f"{GGML}pre": "mystery"}), "pre: expected one of .*"),
    "no way to split": (llama({f"{GGML}pre": None}), "pre: expected one of .*, got none"),
    "no scores": (llama({f"{GGML}model": "llama"}), "scores: expected a number for each token"),
    "end beyond the tokens": (
        llama({f"{GGML}eos_token_id": 9999}),
        "eos_token_id: expected a token",
    ),
    "a start without a token": (
        llama({f"{GGML}add_bos_token": True, f"{GGML}bos_token_id": None}),
        "bos_token_id: expected the token that each text gets, got none",
    ),
    "no epsilon": (llama({EPSILON: None}), "epsilon: expected a number, got none"),
    "an epsilon of NaN": (llama({EPSILON: math.nan}), "epsilon: expected a number from 0, got nan"),
    "an epsilon below 0": (llama({EPSILON: -1.0}), "epsilon: expected a number from 0, got -1"),
    "frequencies of 0": (
        llama({"llama.rope.freq_base": 0.0}),
        "freq_base: expected a number from 1, got 0",
    ),
    "frequencies below 1": (
        llama({"llama.rope.freq_base": 0.5}),
        "freq_base: expected a number from 1, got 0.5",
    ),
    "whole frequencies of 0": (
        llama({"llama.rope.freq_base": 0}),
        "freq_base: expected a number from 1, got 0",
    ),
    "an endless epsilon": (llama({EPSILON: math.inf}), "epsilon: expected a finite number"),
    "no context": (llama({"llama.context_length": None}), "context_length: expected a whole"),
    "an adapter": (llama({"general.type": "adapter"}), "expected 'model', got 'adapter'"),
    "types of no number": (
        llama({f"{GGML}token_type": [math.nan] * TOKENS}),
        "token_type: expected a list of whole numbers, got .nan",
    ),
    "scores of NaN": (
        llama({f"{GGML}model": "llama", f"{GGML}scores": [0.0] * (TOKENS - 1) + [math.nan]}),
        "scores: expected a list of finite numbers, got nan",
    ),
    "experts in a model without": (llama(expert_used_count=True), "count: expected 0, got True"),
    "a number for true": (llama(tensor_data_layout=1), "expected '' or 'Meta AI original pth'"),
    "a part that is none": (
        llama({"split.count": -1}),
        "split.count: expected a whole number from 0",
    ),
    "end as text": (llama({f"{GGML}eos_token_id": "2"}), "eos_token_id: expected a whole number"),
    "a template that is no template": (llama({TEMPLATE: "{% if %}"}), "expected a Jinja template"),
    "a template that never ends": (
        llama({TEMPLATE: "{% for m in x %}"}),
        "expected a Jinja template",
    ),
    "a template of classes": (
        llama({TEMPLATE: "{{ ''.__class__.__mro__ }}"}),
        "expected a template for chats alone, got one that uses",
    ),
    "a template of classes by name": (llama({TEMPLATE: "{{ ''['__class__'] }}"}), "'__class__'"),
    "a template of files": (llama({TEMPLATE: "{% include '/etc/passwd' %}"}), "another template"),
    "a template nested deep": (llama({TEMPLATE: "{{" + "(" * 5_000 + "}}"}), "Jinja template|deep"),
    "a template without end": (llama({TEMPLATE: "x" * (1 << 19)}), "at most 262,144 characters"),
    "a template of numbers": (llama({TEMPLATE: [1, 2]}), r"expected a text, got \[1, 2\]"),
}


TYPED: dict[str, tuple[object, str]] = {
    "split.count": (0, "a whole number"),
    "split.no": (0, "a whole number"),
    "general.type": ("", "a text"),
    "general.name": ("", "a text"),
    "llama.block_count": (0, "a whole number from 1"),
    "llama.attention.head_count_kv": (0, "a whole number from 1"),
    "llama.rope.dimension_count": (0.0, "a number"),
    "llama.rope.freq_base": (0.0, "a number"),
    EPSILON: (0.0, "a number"),
    "llama.vocab_size": (0, "a whole number"),
    "llama.rope.scaling.type": ("", "'none'"),
    "llama.rope.scaling.factor": (0.0, "0 or 1"),
    "llama.expert_used_count": (0.0, "0"),
    f"{GGML}model": ("", "a text"),
    f"{GGML}pre": ("", "a text"),
    f"{GGML}tokens": ([""], "a list of texts"),
    f"{GGML}merges": ([""], "a list of texts"),
    f"{GGML}token_type": ([0], "a list of whole numbers"),
    f"{GGML}scores": ([0.0], "a list of numbers"),
    f"{GGML}bos_token_id": (0, "a whole number"),
    f"{GGML}eot_token_id": (0, "a whole number"),
    f"{GGML}add_bos_token": (True, "true or false"),
    f"{GGML}add_eos_token": (True, "true or false"),
    f"{GGML}add_space_prefix": (True, "true or false"),
    TEMPLATE: ("", "a text"),
}
"""A value of each key's type, and what a message says that was expected."""

VALUES: dict[str, Any] = {
    "a text": "x",
    "true": True,
    "a whole number": 1,
    "a number": 1.5,
    "a list of texts": ["x"],
    "a list of whole numbers": [1, 2],
    "a list of numbers": [1.5, 2.5],
}


def _is_of_type(value: Any, like: Any) -> bool:
    if isinstance(value, list) and isinstance(like, list):
        return _is_of_type(value[0], like[0])
    return type(value) is type(like) or (type(value) is int and type(like) is float)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (key, kind)
        for key, (like, _) in TYPED.items()
        for kind, value in VALUES.items()
        if not _is_of_type(value, like)
    ],
)
def test_a_value_of_another_type_is_refused_by_its_key(
    tmp_path: Path, home: Path, key: str, kind: str
) -> None:
    match = f"{re.escape(key)}: expected {TYPED[key][1]}, got "
    refuse(llama({key: VALUES[kind]})(tmp_path), home, match)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_model_is_refused(tmp_path: Path, home: Path, name: str) -> None:
    make, match = HOSTILE[name]
    refuse(make(tmp_path), home, match)


def test_a_title_that_is_a_path_stays_in_the_folder(tmp_path: Path, home: Path) -> None:
    file = llama({"general.name": "../../x"})(tmp_path)
    assert import_gguf(file).folder == home / "x"
    assert sorted(path.name for path in home.iterdir()) == [".lock", "x"]


def test_a_file_that_shrinks_is_refused(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = llama()(tmp_path)
    read = OpenFile.read

    def shrink(self: OpenFile, start: int, stop: int) -> Any:
        values = read(self, start, stop)
        os.truncate(file, 2_000)
        return values

    monkeypatch.setattr(OpenFile, "read", shrink)
    refuse(file, home, "shorter|changed|truncated|expected")


def test_a_file_that_is_written_meanwhile_is_refused(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = llama()(tmp_path)
    read = Part.__init__

    def touch(self: Part, *values: Any) -> None:
        read(self, *values)
        os.utime(file, ns=(1, 1))

    monkeypatch.setattr(Part, "__init__", touch)
    refuse(file, home, "was changed while it was read")


def test_ctrl_c_leaves_nothing(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo.models.gguf.convert.write_weights", stop)
    with pytest.raises(KeyboardInterrupt):
        import_gguf(llama()(tmp_path))
    assert [path.name for path in home.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.ENOSPC, "free some space, or set ZOO_GYM_HOME to a larger disk"),
        (errno.EDQUOT, "free some space, or set ZOO_GYM_HOME to a larger disk"),
        (errno.EFBIG, "raise the limit on the size of a file (ulimit -f), or "),
        (errno.EACCES, "choose a folder that you may write"),
    ],
)
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, code: int, hint: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("zoo.models.gguf.convert.write_weights", full)
    match = f"cannot write a model to .*: {os.strerror(code).lower()}"
    assert str(refuse(llama()(tmp_path), home, match).hint).startswith(hint)


def test_a_tokenizer_that_cannot_be_written_is_no_crash(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = Exception(f"File too large (os error {errno.EFBIG})")  # as of the library's Rust
    name = "transformers.PreTrainedTokenizerFast.save_pretrained"
    monkeypatch.setattr(name, Mock(side_effect=error))
    refuse(llama()(tmp_path), home, "cannot write a model to .*: file too large")
    monkeypatch.setattr(name, Mock(side_effect=Exception("another")))
    with pytest.raises(Exception, match="another"):
        import_gguf(tmp_path / "bad.gguf")
