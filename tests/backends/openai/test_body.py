"""Answers and lists that never end, stall, or are too long: each has limits of size and time."""

import json
import time
from dataclasses import replace
from threading import Timer

import pytest

from tests.backends.openai.test_chat import ASK, CANARY, SAMPLING, chat, events, part
from tests.chat_server import Odd, chat_server
from zoo.backends.openai.chat import ChatModel, Endpoint
from zoo.backends.openai.failure import (
    EndlessAnswerError,
    TryAgainError,
)
from zoo.backends.openai.usage import Usage
from zoo.backends.sampling import Sampling


def test_an_answer_that_goes_on_beyond_its_limit_is_not_read_to_its_end() -> None:
    with chat(Odd(text="on ", endless=True), stream=True) as ask:
        with pytest.raises(EndlessAnswerError, match="does not keep max_tokens") as found:
            ask()
        assert ask.waits == []
    assert (found.value.parts, found.value.usage) == (129, None)  # 4 * 16 + 64 are read


def test_an_answer_without_an_end_has_the_last_counts_of_the_server() -> None:
    last = {"prompt_tokens": 9, "completion_tokens": 500}
    odd = Odd(behind=events(part("on ") | {"usage": last}), content_type="text/event-stream")
    with chat(odd, stream=True) as ask, pytest.raises(EndlessAnswerError) as found:
        ask()
    assert found.value.usage == Usage(9, 0, 500)


@pytest.mark.slow
def test_an_answer_on_its_way_can_be_abandoned() -> None:
    with (
        chat_server(lambda *_: Odd(text="on ", endless=True, stall_s=0.05)) as server,
        ChatModel(Endpoint("m", server.url, "m")) as model,
    ):
        Timer(0.3, model.abandon).start()
        with pytest.raises(TryAgainError, match="abandoned"):
            model.attempt(ASK, Sampling(max_new_tokens=10_000))


SIGNS_OF_LIFE = {
    "comments": Odd(behind=": ping\n\n"),
    "empty events": Odd(behind=events({"choices": []})),
    "empty parts": Odd(behind=events(part(""))),
    "comments behind a part": Odd(body=events(part("it")), behind=": ping\n\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("odd", SIGNS_OF_LIFE.values(), ids=SIGNS_OF_LIFE)
def test_signs_of_life_are_no_answer(odd: Odd) -> None:
    drip = replace(odd, content_type="text/event-stream", stall_s=0.02)
    with chat(drip, "it is 4", stream=True, stall_s=0.3, queue_s=0.3) as ask:
        with pytest.raises(TryAgainError, match=r"no text within 0\.3 s") as found:
            ask.model.attempt(ASK, SAMPLING)
        assert found.value.billed
        assert ask().text == "it is 4"


@pytest.mark.slow
def test_a_server_may_keep_a_request_in_a_queue_for_longer_than_a_stall() -> None:
    slow = Odd(behind=": ping\n\n", content_type="text/event-stream", stall_s=0.02)
    with (
        chat(slow, stream=True, stall_s=0.1, queue_s=0.4) as ask,
        pytest.raises(TryAgainError, match=r"no text within 0\.4 s"),
    ):
        ask.model.attempt(ASK, SAMPLING)


@pytest.mark.parametrize(("behind", "wait_s"), [(": ping\n\n", 0.05), (" ", 4.0)])
@pytest.mark.slow
def test_an_answer_that_is_whole_does_not_wait_for_what_follows(behind: str, wait_s: float) -> None:
    body = events(part("it is 4", "stop")) + "data: [DONE]\n\n"
    odd = Odd(body=body, behind=behind, content_type="text/event-stream", stall_s=wait_s)
    began = time.monotonic()
    with chat(odd, stream=True, stall_s=30) as ask:
        assert ask().text == "it is 4"
    assert time.monotonic() - began < 3


@pytest.mark.slow
def test_a_whole_body_has_a_limit_of_time_that_grows_with_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zoo.backends.openai.chat.TOKEN_S", 0.05)
    with chat(Odd(behind=" ", stall_s=0.02), stall_s=0.1, queue_s=0.1) as ask:
        for tokens, seconds in ((1, 0.1), (16, 0.9)):  # 0.1 + 0.05 a token
            began = time.monotonic()
            with pytest.raises(TryAgainError, match="no whole answer within"):
                ask.model.attempt(ASK, Sampling(max_new_tokens=tokens))
            assert time.monotonic() - began >= seconds


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_answer_that_stalls_can_be_abandoned(*, stream: bool) -> None:
    kind = "text/event-stream" if stream else "application/json"
    with chat(Odd(body=": x\n\n", behind=" ", content_type=kind, stall_s=9.0), stall_s=30) as ask:
        Timer(0.3, ask.model.abandon).start()
        began = time.monotonic()
        with pytest.raises(TryAgainError, match="abandoned"):
            ask.model.attempt(ASK, SAMPLING)
    assert time.monotonic() - began < 5


def listed(odd: Odd, key: str = "") -> list[str] | None:
    with chat("4", key=key, stall_s=0.5) as ask:
        ask.server.models = odd
        return ask.model.listed_models()


def test_the_models_of_a_server_are_listed() -> None:
    assert listed(Odd(body='{"data": [{"id": "a"}, {"id": "b"}]}')) == ["a", "b"]


BAD_LISTS = {
    "one that never ends": Odd(behind=" ", stall_s=0.02),
    "a huge one": Odd(body='{"data": [{"id": "a"}]}' + " " * 5_000_000),
    "no list": Odd(body='{"data": 5}'),
    "no JSON": Odd(body="<html>"),
}


@pytest.mark.slow
@pytest.mark.parametrize("odd", BAD_LISTS.values(), ids=BAD_LISTS)
def test_a_list_of_models_that_cannot_be_read_is_none(odd: Odd) -> None:
    assert listed(odd) is None


def test_a_list_of_models_shows_neither_the_key_nor_control_characters() -> None:
    found = listed(
        Odd(body=json.dumps({"data": [{"id": f"a {CANARY}"}, {"id": "\x1b[31mb"}]})), CANARY
    )
    assert found == ["a [key]", " [31mb"]
