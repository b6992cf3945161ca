"""zen-pico's tokenizer: one token per byte, and eight more for the structure of a chat.

Token i below 256 is the byte i. Roles are single tokens, so that the words "user" or "system" in a
text stay plain bytes. Nothing is normalised: every UTF-8 string round-trips unchanged.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pico.tasks import Problem

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer

PAD, IM_START, IM_END, SYSTEM, USER, ASSISTANT, THINK, THINK_END = range(256, 264)
SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
)
THINK_TAGS = ("<think>", "</think>")
VOCAB_SIZE = 264

CHAT_TEMPLATE = """\
{%- for message in messages %}
{%- if message.role not in ['system', 'user', 'assistant'] %}
{{- raise_exception('zen-pico knows the roles system, user and assistant') }}
{%- endif %}
{{- '<|im_start|><|' + message.role + '|>' }}
{%- if message.role == 'assistant' and message.reasoning_content %}
{{- '<think>' + message.reasoning_content + '</think>' }}
{%- endif %}
{{- message.content + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|><|assistant|>' }}
{%- endif %}
"""


def encode_prompt(problem: Problem) -> list[int]:
    """Returns the ids of a question up to the start of the answer, as in the template."""
    return [IM_START, USER, *problem.prompt.encode(), IM_END, IM_START, ASSISTANT]


def encode_answer(problem: Problem) -> list[int]:
    """Returns the ids of an answer and its end token."""
    return [*problem.answer.encode(), IM_END]


def save_tokenizer(folder: Path) -> None:
    """Writes `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja` into `folder`."""
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=build_tokenizer(),
        pad_token=SPECIALS[0],
        eos_token=SPECIALS[2],
        additional_special_tokens=[SPECIALS[1], *SPECIALS[3:]],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    ).save_pretrained(folder)


def build_tokenizer() -> "Tokenizer":
    """Returns the byte tokenizer: a BPE of 256 single bytes without merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab=_byte_vocabulary(), merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([_exact(text, special=True) for text in SPECIALS])
    tokenizer.add_tokens([_exact(text, special=False) for text in THINK_TAGS])
    return tokenizer


def _exact(text: str, *, special: bool) -> "AddedToken":
    from tokenizers import AddedToken

    return AddedToken(text, normalized=False, special=special)


def _byte_vocabulary() -> dict[str, int]:
    """Returns the printable character of each byte in the ByteLevel encoding.

    Bytes that are visible in Latin-1 map to themselves; the others map to the code points from 256
    on, in order.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    points = {byte: byte for byte in visible} | {byte: 256 + i for i, byte in enumerate(hidden)}
    return {chr(points[byte]): byte for byte in range(256)}
