"""Finds the tokens that end an answer in a chat."""

from pathlib import Path

from zoo.gym.data.records import Message
from zoo.gym.data.rendering.mask import learned_tokens, render_turns
from zoo.gym.data.rendering.template import ChatTemplate
from zoo.gym.data.rows import EncodeOptions, make_encoder
from zoo.gym.data.tokenizer import Tokenizer, stop_ids
from zoo.gym.errors import InputError

_PROBE = (Message("user", "a"), Message("assistant", "b"))


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


def end_markers(template: ChatTemplate) -> set[int]:
    """Returns the marker that ends a learned answer; empty if it does not end with one."""
    try:
        ids, learned = learned_tokens(template, render_turns(template, _PROBE, keep_thinking=False))
    except InputError:  # a template that refuses such a short chat; training reports it
        return set()
    last = max(index for index, is_learned in enumerate(learned) if is_learned)
    return {ids[last]} & template.markers
