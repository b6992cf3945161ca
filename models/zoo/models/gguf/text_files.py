"""The folder of a GGUF file without its weights: what reads and writes its text.

A program that computes with the file itself, such as llama.cpp, needs no weights in a folder, but
prompts are encoded here: by the tokenizer, so that the text of a marker in a prompt stays text.
"""

import json
from pathlib import Path

from zoo.models.gguf.architecture import EMBEDDING
from zoo.models.gguf.convert import generation_settings, quiet_library
from zoo.models.gguf.parts import Source
from zoo.models.gguf.vocabulary import TOKENS, check_vocabulary, write_vocabulary


def context_length(source: Source) -> int | None:
    """Returns the longest input that a model was trained for, in tokens, if the file states it."""
    architecture = source.metadata.text("general.architecture")
    return source.metadata.integer(f"{architecture}.context_length")


def write_text_files(source: Source, folder: Path) -> None:
    """Writes the tokenizer, the chat template, and a config with the limits.

    Args:
        source: the open file.
        folder: an empty folder.

    Raises:
        InputError: the vocabulary or the chat template cannot be converted.
        OSError: the files cannot be written.
    """
    rows = source.tensors[EMBEDDING][1].shape[0] if EMBEDDING in source.tensors else 0
    check_vocabulary(source, rows)
    positions = context_length(source)
    with quiet_library():
        write_vocabulary(source, folder, positions)
    config = {"vocab_size": len(source.metadata.texts(TOKENS) or [])}
    if positions is not None:
        config["max_position_embeddings"] = positions
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    settings = json.dumps(generation_settings(source))
    (folder / "generation_config.json").write_text(settings, encoding="utf-8")
