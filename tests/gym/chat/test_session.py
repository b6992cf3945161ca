"""A conversation over a stand-in model of characters: what it is asked, and what is kept."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from tests.codes import raises
from zoo.backends.base import Policy, Prefix, Sampling, TokenEvent
from zoo.gym.chat import ChatSession, open_chat
from zoo.gym.chat.greedy import warn_of_settings
from zoo.gym.chat.session import TOGETHER
from zoo.gym.cli.chat import UntunedModel
from zoo.gym.data import EncodeOptions, Message
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.tuned.source import Source
from zoo.models import pico_folder

END = 3


class Characters:
    """A tokenizer whose ids are code points; it has no chat template."""

    name_or_path = "characters"
    bos_token_id = None
    eos_token_id = END
    unk_token_id = None
    chat_template = None
    added_tokens_decoder: ClassVar[dict[int, Any]] = {}

    def __call__(self, text: str, **_: Any) -> Any:
        spans = [(place, place + 1) for place in range(len(text))]
        return {"input_ids": [ord(letter) for letter in text], "offset_mapping": spans}

    def decode(self, token_ids: list[int], **_: Any) -> str:
        return "".join(chr(token) for token in token_ids)


class Parrot:
    """Answers `!` and as many letters as it may, and remembers what it was asked and has read."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, list[int]]] = []
        self.read: list[str] = []
        self.says = "!"

    def read_prefix(self, ids: Sequence[int]) -> Prefix:
        self.read.append("".join(map(chr, ids)))
        return Prefix(tuple(ids), 0)

    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        *,
        keys: Sequence[int],
        prefix: Prefix | None = None,
    ) -> Iterator[TokenEvent]:
        assert prefix is None or all(tuple(one[: len(prefix.ids)]) == prefix.ids for one in prompts)
        for prompt in prompts:
            text = "".join(chr(token) for token in prompt)
            self.asked.append((text, sampling.max_new_tokens, list(keys)))
        ids = [*map(ord, self.says), END][: sampling.max_new_tokens]
        for row in range(len(prompts)):
            for place, token in enumerate(ids):
                yield TokenEvent(row, token, 0.0, "stop" if place == len(ids) - 1 else None)

    generate = Policy.generate


def session(positions: int | None = None) -> tuple[ChatSession, Parrot]:
    parrot = Parrot()
    sampling = Sampling(max_new_tokens=8, stop_ids=(END,))
    options = EncodeOptions(cutoff_len=99)
    tokenizer = cast("Any", Characters())
    return ChatSession(cast("Any", parrot), tokenizer, options, sampling, positions, 40), parrot


def test_prompts_from_a_pipe_know_nothing_of_each_other() -> None:
    chat, parrot = session()
    assert [chat.answer("a"), chat.answer("b")] == ["!", "!"]
    assert [text for text, _, _ in parrot.asked] == ["a", "b"]


def test_a_conversation_remembers_both_sides() -> None:
    chat, parrot = session()
    chat.talk("a")
    chat.talk("b")
    chat.talk("c")
    assert parrot.asked[2][0] == "a\n\n!\n\nb\n\n!\n\nc"


def test_an_answer_comes_in_parts_and_then_joins_the_conversation() -> None:
    chat, parrot = session()
    parrot.says = "\na\n\nb\n"
    parts = chat.stream("q")
    assert next(parts) == "a"
    assert chat.messages == []
    assert list(parts) == ["\n\nb"]  # neither begins nor ends with a line end
    assert [turn.content for turn in chat.messages] == ["q", "a\n\nb"]
    assert chat.talk("q") == "a\n\nb"


def test_an_answer_that_is_closed_is_not_remembered_and_its_stream_is_drawn_again() -> None:
    chat, parrot = session()
    parrot.says = "ab"
    parts = chat.stream("q")
    next(parts)
    parts.close()
    assert chat.messages == []
    chat.talk("r")
    assert [(text, keys) for text, _, keys in parrot.asked] == [("q", [40]), ("r", [40])]


def test_the_beginning_of_a_stop_string_is_not_shown() -> None:
    chat, parrot = session()
    chat.sampling = replace(chat.sampling, stop_strings=("\nQ:", "Q!"))
    parrot.says = "a\nQbQ!"
    assert list(chat.stream("q")) == ["a", "\nQb"]
    assert chat.answer("q") == chat.messages[-1].content == "a\nQb"
    parrot.says = "\nQ:"
    assert list(chat.stream("q")) == []
    assert chat.messages[-1].content == ""


def test_the_system_prompt_comes_before_every_conversation() -> None:
    chat, parrot = session()
    chat.system = "s"
    chat.talk("a")
    chat.talk("b")
    chat.messages = []
    chat.answer("c")
    assert [text for text, _, _ in parrot.asked] == ["s\n\na", "s\n\na\n\n!\n\nb", "s\n\nc"]


def test_lessons_are_read_once_and_swapped_in_mid_talk() -> None:
    chat, parrot = session()
    first, second = "Count twice before you answer. ok?", "Be as quick as you can, and be brief."
    for lessons in (first, first, second, first, "short"):
        chat.lessons = lessons
        chat.talk("a")
    assert parrot.read == [f"{first}\n\n", f"{second}\n\n"]
    assert [text.partition("\n\n")[0] for text, _, _ in parrot.asked] == [
        first,
        first,
        second,
        first,
        "short",
    ]


def test_lessons_may_depend_on_what_the_user_said_so_far() -> None:
    chat, parrot = session()
    chat.lessons = lambda words: f"about {words!r}"
    chat.talk("a")
    chat.talk("b")
    firsts = [text.partition("\n\n")[0] for text, _, _ in parrot.asked]
    assert firsts == ["about 'a'", "about 'a\\nb'"]


def test_chats_that_are_answered_together_share_their_lessons() -> None:
    chat, parrot = session()
    lessons = Message("system", "Count twice before you answer. ok?")
    asked = [[lessons, Message("user", text)] for text in ("a", "b", "ab")]
    for _ in range(2):
        found = chat.replies(asked, Sampling(8), [1, 2, 3])
        assert [one.text for one in found] == ["!"] * 3
    assert parrot.read == [f"{lessons.content}\n\n"]


def test_every_answer_draws_from_a_stream_of_its_own() -> None:
    chat, parrot = session()
    chat.answer("a")
    chat.answer("a")
    assert [keys for _, _, keys in parrot.asked] == [[40], [41]]


def test_many_prompts_are_answered_a_few_at_once_each_from_its_own_stream() -> None:
    chat, parrot = session()
    assert chat.answers(["a"] * (TOGETHER + 1)) == ["!"] * (TOGETHER + 1)
    together = list(range(40, 40 + TOGETHER))
    assert [keys for _, _, keys in parrot.asked] == [together] * TOGETHER + [[40 + TOGETHER]]


def test_an_answer_fits_into_the_model() -> None:
    chat, parrot = session(positions=10)
    chat.answer("1234567")
    assert parrot.asked[0][1] == 3  # 10 positions - 7 letters


def test_a_prompt_that_leaves_no_room_is_refused() -> None:
    chat, _ = session(positions=3)
    with raises("chat.prompt_too_long", "expected fewer than 3 tokens, got 3"):
        chat.answer("abc")


def test_a_refused_turn_is_not_remembered() -> None:
    chat, _ = session(positions=3)
    with raises("chat.prompt_too_long"):
        chat.talk("abc")
    assert chat.messages == []


def test_an_empty_prompt_is_refused() -> None:
    chat, parrot = session()
    with raises("chat.empty_prompt"):
        chat.answer(" ")
    assert parrot.asked == []


def test_a_turn_without_a_prompt_is_refused_and_does_not_answer_the_last_one() -> None:
    chat, parrot = session()
    chat.talk("a")
    nothing: Any = None
    with raises("arguments.wrong_type", "prompt: expected text, got nothing"):
        chat.talk(nothing)
    assert (len(parrot.asked), len(chat.messages)) == (1, 2)


@pytest.mark.parametrize("text", ["caf\udce9", "\ud83d"])
def test_text_that_is_not_utf_8_is_refused(text: str) -> None:
    chat, parrot = session()
    for ask in (chat.answer, chat.talk):
        with raises("data.bad_encoding", r"^prompt: not UTF-8 text: got (the byte 0xe9|an u)"):
            ask(text)
    chat.system = text
    with raises("data.bad_encoding", "system prompt: not UTF-8 text"):
        chat.talk("a")
    assert (parrot.asked, chat.messages) == ([], [])


def test_a_session_is_refused_before_its_model_is_loaded(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="system prompt: not"),
        open_chat(tmp_path, system="\udcff"),
    ):
        pass
    odd: list[tuple[str, float]] = [("seed", 2**63), ("temperature", -1.0), ("max_new_tokens", 0)]
    for name, value in odd:
        options: Any = {name: value}
        with raises("chat.sampling", f"{name}: expected"), open_chat(tmp_path, **options):
            pass


def test_settings_that_a_chat_does_not_apply_are_named(tmp_path: Path) -> None:
    settings = {"no_repeat_ngram_size": 3, "num_beams": 4, "forced_eos_token_id": 0}
    idle = {"repetition_penalty": 1.0, "temperature": 0.6, "suppress_tokens": [], "min_length": 0}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    named = "config.json: not applied: forced_eos_token_id, no_repeat_ngram_size, num_beams;"
    with pytest.warns(GymWarning, match=named):
        warn_of_settings(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps(idle))
    warn_of_settings(tmp_path)  # config.json counts no more, as in transformers


def test_a_chat_warns_of_settings_that_it_does_not_apply(tmp_path: Path) -> None:
    folder = shutil.copytree(pico_folder(), tmp_path / "pico")
    (folder / "generation_config.json").write_text('{"repetition_penalty": 1.05}')
    with pytest.warns(GymWarning, match="not applied: repetition_penalty"), open_chat(folder):
        pass


@pytest.mark.parametrize(
    ("stated", "drawn"),
    [
        ({}, (0.0, 1.0, 0)),
        ({"temperature": 0.6, "top_p": 0.9}, (0.0, 1.0, 0)),
        ({"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20}, (0.6, 0.9, 20)),
        ({"do_sample": True}, (1.0, 1.0, 50)),
    ],
    ids=["nothing", "greedy", "sampled", "sampled by default"],
)
def test_none_samples_as_the_models_files_say(
    tmp_path: Path, stated: dict[str, Any], drawn: tuple[float, float, int]
) -> None:
    folder = tmp_path / "base"
    shutil.copytree(pico_folder(), folder)
    (folder / "generation_config.json").write_text(json.dumps(stated))
    with open_chat(folder, temperature=None) as session:
        sampling = session.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == drawn
    with open_chat(folder) as session:
        assert session.sampling.temperature == 0


def test_the_parts_of_a_models_answer_are_the_answer() -> None:
    with open_chat("zen-pico", temperature=2.0, max_new_tokens=24, seed=3) as session:
        parts = list(session.stream("Spell abc."))
        assert len(parts) > 1
        [alone] = session.replies(
            [[Message("user", "Spell abc.")]], replace(session.sampling, max_new_tokens=24), [3]
        )
    assert "".join(parts) == alone.text == session.messages[-1].content


def test_retry_answers_the_last_turn_with_other_draws() -> None:
    with open_chat("zen-pico", temperature=2.0, max_new_tokens=8) as session:
        session.talk("What is 1+1?")
        first = session.talk("Spell abc.")
        again = [session.retry() for _ in range(4)]
        assert {first, *again} != {first}
        assert [turn.content for turn in session.messages if turn.role == "user"] == [
            "What is 1+1?",
            "Spell abc.",
        ]


@pytest.mark.parametrize("value", [{"top_k": 20.5}, {"temperature": 10**400}, {"top_p": 0}])
def test_a_sampling_setting_out_of_range_names_its_file(
    tmp_path: Path, value: dict[str, Any]
) -> None:
    folder = tmp_path / "base"
    shutil.copytree(pico_folder(), folder)
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": True, **value}))
    with raises("chat.sampling", "generation_config"), open_chat(folder, temperature=None):
        pass


def test_settings_of_sampling_that_are_not_applied_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "base"
    shutil.copytree(pico_folder(), folder)
    (folder / "generation_config.json").write_text('{"do_sample": true, "min_p": 0.3}')
    with pytest.warns(GymWarning, match="min_p"), open_chat(folder, temperature=None):
        pass


def test_the_untuned_model_is_asked_as_the_fine_tune_was() -> None:
    with open_chat("zen-pico", temperature=2.0, max_new_tokens=8, seed=5) as session:
        first = session.talk("Spell abc.")
        with UntunedModel(pico_folder(), Source("adapter", Path("mine"))) as untuned:
            assert untuned.answer(session) == first
            session.talk("And def?")
            assert untuned.answer(session) != first
        assert [turn.content for turn in session.messages if turn.role == "user"] == [
            "Spell abc.",
            "And def?",
        ]
