"""The setting `template`: the published formats, and how turns end on a base that lacks them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.codes import raises
from tests.conftest import CHATML
from zoo.gym.config import load_config
from zoo.gym.data import EncodeOptions, chat_stops, load_tokenizer
from zoo.gym.data.own_tokenizer import own_parts, own_tokenizer
from zoo.gym.data.records import Message, Record
from zoo.gym.data.rendering.template import chat_template, render
from zoo.gym.data.rows import encode_row, make_encoder
from zoo.gym.data.templates import TEMPLATES
from zoo.models import pico_folder

S, U, A = (Message(role, role[0].upper()) for role in ("system", "user", "assistant"))
CHAT = (S, U, A, U, A)

HEADERS = "<|start_header_id|>{}<|end_header_id|>\n\n{}<|eot_id|>"
GOLDEN = {
    "chatml": (
        "<|im_start|>system\nS<|im_end|>\n"
        + 2 * "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n",
        "<|im_start|>assistant\n",
    ),
    "gemma": (
        "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"
        "<start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n",
        "<start_of_turn>model\n",
    ),
    "llama3": (
        "<s>"
        + HEADERS.format("system", "S")
        + 2 * (HEADERS.format("user", "U") + HEADERS.format("assistant", "A")),
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "mistral": ("<s>[INST] S\n\nU[/INST] A</s>[INST] U[/INST] A</s>", ""),
    "phi": (
        "<|system|>\nS<|end|>\n" + 2 * "<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n",
        "<|assistant|>\n",
    ),
}
GOLDEN["qwen"] = GOLDEN["chatml"]
"""A chat in the format that each family publishes, and what opens an answer."""

REAL = {"gemma": "gemma2", "llama3": "llama3.2", "phi": "phi3.5", "qwen": "qwen2.5"}


@pytest.fixture
def bare(tmp_path: Path, byte_tokenizer: Callable[..., Any]) -> Path:
    """The tokenizer of a base without a chat template; it has ChatML's markers and `</s>`."""
    byte_tokenizer(None).save_pretrained(tmp_path / "bare")
    return tmp_path / "bare"


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_is_written_as_the_family_publishes_it(
    name: str, byte_tokenizer: Callable[..., Any]
) -> None:
    template = chat_template(byte_tokenizer(TEMPLATES[name]), "2024-07-26")
    assert template is not None
    whole, opening = GOLDEN[name]
    assert render(template, CHAT) == whole
    asked = render(template, CHAT[:4], generation_prompt=True)
    assert whole.startswith(asked)
    assert asked.endswith(opening)


@pytest.mark.parametrize(("name", "family"), REAL.items())
def test_a_chat_is_written_as_by_the_familys_own_template(
    name: str, family: str, templates: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = templates[family]
    tokenizer = real.tokenizer
    monkeypatch.setattr(tokenizer, "chat_template", TEMPLATES[name])
    ours = chat_template(tokenizer, "2024-07-26")
    assert ours is not None
    turns = CHAT[1:] if name == "gemma" else CHAT  # Gemma 2's refuses a system prompt
    theirs = render(real, turns)
    if name == "llama3":  # its own writes dates into the system prompt
        today = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
        theirs = theirs.replace(today, "")
    bos = "<bos>" if name == "gemma" else "<|begin_of_text|>" if name == "llama3" else ""
    assert bos + render(ours, turns) == theirs.removesuffix(tokenizer.eos_token)


@pytest.mark.parametrize("name", ["gemma", "mistral"])
@pytest.mark.parametrize("turns", [(U, S, U), (S, A), (Message("tool", "T"),)])
def test_a_turn_that_a_format_has_no_place_for_is_refused(
    name: str, turns: tuple[Message, ...], byte_tokenizer: Callable[..., Any]
) -> None:
    template = chat_template(byte_tokenizer(TEMPLATES[name]), "2024-07-26")
    assert template is not None
    with raises("data.refused_by_template"):
        render(template, turns)


def learned(base: Path, template: str) -> list[str]:
    """Returns what is learned of a chat of two turns, turn by turn."""
    tokenizer = own_tokenizer(base, template=template).tokenizer
    row = encode_row(make_encoder(tokenizer, EncodeOptions(400)), Record("f:1", "chat", CHAT))
    pairs = zip(row.ids, row.learned, strict=True)
    text = [tokenizer.decode([token]) if on else "\0" for token, on in pairs]
    return [part for part in "".join(text).split("\0") if part]


@pytest.mark.parametrize(
    ("name", "end"),
    [("chatml", "<|im_end|>"), ("llama3", "</s>"), ("gemma", "</s>"), ("phi", "</s>")],
)
def test_each_turn_learns_a_token_that_ends_it(bare: Path, name: str, end: str) -> None:
    assert learned(bare, name) == [f"A{end}"] * 2
    own = own_tokenizer(bare, template=name)
    stops = chat_stops(bare, own.tokenizer, EncodeOptions(400))
    assert cast("Any", own.tokenizer).convert_tokens_to_ids(end) in stops
    assert any(end in note for note in own.notes)  # both change what texts, or turns, end with


def test_a_file_is_taken_as_it_is(bare: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(CHATML.replace("<|im_end|>", "{{ eos_token }}"))
    assert learned(bare, str(file)) == ["A</s>"] * 2
    assert own_tokenizer(bare, template=str(file)).parts == {"chat_template": file.read_text()}


@pytest.mark.parametrize("end", ["<|fin|>", "###", "|", "</{{ m.role }}>", ""])
def test_a_file_whose_turns_end_with_no_token_is_refused(
    bare: Path, tmp_path: Path, end: str
) -> None:
    (tmp_path / "mine.jinja").write_text(CHATML.replace("<|im_end|>", end))
    with raises("data.template_end", "end with a token of the base, got") as caught:
        own_tokenizer(bare, template=str(tmp_path / "mine.jinja"))
    assert caught.value.code == "data.template_end"


def test_the_end_of_turns_becomes_that_of_texts(bare: Path) -> None:
    assert own_tokenizer(bare, template="chatml").parts == {
        "chat_template": TEMPLATES["chatml"],
        "eos_token": "<|im_end|>",
    }


def test_a_base_without_any_end_is_refused(bare: Path) -> None:
    config = json.loads((bare / "tokenizer_config.json").read_text())
    (bare / "tokenizer_config.json").write_text(json.dumps(config | {"eos_token": None}))
    with raises("data.template_end", "no end-of-text token either") as caught:
        own_tokenizer(bare, template="llama3")
    assert caught.value.code == "data.template_end"


def test_a_given_template_wins_over_the_bases_with_a_note() -> None:
    own = own_tokenizer(pico_folder(), template="chatml")
    assert own.parts["chat_template"] == TEMPLATES["chatml"]
    assert any("not the model's own" in note for note in own.notes)


def test_the_same_template_again_changes_nothing(bare: Path) -> None:
    (bare / "chat_template.jinja").write_text(TEMPLATES["chatml"])
    own = own_tokenizer(bare, template="chatml")
    assert (own.parts, own.notes) == ({}, ())


def test_a_given_template_wins_over_an_adapters(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    own = own_tokenizer(bare, tmp_path, "phi")
    assert "<|assistant|>" in own.parts["chat_template"]
    assert own_parts(bare, tmp_path) == {"chat_template": CHATML}


def test_a_template_is_one_of_ours_or_a_file(tmp_path: Path) -> None:
    items = ["model_name_or_path=m", "dataset=d"]
    assert load_config([], [*items, "template=qwen"], {}).config.template == "qwen"
    assert load_config([], [*items, "template=./a.jinja"], {}).config.template_file == "./a.jinja"
    with raises("config.invalid", "chatml"):
        load_config([], [*items, "template=chatlm"], {})
    shutil.copytree(pico_folder(), tmp_path / "base")
    with raises("data.missing_template"):
        own_tokenizer(tmp_path / "base", template=str(tmp_path / "absent.jinja"))


def test_another_published_name_leaves_the_models_own() -> None:
    items = ["model_name_or_path=m", "dataset=d", "template=qwen3"]
    loaded = load_config([], items, {})
    assert (loaded.config.template, [one.key for one in loaded.ignored]) == (None, ["template"])


def test_the_tokenizer_itself_is_that_of_the_base(bare: Path) -> None:
    own = own_tokenizer(bare, template="llama3").tokenizer
    assert own.backend_tokenizer.get_vocab() == load_tokenizer(bare).backend_tokenizer.get_vocab()
