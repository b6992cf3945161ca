"""A GGUF file as llama.cpp computes it, with the tokenizer and the chat template in it."""

import tempfile
import warnings
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.data import EncodeOptions, Tokenizer, chat_stops
from zoo.gym.data.own_tokenizer import own_tokenizer
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.humanize import today
from zoo.models.folder import vocabulary_size
from zoo.models.gguf.parts import is_gguf, open_gguf
from zoo.models.gguf.text_files import write_text_files

if TYPE_CHECKING:
    from zoo.backends.answerer import Answerer
    from zoo.backends.llamacpp.batcher import LlamaBatcher


def is_gguf_file(path: Path) -> bool:
    """Returns whether a path is meant as a GGUF file: it ends in `.gguf` and is no folder."""
    return is_gguf(path) and not path.is_dir()


def is_for_llamacpp(base: Path, adapter: Path | None, delta: Path | None) -> bool:
    """Returns whether llama.cpp answers: the base is a GGUF file, and so is what is applied to it.

    Raises:
        InputError: only one of both is in GGUF.
    """
    tuned = adapter or delta
    if tuned is not None and is_gguf_file(tuned) != is_gguf_file(base):
        raise InputError(
            f"'{tuned}': expected a fine-tune in GGUF on a model in GGUF, or neither in GGUF, got "
            f"it on '{base}'",
            hint="to train and compare a GGUF model here: zoo-gym models import FILE.gguf",
            code="chat.not_in_gguf",
        )
    return is_gguf_file(base)


def check_gguf(file: Path) -> None:
    """Checks that a file could be loaded, without its weights.

    Raises:
        NotAvailableError: the extra `llamacpp` is not installed, or the file is missing.
        InputError: it cannot be read.
    """
    from zoo.backends.llamacpp.server import require_llamacpp

    require_llamacpp()
    open_gguf(file)


@contextmanager
def load_gguf(
    file: Path, adapters: Mapping[str, Path], *, rows: int, cache_bytes: int | None = None
) -> "Generator[tuple[LlamaBatcher, Path]]":
    """Yields a loaded file, and a folder with its tokenizer, for the duration of a `with` block.

    Args:
        file: the model.
        adapters: LoRA adapters in GGUF by name.
        rows: the most answers that are computed at once.
        cache_bytes: the most memory of keys and values.

    Raises:
        NotAvailableError: the extra `llamacpp` is not installed, or a file is missing.
        InputError: a file cannot be read or loaded, or the tokenizer is of an unknown kind.
    """
    from zoo.backends.llamacpp.batcher import LlamaBatcher
    from zoo.backends.llamacpp.server import require_llamacpp

    require_llamacpp()
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="zoo-gym-"))
        folder = Path(scratch) / file.stem
        folder.mkdir()
        source = open_gguf(file)
        write_text_files(source, folder)
        batcher = LlamaBatcher(source, adapters, rows=rows, cache_bytes=cache_bytes)
        stack.callback(batcher.close)
        yield batcher, folder


@contextmanager
def open_gguf_chat(
    file: Path, adapter: Path | None, template: str | None, *, rows: int
) -> "Generator[tuple[tuple[Answerer, Tokenizer, EncodeOptions], tuple[int, ...]]]":
    """Yields what answers with its tokenizer and options, and the tokens that end an answer.

    Args:
        file: the model.
        adapter: a LoRA adapter in GGUF.
        template: the chat template, in place of that in the file.
        rows: the most answers that are computed at once.

    Raises:
        GymError: see `load_gguf`.
    """
    from zoo.backends.llamacpp.answerer import LlamaAnswerer

    adapters = {} if adapter is None else {adapter.stem: adapter}
    with load_gguf(file, adapters, rows=rows) as (batcher, folder):
        own = own_tokenizer(folder, None, template)
        for note in own.notes:
            warnings.warn(note, GymWarning, stacklevel=6)
        options = EncodeOptions(
            cutoff_len=batcher.tokens,
            date=today(),
            vocabulary=vocabulary_size(folder),
        )
        answerer = LlamaAnswerer(batcher, next(iter(adapters), None))
        stops = chat_stops(folder, own.tokenizer, options)
        yield (answerer, own.tokenizer, options), stops
