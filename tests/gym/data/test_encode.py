"""Rows into examples."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.data import rows
from zoo.gym.data.encode import Encoded, encode_records
from zoo.gym.data.records import Message, Record
from zoo.gym.data.rendering.renderer import RenderLimitError
from zoo.gym.data.rows import EncodeOptions, encode_prompt
from zoo.gym.data.tokenizer import load_tokenizer
from zoo.gym.data.units import Example

Make = Callable[..., Any]
CHAT = (Message("user", "Hi"), Message("assistant", "Yo"))


def chat(answer: str = "Yo", question: str = "Hi") -> Record:
    return Record("f:1", "chat", (Message("user", question), Message("assistant", answer)))


def texts(*parts: str) -> list[Record]:
    return [Record(f"f:{line}", "text", text=part) for line, part in enumerate(parts, 1)]


def read(tokenizer: Any, example: Example) -> str:
    return str(tokenizer.decode(example.ids.tolist()))


def learned(tokenizer: Any, example: Example) -> str:
    return str(tokenizer.decode(example.ids[example.mask].tolist()))


def encoded(tokenizer: Any, *records: Record, cutoff_len: int = 200, **how: Any) -> Encoded:
    return encode_records(records, tokenizer, EncodeOptions(cutoff_len, **how))


def test_a_chat_learns_its_answer_and_its_end(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    (example,) = encoded(tokenizer, chat()).examples
    assert read(tokenizer, example) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"
    )
    assert learned(tokenizer, example) == "Yo<|im_end|>"


def test_ids_and_mask_have_the_types_of_a_batch(byte_tokenizer: Make) -> None:
    (example,) = encoded(byte_tokenizer(), chat()).examples
    assert (example.ids.dtype.name, example.mask.dtype.name) == ("int64", "bool")
    assert example.ids.shape == example.mask.shape


def test_with_a_template_prompt_and_completion_are_a_chat(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    row = Record("f:1", "completion", prompt="Hi", completion="Yo", joint="\n\n")
    (pair,), (turns,) = encoded(tokenizer, row).examples, encoded(tokenizer, chat()).examples
    assert pair.ids.tolist() == turns.ids.tolist()


@pytest.mark.parametrize("joint", ["", "\n\n"])
def test_without_a_template_completion_and_end_are_learned(
    byte_tokenizer: Make, joint: str
) -> None:
    tokenizer = byte_tokenizer(None)
    row = Record("f:1", "completion", (Message("user", "s"),), "2+2=", "4", joint=joint)
    (example,) = encoded(tokenizer, row).examples
    assert read(tokenizer, example) == f"<s>s\n\n2+2={joint}4</s>"
    assert learned(tokenizer, example) == "4</s>"


def test_a_first_token_is_never_learned(byte_tokenizer: Make) -> None:
    row = Record("f:1", "completion", prompt="", completion="ab")
    (example,) = encoded(byte_tokenizer(None, bos=False), row).examples
    assert example.mask.tolist() == [False, True, True]  # a, b, </s>


def test_chat_for_a_model_without_a_template_is_refused(byte_tokenizer: Make) -> None:
    with raises("data.no_chat_template") as caught:
        encoded(byte_tokenizer(None), *texts("a"), chat())
    assert "f:1: chat data, but the model tiny-bytes has no chat template" in str(caught.value)
    assert "write the rows as prompt and completion" in str(caught.value)


@pytest.mark.slow
@given(
    st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6),
    st.integers(2, 9),
    st.booleans(),
)
def test_windows_of_text_learn_every_token_but_the_first_once(
    byte_tokenizer: Make, parts: list[str], cutoff_len: int, bos: bool
) -> None:
    tokenizer = byte_tokenizer(None, bos=bos)
    stream = ("<s>" if bos else "") + "\n\n".join(parts)
    ids = tokenizer(stream, add_special_tokens=False)["input_ids"]
    if not tokenizer.decode(ids[1:]).strip():  # blanks alone are refused
        return
    examples = encoded(tokenizer, *texts(*parts), cutoff_len=cutoff_len).examples
    assert [token for e in examples for token in e.ids[e.mask].tolist()] == ids[1:]
    assert all(len(e.ids) <= cutoff_len and not e.mask[0] for e in examples)


def test_a_window_is_named_by_the_text_it_starts_in(byte_tokenizer: Make) -> None:
    # "<s>abc" | "c\n\nd" | "def": windows of four tokens that share one
    examples = encoded(byte_tokenizer(None), *texts("abc", "def"), cutoff_len=4).examples
    assert [example.source for example in examples] == ["f:1", "f:1", "f:2"]


def documents(*parts: str) -> list[Record]:
    return [replace(text, ends=True) for text in texts(*parts)]


def test_each_document_begins_anew_and_learns_to_end(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer(None)
    rows = [*documents("ab", "c"), *texts("d"), *documents("e")]
    (example,) = encoded(tokenizer, *rows, append_eos=True).examples
    assert read(tokenizer, example) == "<s>ab</s><s>c</s><s>d\n\ne</s>"
    assert learned(tokenizer, example) == "ab</s>c</s>d\n\ne</s>"


def test_a_file_whose_end_is_left_out_is_a_document_all_the_same(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer(None)
    rows = [Record("a:1", "text", text="a"), Record("b:1", "text", text="b", ends=True)]
    (example,) = encoded(tokenizer, *rows, append_eos=True).examples
    assert read(tokenizer, example) == "<s>a<s>b</s>"


def test_without_append_eos_documents_are_one(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer(None)
    (example,) = encoded(tokenizer, *documents("ab", "c")).examples
    assert read(tokenizer, example) == "<s>ab\n\nc"


@pytest.mark.slow
@given(
    st.lists(st.text("ab", min_size=2, max_size=12), min_size=1, max_size=6),
    st.integers(2, 9),
    st.booleans(),
)
def test_windows_of_documents_learn_each_token_and_end_once(
    byte_tokenizer: Make, parts: list[str], cutoff_len: int, bos: bool
) -> None:
    tokenizer = byte_tokenizer(None, bos=bos)
    rows = documents(*parts)
    examples = encoded(tokenizer, *rows, cutoff_len=cutoff_len, append_eos=True).examples
    wanted = "".join(f"{part}</s>" for part in parts)
    assert "".join(learned(tokenizer, each) for each in examples) == wanted[not bos :]


def test_a_window_of_documents_is_named_by_the_one_it_starts_in(byte_tokenizer: Make) -> None:
    # "<s>ab" | "b</s><s>c" | "cd</s>"
    rows = documents("ab", "cd")
    examples = encoded(byte_tokenizer(None), *rows, cutoff_len=4, append_eos=True).examples
    assert [example.source for example in examples] == ["f:1", "f:1", "f:2"]


def test_a_long_chat_keeps_its_start_and_is_counted(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    whole = encoded(tokenizer, chat("a" * 50)).examples[0]
    result = encoded(tokenizer, chat("a" * 50), cutoff_len=30)
    (cut,) = result.examples
    assert cut.ids.tolist() == whole.ids[:30].tolist()
    assert (cut.truncated, whole.truncated, result.truncated) == (True, False, 1)


def test_a_row_without_a_learned_token_is_dropped_and_counted(byte_tokenizer: Make) -> None:
    result = encoded(byte_tokenizer(), chat(question="q" * 99), chat(), cutoff_len=40)
    assert (len(result.examples), result.truncated, result.dropped_unlearned) == (1, 1, 1)


def test_a_data_set_without_any_learned_token_is_refused(byte_tokenizer: Make) -> None:
    with raises("data.nothing_to_learn") as caught:
        encoded(byte_tokenizer(), chat(), chat("Yes"), cutoff_len=4)
    assert "no row has a token to learn within cutoff_len 4" in caught.value.message
    longest = encoded(byte_tokenizer(), chat("Yes")).examples[0]
    assert caught.value.hint == (f"raise cutoff_len: the longest row has {len(longest.ids)} tokens")


PICKY = (
    "{% for m in messages %}{% if 'tabu' in m.content %}{{ raise_exception('never') }}{% endif %}"
    "<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def test_a_row_that_the_template_refuses_is_a_problem(byte_tokenizer: Make) -> None:
    result = encoded(byte_tokenizer(PICKY), chat(), chat("tabu"))
    assert len(result.examples) == 1
    assert [str(problem) for problem in result.problems] == [
        "f:1: the model's chat template refuses the chat: never (line 1 of the template)"
    ]


def test_a_data_set_that_the_template_refuses_whole_is_refused(byte_tokenizer: Make) -> None:
    reason = "f:1: the model's chat template refuses the chat: never"
    with raises("data.no_usable_row", reason) as caught:
        encoded(byte_tokenizer(PICKY), chat("tabu"))
    assert caught.value.code == "data.no_usable_row"


@pytest.mark.parametrize("cutoff_len", [1, 0, -5])
def test_a_length_that_can_hold_nothing_is_refused(byte_tokenizer: Make, cutoff_len: int) -> None:
    with raises("data.bad_cutoff"):
        encoded(byte_tokenizer(), chat(), cutoff_len=cutoff_len)


@pytest.mark.parametrize(
    ("think", "answer"),
    [
        ("template", "<think>\nHm\n</think>\n\nYo"),
        ("keep", "<think>\nHm\n</think>\n\nYo"),
        ("drop", "Yo"),
    ],
)
def test_think_says_what_becomes_of_reasoning(
    byte_tokenizer: Make, think: str, answer: str
) -> None:
    tokenizer = byte_tokenizer()
    row = Record("f:1", "chat", (Message("user", "Hi"), Message("assistant", "Yo", "Hm")))
    (example,) = encoded(tokenizer, row, think=think).examples
    assert learned(tokenizer, example) == f"{answer}<|im_end|>"


def test_the_prompt_of_a_chat_is_the_start_of_its_training_row(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    (example,) = encoded(tokenizer, chat()).examples
    prompt = encode_prompt([Message("user", "Hi")], tokenizer, EncodeOptions(200))
    assert prompt == example.ids.tolist()[: example.mask.tolist().index(True)]


def test_a_model_without_a_template_reads_a_prompt_as_it_is(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer(None)
    prompt = encode_prompt([Message("user", "Once")], tokenizer, EncodeOptions(200))
    assert tokenizer.decode(prompt) == "<s>Once"


def test_stories260k_refuses_chat_and_learns_completions(shared: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(shared("data/models/stories260K"))
    with raises("data.no_chat_template", "stories260K has no chat template"):
        encoded(tokenizer, chat())
    row = Record("f:1", "completion", prompt="Once upon", completion=" a time")
    (example,) = encoded(tokenizer, row).examples
    assert learned(tokenizer, example).strip() == "a time</s>"


@pytest.mark.parametrize("answer", ["", " \n", "<think>\n\n</think>\n\n"])
def test_wordless_answers_are_refused_only_together(byte_tokenizer: Make, answer: str) -> None:
    with raises("data.nothing_to_learn") as caught:
        encoded(byte_tokenizer(), chat(answer), chat(answer))
    assert caught.value.code == "data.nothing_to_learn"
    assert len(encoded(byte_tokenizer(), chat(answer), chat("Yo")).examples) == 2


def test_a_token_without_an_embedding_is_named_before_the_start(byte_tokenizer: Make) -> None:
    # 256 bytes, then <s> </s> <|im_start|> <|im_end|>: 260 tokens
    reason = r"token 259 \('<\|im_end\|>'\): expected one of the 259 tokens"
    with raises("data.no_usable_row", reason):
        encoded(byte_tokenizer(), chat(), vocabulary=259)
    assert encoded(byte_tokenizer(), chat(), vocabulary=260).examples
    with raises("data.no_embedding", "token 257"):
        encoded(byte_tokenizer(None), *texts("a</s>"), vocabulary=256, split_special_tokens=False)
    with raises("data.no_embedding", reason):
        encode_prompt([CHAT[0]], byte_tokenizer(), EncodeOptions(64, vocabulary=259))


def slow_pair(line: int) -> Record:
    return Record(f"f:{line}", "pair", sides=(chat("Yo", f"{line}"), chat("slow", f"{line}")))


def slow_prompt(line: int) -> Record:
    return Record(f"f:{line}", "prompt", prompt=f"slow {line}")


@pytest.mark.parametrize("slow", [slow_pair, slow_prompt])
def test_the_second_row_over_the_limits_of_rendering_is_the_last(
    byte_tokenizer: Make, monkeypatch: pytest.MonkeyPatch, slow: Callable[[int], Record]
) -> None:
    stopped: list[str] = []

    def limited(render: Callable[..., Any]) -> Callable[..., Any]:
        def limited_render(template: Any, turns: Any, *rest: Any, **options: Any) -> Any:
            texts = [turn.content for turn in turns]
            if any("slow" in text for text in texts):
                stopped.append(texts[0])
                raise RenderLimitError("too slow")
            return render(template, turns, *rest, **options)

        return limited_render

    for name in ("render_turns", "render_marked"):
        monkeypatch.setattr(rows, name, limited(getattr(rows, name)))
    data = encoded(byte_tokenizer(), slow(1), chat())
    assert (len(data.units), [str(problem) for problem in data.problems]) == (1, ["f:1: too slow"])
    stopped.clear()
    with pytest.raises(RenderLimitError):
        encoded(byte_tokenizer(), slow(1), chat(), slow(2), slow(3))
    assert len(stopped) == 2
