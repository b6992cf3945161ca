"""Templates of strangers: what they raise, how long they may take, and how they are stopped."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.data.rendering import renderer as module
from zoo.gym.data.rendering.renderer import Renderer, interruptible
from zoo.gym.errors import InputError, InterruptedRunError

ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
FILES = [
    "tokenizers/qwen3/chat_template.jinja",
    "chat_templates/Qwen-Qwen2.5-7B-Instruct.jinja",
    "chat_templates/meta-llama-Llama-3.2-3B-Instruct.jinja",
    "chat_templates/google-gemma-2-2b-it.jinja",
    "chat_templates/microsoft-Phi-3.5-mini-instruct.jinja",
]


@pytest.fixture
def renderer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Renderer]:
    monkeypatch.setattr(module, "RENDER_CPU_S", 0.5)
    monkeypatch.setattr(module, "RENDER_BYTES", 600_000_000)
    made = Renderer()
    yield made
    made.close()


def render(renderer: Renderer, source: str, **variables: Any) -> str:
    chat = variables.pop("messages", [])
    prompt = variables.pop("add_generation_prompt", False)
    return renderer.render(source, "2024-07-26", variables, [chat], [(0, len(chat), prompt)])[0]


FAULTS = {
    "{{ raise_exception('no such turn') }}": "refuses the chat: no such turn",
    "{{ a.b.c }}": "refuses the chat: UndefinedError: 'a' is undefined",
    "{{ 1 / 0 }}": "fails: ZeroDivisionError: division by zero",
    "{{ 1 + 'a' }}": "fails: TypeError: unsupported operand",
    "{{ [].pop() }}": "refuses the chat: SecurityError: ",
    "{{ 'a' * 9999999999 }}": "fails: MemoryError: ",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "fails: RecursionError: maximum",
    "{% if %}": "refuses the chat: TemplateSyntaxError: Expected an expression",
    "{{ ''.__class__ }}{{ ''.__class__.mro() }}": "refuses the chat: SecurityError: ",
    "{{ raise_exception('a\x1b[2Jb') }}": "refuses the chat: a [2Jb",
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_a_template_raises_is_a_sentence_with_its_line(
    renderer: Renderer, fault: str
) -> None:
    with pytest.raises(InputError) as caught:
        render(renderer, "one\ntwo\n" + fault)
    if "SecurityError" not in FAULTS[fault]:
        assert FAULTS[fault] in caught.value.message
        assert caught.value.message.endswith("(line 3 of the template)")
    refused = FAULTS[fault].startswith("refuses the chat")
    expected = "data.refused_by_template" if refused else "data.template_failed"
    assert caught.value.code == expected
    assert render(renderer, "{{ a }}", a="whole") == "whole"


@pytest.mark.parametrize("hog", [ENDLESS, "{% set x = 10 ** (10 ** 9) %}"])
@pytest.mark.slow
def test_a_slow_template_is_stopped_and_the_next_one_rendered(renderer: Renderer, hog: str) -> None:
    with raises("data.render_limit"):
        render(renderer, hog)
    assert render(renderer, "{{ a }}", a="whole") == "whole"


@pytest.mark.slow
def test_a_template_that_never_ends_is_not_tried_for_every_row(
    byte_tokenizer: Callable[..., Any], renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo.gym.data import EncodeOptions, Record, encode_records

    monkeypatch.setattr("zoo.gym.data.rendering.template.renderer", renderer)
    monkeypatch.setattr(module, "RENDER_CPU_S", 0.1)
    row = Record("f:1", "completion", prompt="a", completion="b")
    with raises("data.render_limit"):
        encode_records([row] * 10_000, byte_tokenizer(ENDLESS), EncodeOptions(64))


def test_a_system_that_gives_no_process_is_said(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    with raises("data.no_renderer", "Resource temporarily unavailable") as caught:
        render(renderer, "a")
    assert caught.value.code == "data.no_renderer"


@pytest.mark.slow
def test_a_stop_is_obeyed_inside_a_render(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENDER_CPU_S", 600.0)
    with (
        interruptible(lambda: "stop"),
        pytest.raises(InterruptedRunError, match="stop before the first step"),
    ):
        render(renderer, ENDLESS)
    assert render(renderer, "{{ a }}", a="whole") == "whole"


def test_a_stop_is_obeyed_between_rows(byte_tokenizer: Callable[..., Any]) -> None:
    from zoo.gym.data import EncodeOptions, Record, encode_records

    row = Record("f:1", "completion", prompt="a", completion="b")
    with interruptible(lambda: "stop"), raises("data.stopped"):
        encode_records([row], byte_tokenizer(None), EncodeOptions(64))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("generation_prompt", [True, False])
def test_real_templates_render_as_transformers_renders_them(
    shared: Callable[[str], Path], name: str, generation_prompt: bool
) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    source = shared(f"data/{name}").read_text(encoding="utf-8")
    source = source.replace("strftime_now(", "(")  # the one thing that is another on purpose
    turns = [("user", " a\n"), ("assistant", "b"), ("user", "c"), ("assistant", "\nd ")]
    chat = [{"role": role, "content": text} for role, text in turns]
    common: dict[str, Any] = {"add_generation_prompt": generation_prompt, "bos_token": "<s>"}
    made: Any = render_jinja_template([chat], chat_template=source, **common)
    [expected] = made[0]
    more = {"messages": chat, "tools": None, "documents": None, **common}
    assert render(module.renderer, source, **more) == expected


@pytest.mark.slow
def test_a_generation_block_is_rendered_as_what_is_in_it(renderer: Renderer) -> None:
    source = (
        "{% generation %}{{ a }}{% endgeneration %}{% for i in [1, 2] %}{% break %}{% endfor %}"
    )
    assert render(renderer, source, a="x") == "x"
