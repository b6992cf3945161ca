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
    """Returns what ends an answer: the tokens that its files name, and the marker it learned.

    The two differ where a chat template was put on a base model whose config still names the
    end-of-text token: an answer would go on past its end, into turns of the model's own.

    Args:
        folder: the model.
        tokenizer: its tokenizer.
        options: what chats are encoded with.
    """
    found = set(stop_ids(folder, tokenizer))
    template = make_encoder(tokenizer, options).template
    if template is not None:
        found |= end_markers(template)
    return tuple(sorted(found))


def end_markers(template: ChatTemplate) -> set[int]:
    """Returns the marker that a learned answer ends with; none where it ends otherwise."""
    try:
        ids, learned = learned_tokens(template, render_turns(template, _PROBE, keep_thinking=False))
    except InputError:  # a template that refuses so short a chat, of which training says more
        return set()
    last = max(index for index, is_learned in enumerate(learned) if is_learned)
    return {ids[last]} & template.markers
