"""A model on a server: its answers are kept, paid for once, and compared like others."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Body, ChatServer, chat_server
from tests.gym.evaluate.conftest import Call, write_rows

ROWS = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(6)]
WORDS = ("--tasks", "gsm8k", "--data", ".", "--json")


@pytest.fixture
def server(place: Path) -> Iterator[ChatServer]:
    """A server that knows sums up to 3 + 1."""
    write_rows(place / "gsm8k.jsonl", ROWS)

    def respond(body: Body, number: int) -> str:
        del number
        summand = int(body["messages"][-1]["content"].split()[2])
        return f"So it is\n#### {min(summand, 3) + 1}"

    with chat_server(respond) as running:
        yield running


def test_a_server_is_measured_and_asked_once(server: ChatServer, call: Call) -> None:
    words = ("eval", f"{server.url}#sums", *WORDS)
    first = call(*words)
    assert first.code == 0, first.stderr
    results: Any = first.json["results"]
    assert (results[0]["value"], results[0]["rows"]) == (4 / 6, 6)
    assert results[0]["form"] == "the chat template of the server"
    assert len(server.requests) == 6
    assert all(body["temperature"] == 0 for body in server.requests)
    assert "sums: gsm8k: 6 asked now" in first.stderr
    again = call(*words)
    assert again.stdout == first.stdout
    assert f"sums: gsm8k: 6 answers of {time.strftime('%Y-%m-%d')}, 0 asked now" in again.stderr
    assert len(server.requests) == 7  # the first row once more


def test_it_is_compared_with_a_model_of_this_machine(server: ChatServer, call: Call) -> None:
    words = ("eval", "zen-pico", f"{server.url}#sums", *WORDS, "--max_new_tokens", "4")
    comparisons: Any = call(*words).json["comparisons"]
    assert comparisons[0]["sentence"].startswith("better by 66.7 points, 95 % ")
    assert comparisons[0]["sentence"].endswith("; proven")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--plain"], "needs prompts as plain text, which a model on a server does not give"),
        (["--max-usd", "1"], "max_usd: has no effect"),
    ],
)
def test_what_a_server_does_not_give_is_refused(
    words: list[str], text: str, server: ChatServer, call: Call
) -> None:
    outcome = call("eval", f"{server.url}#sums", *WORDS, *words)
    assert outcome.code == 2
    assert text in outcome.stderr
    assert not server.requests


def test_a_new_host_needs_consent(place: Path, call: Call) -> None:
    write_rows(place / "gsm8k.jsonl", ROWS)
    outcome = call("eval", "https://example.org/v1#m", *WORDS, "--max-tokens", "1000")
    assert outcome.code == 4
    assert "expected your consent, because 6 questions leave this machine" in outcome.stderr


def test_a_cap_ends_the_calls_and_a_higher_one_goes_on(server: ChatServer, call: Call) -> None:
    words = ("eval", f"{server.url}#sums", *WORDS, "--max_new_tokens", "50")
    ended = call(*words, "--max-tokens", "450")
    assert ended.code == 5
    assert "the same command with a higher --max-tokens goes on" in ended.stderr
    asked = len(server.requests)
    assert 0 < asked < len(ROWS)
    assert call(*words, "--max-tokens", "100000").code == 0
    assert len(server.requests) == len(ROWS) + 1


@pytest.mark.parametrize("is_complete", [True, False])
def test_answers_of_another_model_at_the_address_are_refused(
    place: Path, call: Call, *, is_complete: bool
) -> None:
    write_rows(place / "gsm8k.jsonl", ROWS)
    replies = ["#### 1"]
    with chat_server(lambda _, __: replies[-1]) as server:
        words = ("eval", f"{server.url}#m", *WORDS, "--max_new_tokens", "50")
        call(*words, "--max-tokens", "100000" if is_complete else "450")
        replies.append("#### 2")
        asked = len(server.requests)
        refused = call(*words, "--max-tokens", "100000")
        assert (refused.code, len(server.requests)) == (2, asked + 1)
        assert "row 1: expected the same answer again, got another one" in refused.stderr
        for path in (place / "home").rglob("gsm8k-*.*"):  # as the hint says
            path.unlink()
        anew: Any = call(*words, "--max-tokens", "100000").json["results"]
        assert anew[0]["value"] == 1 / 6
