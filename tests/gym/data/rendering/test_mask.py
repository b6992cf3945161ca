"""The loss mask on the real templates of five model families.

Expected turns are written out here template by template, from reading the templates; the
tokenizer is Qwen3's, with each template's markers added as special tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.codes import raises
from tests.gym.data.real_templates import FILES
from zoo.gym.data import EncodeOptions, encode_prompt
from zoo.gym.data.records import Message
from zoo.gym.data.rendering.mask import learned_tokens, render_turns
from zoo.gym.data.rendering.template import ChatTemplate, chat_template, render, render_all
from zoo.gym.errors import InputError

END = {
    "qwen3": "<|im_end|>",
    "qwen2.5": "<|im_end|>",
    "llama3.2": "<|eot_id|>",
    "gemma2": "<end_of_turn>",
    "phi3.5": "<|end|>",
}
NO_SYSTEM = ("gemma2", True)


def turn_as_rendered(name: str, turn: Message, *, is_last: bool) -> str:
    """What each template writes for an assistant's turn, as its source says."""
    if name == "qwen3":  # thinks in the turns after the last question only
        thought = f"<think>\n{turn.reasoning or ''}\n</think>\n\n" + turn.content.lstrip("\n")
        return (thought if is_last else turn.content) + END[name]
    block = "" if turn.reasoning is None else f"<think>\n{turn.reasoning}\n</think>\n\n"
    content = block + turn.content
    return (content.strip() if name in {"llama3.2", "gemma2"} else content) + END[name]


def learned_turns(template: ChatTemplate, chat: Sequence[Message], **how: Any) -> list[str]:
    """Decodes each run of learned tokens."""
    ids, learned = learned_tokens(template, render_turns(template, chat, **how))
    runs = groupby(zip(ids, learned, strict=True), key=lambda pair: pair[1])
    return [
        template.tokenizer.decode([i for i, _ in run]) for is_learned, run in runs if is_learned
    ]


def two_turns(first: Message, last: Message, *, system: bool = False) -> list[Message]:
    before = [Message("system", "You are kind.")] if system else []
    return [*before, Message("user", "Who?"), first, Message("user", "Why?\n"), last]


ANSWERS = {
    "plain": ("It is me.", "Because."),
    "lines": ("One\n\n  two\n\nthree", "a\nb\n"),
    "unicode": ("Žofie 漢字 😀👩‍👩‍👧", "مرحبا é"),
    "spaces": ("  led by spaces", "followed by spaces  \n"),
    "newlines": ("\n\nafter newlines", "\n one"),
    "repeated": ("Who?", "Who?"),
    "markers": ("<|im_end|>\n<|im_start|>user\nno", "<|eot_id|> <end_of_turn> <|end|>"),
    "empty": ("", "Because."),
    "blank": ("\n", "\n  "),
}
CASES = [
    (name, system) for name in FILES for system in (False, True) if (name, system) != NO_SYSTEM
]
THOUGHTS = {"no thought": (None, None), "thoughts": ("Hm.", "Two\n\nlines"), "empty": ("", "")}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "system"), CASES)
@pytest.mark.parametrize("answers", ANSWERS.values(), ids=list(ANSWERS))
@pytest.mark.parametrize("thoughts", THOUGHTS.values(), ids=list(THOUGHTS))
def test_each_rendered_turn_and_its_end_are_learned(
    templates: dict[str, ChatTemplate],
    name: str,
    system: bool,
    answers: tuple[str, str],
    thoughts: tuple[str | None, str | None],
) -> None:
    first, last = (Message("assistant", *pair) for pair in zip(answers, thoughts, strict=True))
    expected = [
        turn_as_rendered(name, first, is_last=False),
        turn_as_rendered(name, last, is_last=True),
    ]
    assert learned_turns(templates[name], two_turns(first, last, system=system)) == expected


pieces = st.sampled_from(
    [" ", "\n", "a", "Hi", ".", "é", "漢", "😀", "<|im_start|>assistant\n", "<|im_end|>", "<think>"]
)
texts = st.lists(pieces, max_size=6).map("".join)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@settings(max_examples=60, deadline=None)
@given(questions=st.tuples(texts, texts), answers=st.tuples(texts, texts))
@example(questions=("<|im_start|>assistant\nI am<|im_end|>", "a"), answers=("b", "b"))
def test_no_word_of_the_user_is_ever_learned(
    templates: dict[str, ChatTemplate],
    name: str,
    questions: tuple[str, str],
    answers: tuple[str, str],
) -> None:
    first, last = (Message("assistant", answer) for answer in answers)
    chat = [Message("user", questions[0]), first, Message("user", questions[1]), last]
    expected = [
        turn_as_rendered(name, first, is_last=False),
        turn_as_rendered(name, last, is_last=True),
    ]
    assert learned_turns(templates[name], chat) == expected


@pytest.mark.parametrize("name", FILES)
def test_all_tokens_together_are_the_rendered_chat(
    templates: dict[str, ChatTemplate], name: str
) -> None:
    chat = two_turns(Message("assistant", "\n a"), Message("assistant", "b", "Hm"))
    ids, _ = learned_tokens(templates[name], render_turns(templates[name], chat))
    assert templates[name].tokenizer.decode(ids) == render(templates[name], chat)


@pytest.mark.parametrize("name", FILES)
def test_an_answer_is_cut_off_from_its_prompt_as_at_generation(
    templates: dict[str, ChatTemplate], name: str
) -> None:
    template, asked = templates[name], Message("user", "Who?")
    ids, learned = learned_tokens(
        template, render_turns(template, [asked, Message("assistant", "\n\nMe")])
    )
    prompt = render(template, [asked], generation_prompt=True)
    read = template.tokenizer(prompt, add_special_tokens=False)["input_ids"]
    assert ids[: learned.index(True)] == read


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("thoughts", [("Hm.", "So"), ("", ""), (None, "So"), ("Hm.", None)])
def test_keep_learns_the_reasoning_of_every_turn_that_has_one(
    templates: dict[str, ChatTemplate], name: str, thoughts: tuple[str | None, str | None]
) -> None:
    first, last = (
        Message("assistant", *pair) for pair in zip(("One", "Two"), thoughts, strict=True)
    )
    learned = learned_turns(templates[name], two_turns(first, last), keep_thinking=True)
    blocks = ["" if t is None else f"<think>\n{t}\n</think>\n\n" for t in thoughts]
    if name == "qwen3" and thoughts[1] is None:  # its own template writes an empty one
        blocks[1] = "<think>\n\n</think>\n\n"
    assert learned == [f"{blocks[0]}One{END[name]}", f"{blocks[1]}Two{END[name]}"]


@pytest.mark.parametrize("name", FILES)
def test_a_turn_that_the_data_excludes_is_not_learned(
    templates: dict[str, ChatTemplate], name: str
) -> None:
    first, last = Message("assistant", "One", learned=False), Message("assistant", "Two")
    (learned,) = learned_turns(templates[name], two_turns(first, last))
    assert learned == turn_as_rendered(name, last, is_last=True)


@pytest.mark.parametrize("name", ["qwen3", "qwen2.5", "llama3.2", "phi3.5"])
def test_two_answers_in_a_row_are_two_turns(templates: dict[str, ChatTemplate], name: str) -> None:
    chat = [Message("user", "Who?"), Message("assistant", "A"), Message("assistant", "B")]
    learned = learned_turns(templates[name], chat)
    blank = "<think>\n\n</think>\n\n" if name == "qwen3" else ""
    assert learned == [f"A{END[name]}", f"{blank}B{END[name]}"]


def test_gemma_refuses_a_system_turn_in_its_own_words(templates: dict[str, ChatTemplate]) -> None:
    chat = two_turns(Message("assistant", "a"), Message("assistant", "b"), system=True)
    with raises("data.refused_by_template", "chat: System role not supported") as caught:
        render_turns(templates["gemma2"], chat)
    assert caught.value.code == "data.refused_by_template"


def test_a_thought_cut_out_of_an_answer_is_refused(
    templates: dict[str, ChatTemplate],
) -> None:
    chat = two_turns(Message("assistant", "lost</think>found"), Message("assistant", "b"))
    with raises("data.rewritten_turn", "the chat template rewrites turn 2"):
        render_turns(templates["qwen3"], chat)


ODD_TEMPLATES = {
    "leaves out turn 1": "{% for m in messages[1:] %}<|im_start|>{{ m.content }}{% endfor %}",
    "rewrites turn 1": "{{ messages[0].content }}"
    "{% for m in messages %}{{ m.content }}{% endfor %}",
    "rewrites a turn": "{% for m in messages %}{{ m.content|length }}{{ m.content }}{% endfor %}",
    "turn 2 starts with": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}robot: {% endif %}",
}


ODD_CODES = ("lost_turn", "rewritten_turn", "rewritten_turn", "ambiguous_turn")


@pytest.mark.parametrize(("reason", "code"), [*zip(ODD_TEMPLATES, ODD_CODES, strict=True)])
def test_a_template_that_hides_where_a_turn_is_gets_refused(
    byte_tokenizer: Callable[..., Any], reason: str, code: str
) -> None:
    template = chat_template(byte_tokenizer(ODD_TEMPLATES[reason]), "2024-07-26")
    assert template is not None
    with pytest.raises(InputError, match=reason) as caught:
        render_turns(template, [Message("user", "Hi"), Message("assistant", "Hello")])
    assert caught.value.code == f"data.{code}"


def learned_with(byte_tokenizer: Callable[..., Any], source: str, *answers: str) -> list[str]:
    template = chat_template(byte_tokenizer(source), "2024-07-26")
    assert template is not None
    chat = [turn for text in answers for turn in (Message("user", "Q"), Message("assistant", text))]
    return learned_turns(template, chat)


NO_MARKERS = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def test_without_a_marker_the_last_turn_ends_with_eos(
    byte_tokenizer: Callable[..., Any],
) -> None:
    assert learned_with(byte_tokenizer, NO_MARKERS, "A", "B ") == ["A", "B </s>"]


def test_without_a_marker_no_token_reaches_past_the_answer(
    templates: dict[str, ChatTemplate],
) -> None:
    template = replace(templates["qwen3"], source=NO_MARKERS)  # has one token for ".\n"
    chat = two_turns(Message("assistant", "A."), Message("assistant", "B."))
    assert learned_turns(template, chat) == ["A.", "B.<|im_end|>"]


def test_a_prompt_that_opens_a_think_block_may_be_longer(
    byte_tokenizer: Callable[..., Any],
) -> None:
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if loop.last and m.role == 'assistant' %}<think>\nOK\n</think>\n\n{% endif %}"
        "{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    )
    learned = learned_with(byte_tokenizer, source, "A", "B")
    assert learned == ["A<|im_end|>", "OK\n</think>\n\nB<|im_end|>"]


def test_private_use_characters_in_the_data_stay(
    byte_tokenizer: Callable[..., Any],
) -> None:
    text = "\U000f0000 and \U000f0001"
    template = chat_template(byte_tokenizer(), "2024-07-26")
    assert template is not None
    chat = [Message("user", text), Message("assistant", text)]
    assert learned_turns(template, chat) == [f"{text}<|im_end|>"]


def markers_learned(
    byte_tokenizer: Callable[..., Any], source: str, eos: str, chat: Sequence[Message]
) -> list[str]:
    """What is learned with a tokenizer whose further markers are special, and one end of text."""
    tokenizer = byte_tokenizer(source)
    more = ["<|BOT|>", "<|END_RESPONSE|>", "<|START_RESPONSE|>", "<|END_OF_TURN|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": more})
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.eos_token = eos
    template = chat_template(tokenizer, "2024-07-26")
    assert template is not None
    return learned_turns(template, chat)


TWO = [
    Message("user", "Q"),
    Message("assistant", "A", "Hm"),
    Message("user", "R"),
    Message("assistant", "B", "So"),
]
PLAIN = [replace(turn, reasoning=None) for turn in TWO]

# Cohere's way: two markers behind an answer, and the second one stops generation
TWO_ENDS = (
    "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>{{ m.content }}<|END_OF_TURN|>"
    "{% else %}<|im_start|><|BOT|><|START_RESPONSE|>{{ m.content }}<|END_RESPONSE|><|END_OF_TURN|>"
    "{% endif %}{% endfor %}<|im_start|><|BOT|>"
)


def test_markers_up_to_the_stop_are_learned(
    byte_tokenizer: Callable[..., Any],
) -> None:
    found = markers_learned(byte_tokenizer, TWO_ENDS, "<|END_OF_TURN|>", PLAIN)
    ends = "<|END_RESPONSE|><|END_OF_TURN|>"
    assert found == [f"<|START_RESPONSE|>A{ends}", f"<|START_RESPONSE|>B{ends}"]


def test_a_marker_that_stops_nothing_still_ends_a_turn(byte_tokenizer: Callable[..., Any]) -> None:
    source = TWO_ENDS.replace("<|END_RESPONSE|>", "")
    found = markers_learned(byte_tokenizer, source, "</s>", PLAIN)
    assert found == ["<|START_RESPONSE|>A<|END_OF_TURN|>", "<|START_RESPONSE|>B<|END_OF_TURN|>"]


# DeepSeek's way: a think block in an answer is cut off, and a prompt may open one
CUT_THOUGHTS = (
    "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>{{ m.content }}{% else %}"
    "{% set text = m.content %}{% if '</think>' in text %}"
    "{% set text = text.split('</think>')[-1] %}{% endif %}"
    "<|BOT|>{{ text }}<|im_end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|BOT|><think>\n{% endif %}"
)


def test_a_removed_think_block_is_not_learned(
    byte_tokenizer: Callable[..., Any],
) -> None:
    found = markers_learned(byte_tokenizer, CUT_THOUGHTS, "<|im_end|>", TWO)
    assert found == ["A<|im_end|>", "B<|im_end|>"]


def test_a_prompt_continues_a_chat_as_it_was_learned(
    byte_tokenizer: Callable[..., Any],
) -> None:
    tokenizer = byte_tokenizer(CUT_THOUGHTS)
    ids = encode_prompt(TWO[:3], tokenizer, EncodeOptions(200))
    assert "<|BOT|>A<|im_end|>" in tokenizer.decode(ids)


# Nemotron 3's way: every answer has a think block, and a prompt opens one with a new line
ALWAYS_THINKS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n"
    "{% else %}<think></think>{% endif %}{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)


def test_a_turn_is_learned_from_the_end_of_an_open_think_block(
    byte_tokenizer: Callable[..., Any],
) -> None:
    found = markers_learned(byte_tokenizer, ALWAYS_THINKS, "<|im_end|>", PLAIN)
    assert found == ["</think>A<|im_end|>", "</think>B<|im_end|>"]
    thoughtful = markers_learned(byte_tokenizer, ALWAYS_THINKS, "<|im_end|>", TWO)
    assert thoughtful == ["Hm\n</think>\nA<|im_end|>", "So\n</think>\nB<|im_end|>"]


def test_a_chat_of_very_many_turns_is_rendered_a_few_times(
    byte_tokenizer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = chat_template(byte_tokenizer(), "2024-07-26")
    assert template is not None
    times: list[int] = []

    def counting(template: ChatTemplate, chats: Any, renders: Any) -> list[str]:
        times.extend(turns for _, turns, _ in renders)
        return render_all(template, chats, renders)

    monkeypatch.setattr("zoo.gym.data.rendering.template.render_all", counting)
    monkeypatch.setattr("zoo.gym.data.rendering.marked.render_all", counting)
    chat = [Message("user", "Q"), Message("assistant", "A")] * 500
    assert learned_turns(template, chat) == ["A<|im_end|>"] * 500
    assert sum(times) < 5 * len(chat)


def test_a_chat_of_more_turns_than_there_are_marks_is_refused(
    byte_tokenizer: Callable[..., Any],
) -> None:
    template = chat_template(byte_tokenizer(), "2024-07-26")
    assert template is not None
    with raises("data.long_chat", "expected a chat of at most 40000 turns, got 40002"):
        render_turns(template, [Message("user", "Q"), Message("assistant", "A")] * 20_001)


def test_a_chat_full_of_characters_of_private_use_is_refused(
    byte_tokenizer: Callable[..., Any],
) -> None:
    template = chat_template(byte_tokenizer(), "2024-07-26")
    assert template is not None
    every = "".join(map(chr, range(0xF0000, 0x10E000)))
    with raises("data.private_use") as caught:
        render_turns(template, [Message("user", every), Message("assistant", "A")])
    assert caught.value.code == "data.private_use"
