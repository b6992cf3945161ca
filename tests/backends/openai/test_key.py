"""A key goes to its own server and into no text."""

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.backends.openai.test_chat import CANARY, chat, error
from tests.chat_server import Odd
from tests.codes import raises
from zoo.backends.openai.chat import ChatModel, Endpoint
from zoo.backends.openai.secrets import Secret
from zoo.core.errors import GymError, InputError

FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper case": str.upper,
    "hex": lambda key: key.encode().hex(),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 of a header": lambda key: base64.b64encode(f"Bearer {key}!".encode()).decode(),
    "URL": lambda key: quote(key, safe=""),
    "JSON": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "JSON in part": lambda key: key.replace("+", "\\u002B"),
    "JSON in JSON": lambda key: json.dumps(json.dumps(key.replace("+", "\\u002B")))[2:-2],
    "URL in part": lambda key: key.replace("+", "%2B").replace("k", "%6b"),
    "HTML": lambda key: key.replace("+", "&#43;").replace("/", "&#x2F;"),
    "unicode escapes": lambda key: "".join(f"\\u{ord(one):04x}" for one in key),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("status", [200, 401, 500])
def test_a_key_that_the_server_echoes_is_nowhere(status: int, form: Callable[[str], str]) -> None:
    echoed = form(CANARY)
    odd = Odd(status, text=echoed) if status == 200 else Odd(status, error(f"key {echoed} odd"))
    with chat(odd, key=CANARY) as ask:
        try:
            said = ask().text
        except GymError as caught:
            said = str(caught)
    assert ask.server.headers[0]["Authorization"] == f"Bearer {CANARY}"
    # the characters of a longer base64 text that come from the key alone
    secret = echoed[12:36] if "header" in request_id(form) else echoed
    assert secret not in said
    assert "[key]" in said


@pytest.mark.parametrize("status", [400, 401, 404, 429, 503])
def test_a_key_that_only_decoding_brings_to_light_is_nowhere(status: int) -> None:
    body = json.dumps({"error": {"message": "x" * 190 + CANARY}})
    raw = "".join(f"\\u{ord(one):04X}" if one in "+ay" else one for one in CANARY)
    odd = Odd(status, body.replace(CANARY, raw))
    with chat(odd, key=CANARY) as ask, pytest.raises(GymError) as caught:
        ask()
    assert CANARY[:9] not in str(caught.value)


def request_id(form: Callable[[str], str]) -> str:
    return next(name for name, one in FORMS.items() if one is form)


def test_no_text_shows_a_key() -> None:
    secret = Secret(CANARY)
    model = ChatModel(Endpoint("test", "https://example.org/v1", "m"), secret)
    assert CANARY not in f"{secret!r} {model!r} {vars(model)}"


@pytest.mark.parametrize("value", ["EMPTY", "ollama"])
def test_a_placeholder_is_sent_and_hides_no_word(value: str) -> None:
    with chat(f"it is {value}", key=value) as ask:
        assert ask().text == f"it is {value}"
    assert ask.server.headers[0]["Authorization"] == f"Bearer {value}"


@pytest.mark.parametrize("value", ["short", "with\nline ends", "snow ☃ man man"])
def test_what_cannot_be_a_key_is_refused_without_being_shown(value: str) -> None:
    with raises("openai.bad_key", "MY_KEY: expected an API key") as caught:
        Secret(value, "MY_KEY")
    assert value not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/v1",
        "http://192.168.1.4:8080/v1",
        "https://user:word@example.org/v1",
        "https://example.org/v1?key=sk-12345678",
        "ftp://example.org",
        "example.org",
        "https://[::1",
        "https://example.org:99999/v1",
    ],
)
def test_an_address_that_no_key_may_go_to_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="url: ") as caught:
        Endpoint("test", url, "m")
    assert "word" not in str(caught.value).replace("password", "")
    assert "sk-1234" not in str(caught.value)
