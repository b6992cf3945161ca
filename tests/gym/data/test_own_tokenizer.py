"""The template and the end of texts that an adapter's folder has of its own."""

import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from tests.codes import raises
from zoo.gym import GymWarning, TrainConfig, open_chat, run_training
from zoo.gym.data import EncodeOptions, Message, encode_prompt, load_tokenizer
from zoo.gym.data.own_tokenizer import own_in, own_parts, tokenizer_of, write_own
from zoo.gym.data.records import Record
from zoo.gym.data.rows import encode_row, make_encoder
from zoo.gym.delta import apply_delta, create_delta
from zoo.gym.train.measuring import rows_of_files
from zoo.gym.train.result.origin import check_same_tokenizer
from zoo.gym.train.rows import prepare_rows
from zoo.models import pico_folder

OWN = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{{ 'assistant: ' if add_generation_prompt }}"
)
OTHER = "{{ messages[0].content }}"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def asked(base: Path, adapter: Path | None) -> str:
    tokenizer = tokenizer_of(base, adapter)
    ids = encode_prompt([Message("user", "Hi")], tokenizer, EncodeOptions(64))
    return tokenizer.decode(ids)


@pytest.mark.parametrize(
    ("files", "template"),
    [
        ({"chat_template.jinja": OWN}, OWN),
        ({"tokenizer_config.json": json.dumps({"chat_template": OWN})}, OWN),
        (
            {
                "chat_template.jinja": OWN,
                "tokenizer_config.json": json.dumps({"chat_template": OTHER}),
            },
            OWN,
        ),
        (
            {
                "tokenizer_config.json": json.dumps(
                    {"chat_template": [{"name": "default", "template": OWN}]}
                )
            },
            {"default": OWN},
        ),
    ],
    ids=["file", "config", "file before config", "by name"],
)
def test_the_template_in_the_folder_is_used(
    tmp_path: Path, files: dict[str, str], template: object
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert own_parts(pico_folder(), tmp_path) == {"chat_template": template}
    assert asked(pico_folder(), tmp_path) == "user: Hi\nassistant: "


def test_a_folder_without_tokenizer_files_is_asked_as_its_base(tmp_path: Path) -> None:
    assert own_parts(pico_folder(), tmp_path) == {}
    assert asked(pico_folder(), tmp_path) == asked(pico_folder(), None)


@pytest.mark.parametrize("wrapped", [False, True])
def test_texts_end_with_the_token_of_the_folder(tmp_path: Path, wrapped: bool) -> None:
    base = load_tokenizer(pico_folder())
    eos = base.decode([base.eos_token_id or 0])
    other = next(text for text in base.special_tokens_map.values() if text != eos)
    value = {"content": other, "special": True} if wrapped else other
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": value}))
    tokenizer = tokenizer_of(pico_folder(), tmp_path)
    assert tokenizer.decode([tokenizer.eos_token_id or 0]) == other
    assert own_parts(pico_folder(), tmp_path) == {"eos_token": other}


def test_an_end_that_the_base_lacks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|fin|>"}))
    with raises("data.missing_token"):
        tokenizer_of(pico_folder(), tmp_path)


def test_a_recipe_holds_only_what_is_read() -> None:
    assert own_in({"tokenizer": {"chat_template": OWN, "name_or_path": "x"}}) == {
        "chat_template": OWN
    }
    assert own_in({"tokenizer": "x"}) == {}


def test_chats_with_tools_have_their_template(byte_tokenizer: Any) -> None:
    tool_use = "{{ tools[0].function.name }} " + OWN
    tokenizer = byte_tokenizer({"default": OWN, "tool_use": tool_use})
    encoder = make_encoder(tokenizer, EncodeOptions(200))
    turns = (Message("user", "Hi"), Message("assistant", "Yo"))
    plain, tools = (
        tokenizer.decode(encode_row(encoder, Record("f:1", "chat", turns, tools=tools)).ids)
        for tools in ((), (TOOL,))
    )
    assert (plain, tools) == ("user: Hi\nassistant: Yo</s>", "f user: Hi\nassistant: Yo</s>")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_an_adapter_is_asked_and_continued_with_its_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows = [{"prompt": f"Say {n}.", "completion": f"{n} it is"} for n in range(8)]
    config = TrainConfig(model_name_or_path="zen-pico", dataset=rows, max_steps=2)
    adapter = run_training(config).model
    (adapter / "chat_template.jinja").write_text(OWN)
    noticed = pytest.warns(GymWarning, match="its own chat template")
    with noticed, open_chat("zen-pico", adapter=adapter) as chat:
        assert chat.tokenizer.chat_template == OWN
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    more = TrainConfig(
        model_name_or_path="zen-pico",
        adapter_name_or_path=str(adapter),
        dataset=str(file),
        date="2026-01-01",
        max_steps=2,
    )
    learned = prepare_rows(more, pico_folder())
    text = load_tokenizer(pico_folder()).decode(learned.train[0].rows[0].ids.tolist())
    assert text.startswith("user: Say")
    assert any("its own chat template" in note for note in learned.notes)
    again = run_training(more).model
    assert (again / "chat_template.jinja").read_text() == OWN
    delta = tmp_path / "mine.safetensors"
    create_delta(again, base=pico_folder(), out=delta)
    noticed = pytest.warns(GymWarning, match="its own chat template")
    with noticed, open_chat("zen-pico", delta=delta) as chat:
        assert chat.tokenizer.chat_template == OWN
    rebuilt = apply_delta(delta, base=pico_folder(), out=tmp_path / "rebuilt").folder
    with open_chat(rebuilt) as chat:
        assert chat.tokenizer.chat_template == OWN


@pytest.mark.parametrize("template", [OWN, {"default": OWN, "tool_use": OTHER}])
def test_a_rebuilt_folder_has_what_the_recipe_says(tmp_path: Path, template: object) -> None:
    folder = tmp_path / "rebuilt"
    shutil.copytree(pico_folder(), folder)
    base = load_tokenizer(pico_folder())
    other = next(
        iter(
            {*map(str, base.special_tokens_map.values())} - {base.decode([base.eos_token_id or 0])}
        )
    )
    write_own(folder, {"tokenizer": {"chat_template": template, "eos_token": other}})
    rebuilt = load_tokenizer(folder)
    assert rebuilt.chat_template == template
    assert rebuilt.decode([rebuilt.eos_token_id or 0]) == other


def with_tool_use(folder: Path) -> Path:
    """Copies zen-pico with the templates `default` and `tool_use`, as transformers saves them."""
    shutil.copytree(pico_folder(), folder)
    (folder / "chat_template.jinja").write_text(OTHER)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/tool_use.jinja").write_text(OWN)
    return folder


def test_a_saved_copy_of_the_bases_templates_is_no_other(tmp_path: Path) -> None:
    base, adapter = with_tool_use(tmp_path / "base"), tmp_path / "adapter"
    cast("Any", load_tokenizer(base)).save_pretrained(adapter)
    assert own_parts(base, adapter) == {}
    assert tokenizer_of(base, adapter).get_chat_template(tools=[]) == OWN


def test_one_template_of_an_adapter_keeps_the_others(tmp_path: Path) -> None:
    base, adapter = with_tool_use(tmp_path / "base"), tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "chat_template.jinja").write_text("mine")
    tokenizer = tokenizer_of(base, adapter)
    assert (tokenizer.get_chat_template(), tokenizer.get_chat_template(tools=[])) == ("mine", OWN)


@pytest.mark.parametrize(
    "template",
    ["mine", {"default": "mine", "tool_use": "yours"}, {"default": "mine", "tool-v2": "yours"}],
)
def test_a_rebuilt_folder_has_no_template_of_the_base(tmp_path: Path, template: Any) -> None:
    folder = with_tool_use(tmp_path / "base")
    write_own(folder, {"tokenizer": {"chat_template": template}})
    assert load_tokenizer(folder).chat_template == template


@pytest.mark.parametrize(
    "odd",
    [
        *({"chat_template": 5}, {"chat_template": ["x"]}, {"eos_token": ["x"]}),
        *({"chat_template": {"../x": "a"}}, {"chat_template": {"a": 1}}),
    ],
)
def test_what_a_stranger_writes_in_a_recipe_is_no_error(tmp_path: Path, odd: Any) -> None:
    shutil.copytree(pico_folder(), tmp_path / "base")
    assert own_in({"tokenizer": odd}) == {}
    write_own(tmp_path / "base", {"tokenizer": odd})


def test_a_run_does_not_go_on_with_another_template(tmp_path: Path) -> None:
    env_file = tmp_path / "env.json"
    env_file.write_text("{}")
    own = {"chat_template": OWN}
    check_same_tokenizer(env_file, own, resumes=False)
    check_same_tokenizer(env_file, own, resumes=True)
    for other in ({}, {"chat_template": OTHER}):
        with raises("train.other_template"):
            check_same_tokenizer(env_file, other, resumes=True)


@pytest.mark.parametrize(("own", "fits"), [({}, True), ({"chat_template": OWN}, False)])
def test_a_run_from_before_goes_on_with_the_bases_template_alone(
    tmp_path: Path, own: dict[str, Any], fits: bool
) -> None:
    (tmp_path / "env.json").write_text("{}")
    if fits:
        check_same_tokenizer(tmp_path / "env.json", own, resumes=True)
    else:
        with raises("train.other_template"):
            check_same_tokenizer(tmp_path / "env.json", own, resumes=True)


@pytest.mark.parametrize("as_delta", [True, False])
def test_rows_are_measured_as_the_fine_tune_is_asked(tmp_path: Path, as_delta: bool) -> None:
    rows = tmp_path / "held.jsonl"
    rows.write_text('{"prompt": "Hi", "completion": "Yo"}\n')
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "chat_template.jinja").write_text(OWN)
    config = TrainConfig(
        model_name_or_path=str(pico_folder()),
        dataset=str(rows),
        date="2026-01-01",
        **({} if as_delta else {"adapter_name_or_path": str(adapter)}),
    )
    own = {"chat_template": OWN} if as_delta else None
    (example,) = rows_of_files([rows], config, pico_folder(), None, own).examples
    text = load_tokenizer(pico_folder()).decode(example.ids.tolist())
    assert text.startswith("user: Hi\nassistant: Yo")
