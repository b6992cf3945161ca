"""Who asks a server, and what callers that may not ask are answered."""

import json

from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.serving.wire import problem


def refusal(error: RefusedError) -> tuple[int, bytes]:
    """Returns the status and the body for a caller that may not ask.

    One without a token reads in OpenAI's form what is missing. Another host name or page gets no
    content: a page in a browser has no use for a reason.
    """
    if error.status != 401:
        return 403, b""
    return 401, json.dumps(problem(error.message, param=None, code="invalid_api_key")).encode()
