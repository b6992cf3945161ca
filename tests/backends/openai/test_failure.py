"""Which error of a server means that it lacks a parameter, in words that servers really send."""

import json
import subprocess
import sys

import pytest

from zoo.backends.openai.failure import RefusedParameterError, failure
from zoo.backends.openai.secrets import Secret

SENT = frozenset(["max_tokens", "temperature", "top_k", "top_p"])


def of(message: str, **more: object) -> str:
    return json.dumps({"error": {"message": message, **more}})


LACKING = [
    (of("Unsupported parameter: 'top_k' is not supported. Set temperature."), "top_k"),
    (of("no", code="unsupported_parameter", param="top_p"), "top_p"),
    (
        of("Unsupported value: 'temperature' does not support 0.2. Use 1.", param="temperature"),
        "temperature",
    ),
    (of('Unknown name "top_k": Cannot find field.'), "top_k"),
    (of("property 'top_k' is unsupported, did you mean 'top_p'?"), "top_k"),
    ("[{'type': 'extra_forbidden', 'loc': ('body', 'top_k'), 'msg': 'Extra inputs'}]", "top_k"),
    (
        json.dumps({"detail": [{"type": "extra_forbidden", "loc": ["body", "top_k"]}]}),
        "top_k",
    ),
    (json.dumps({"error": "unexpected keyword argument 'top_p'"}), "top_p"),
]
WRONG = [
    of("temperature must be between 0 and 2, got 5"),
    of("max_tokens is too large: 99999. This model supports 8192", param="max_tokens"),
    of("Invalid value", code="invalid_value", param="temperature"),
    of("the content was not accepted", request={"temperature": 1, "top_k": 4}),
    of("messages: unsupported role", param="messages"),
    of("Unsupported image. The request had temperature 1 and top_k 4."),
    "[[",
]


@pytest.mark.parametrize(("body", "name"), LACKING)
def test_a_parameter_that_a_server_does_not_know_is_named(body: str, name: str) -> None:
    found = failure(400, {}, body, "here", SENT)
    assert isinstance(found, RefusedParameterError)
    assert found.name == name


@pytest.mark.parametrize("body", WRONG)
def test_a_parameter_that_is_only_mentioned_is_not_left_out(body: str) -> None:
    assert not isinstance(failure(400, {}, body, "here", SENT), RefusedParameterError)


HOSTILE = (
    "<",
    "<a",
    ".\n",
    "context ",
    "retry 1 ",
    "retry ",
    " 1 s",
    "not ",
    '"code" ',
    "max_tokens;\n",
)

READ_ALL = f"""
from zoo.backends.openai.failure import failure
for part in {HOSTILE!r}:
    for status, blanks in ((400, ""), (429, " " * 100_000)):
        text = part + blanks + "x" + part * 300_000
        failure(status, {{}}, text, "m", frozenset(["max_tokens", "top_k"]))
"""


@pytest.mark.slow
def test_no_error_of_a_server_takes_long_to_read() -> None:
    subprocess.run([sys.executable, "-c", READ_ALL], check=True, timeout=120)


@pytest.mark.slow
def test_an_error_that_is_cut_shows_no_half_of_a_key() -> None:
    key, whole = "sk-canary-0123456789", 256_000
    for place in (whole - len(key), whole - 9, whole - 1):
        text = "<" + "a" * (place - 2) + ">" + key
        said = str(failure(400, {}, text, "m", frozenset(), Secret(key).clean))
        assert key[:4] not in said
