"""Rendering, and the pinned date."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.data.records import Message
from zoo.gym.data.rendering.template import chat_template, render

CHAT = [Message("user", "Hi")]


def rendered(tokenizer: Any, source: str, today: str = "2024-07-05") -> str:
    tokenizer.chat_template = source
    template = chat_template(tokenizer, today)
    assert template is not None
    return render(template, CHAT, generation_prompt=True)


@pytest.mark.parametrize(
    ("today", "printed"),
    [("2024-07-05", "Today Date: 05 Jul 2024"), ("2031-12-31", "Today Date: 31 Dec 2031")],
)
def test_the_date_that_llama_prints_is_the_pinned_one(
    shared: Callable[[str], Path],
    byte_tokenizer: Callable[..., Any],
    today: str,
    printed: str,
) -> None:
    path = shared("data/chat_templates/meta-llama-Llama-3.2-3B-Instruct.jinja")
    assert printed in rendered(byte_tokenizer(), path.read_text(encoding="utf-8"), today)


@pytest.mark.parametrize(
    ("pattern", "printed"),
    [("%Y-%m-%d", "2024-07-05"), ("%A, %B %d", "Friday, July 05"), ("%d/%m/%y %H:%M", None)],
)
def test_every_common_form_of_a_date_is_pinned(
    byte_tokenizer: Callable[..., Any], pattern: str, printed: str | None
) -> None:
    source = "\n  {{ 'Day ' + strftime_now('" + pattern + "') }}"
    expected = f"\n  Day {printed or '05/07/24 00:00'}"
    assert rendered(byte_tokenizer(), source) == expected


def test_pinning_changes_nothing_else_of_a_template(byte_tokenizer: Callable[..., Any]) -> None:
    source = "\n  {% if true %}\n a{{ bos_token }}\n{% endif %}{# #}\n"
    pinned = rendered(byte_tokenizer(), source + "{{ strftime_now('') }}")
    assert pinned == rendered(byte_tokenizer(), source)


@pytest.mark.parametrize("today", ["yesterday", "2024-13-01", ""])
def test_what_is_no_date_is_refused(byte_tokenizer: Callable[..., Any], today: str) -> None:
    with raises("data.bad_date", "date: expected a date like 2024-07-26, got"):
        rendered(byte_tokenizer(), "{{ strftime_now('%d') }}", today)


def test_a_model_without_a_template_has_none(byte_tokenizer: Callable[..., Any]) -> None:
    assert chat_template(byte_tokenizer(None), "2024-07-26") is None


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("{{ raise_exception('no such turn') }}", "no such turn"),
        ("{{ a.b.c }}", "'a' is undefined"),
    ],
)
def test_a_template_that_fails_is_an_error_of_the_data(
    byte_tokenizer: Callable[..., Any], fault: str, reason: str
) -> None:
    with raises("data.refused_by_template", reason) as caught:
        rendered(byte_tokenizer(), fault)
    assert caught.value.code == "data.refused_by_template"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ messages[0].content }}", "<think>\nHm\n</think>\n\nYes"),
        ("{{ messages[0].reasoning_content }}|{{ messages[0].content }}", "Hm|Yes"),
        ("{{ messages[0]['thinking'] }}|{{ messages[0].content }}", "Hm|Yes"),
        (
            "{% if enable_thinking %}{% endif %}{{ messages[0].content }}",
            "<think>\nHm\n</think>\n\nYes",
        ),
    ],
)
def test_reasoning_precedes_the_answer_by_default(
    byte_tokenizer: Callable[..., Any], source: str, text: str
) -> None:
    template = chat_template(byte_tokenizer(source), "2024-07-26")
    assert template is not None
    assert render(template, [Message("assistant", "Yes", "Hm")]) == text
