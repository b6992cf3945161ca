"""Finds the tokens that end an answer in a chat."""

from pathlib import Path

from zoo.gym.data.rendering.mask import end_markers
from zoo.gym.data.rows import EncodeOptions, make_encoder
from zoo.gym.data.tokenizer import Tokenizer, stop_ids


def chat_stops(folder: Path, tokenizer: Tokenizer, options: EncodeOptions) -> tuple[int, ...]:
    """Returns the tokens that end an answer: those in its files, and the marker it learned.

    They differ if a chat template was added to a base model whose config still specifies the
    end-of-text token: an answer would continue past its end into further turns.

    Args:
        folder: the model.
        tokenizer: its tokenizer.
        options: how chats are encoded.
    """
    found = set(stop_ids(folder, tokenizer))
    template = make_encoder(tokenizer, options).template
    if template is not None:
        found |= end_markers(template)
    return tuple(sorted(found))
