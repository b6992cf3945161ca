"""Which error of a server means that it lacks a parameter, in words that servers really send."""

import json

import pytest

from zoo.backends.openai.failure import RefusedParameterError, failure

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
