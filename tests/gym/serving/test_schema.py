"""Requests that Schemathesis makes up from the bodies that the routes read."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from tests.gym.serving.conftest import NAME, Served
from zoo.gym.serving.chats import ChatBody
from zoo.gym.serving.responses import ResponsesBody
from zoo.gym.serving.run import ModelServer
from zoo.gym.serving.tuning.requests import JobBody
from zoo.gym.serving.wire import CompletionBody

MODEL = {"model": {"const": NAME}}
POSTED: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "/v1/chat/completions": (ChatBody, MODEL),
    "/v1/completions": (CompletionBody, MODEL),
    "/v1/responses": (ResponsesBody, MODEL),
    "/v1/fine_tuning/jobs": (JobBody, {}),
}
"""What each route reads, and the fields that lead to an answer."""

EXCLUDED = "positive_data_acceptance,unsupported_method,allow_header_conformance"
"""Starlette names one method alone in `Allow` where a path has two."""

READ = ("/health", "/v1/models", "/v1/files", "/v1/fine_tuning/jobs")
TYPES: dict[str, Any] = {"application/json": {}, "text/event-stream": {}}


def description() -> dict[str, Any]:
    """Returns the routes in OpenAPI."""
    answers = {"200": {"description": "", "content": TYPES}, "4XX": {"description": ""}}
    paths: dict[str, Any] = {path: {"get": {"responses": answers}} for path in READ}
    definitions: dict[str, Any] = {}
    for path, (kind, fields) in POSTED.items():
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        definitions |= schema.pop("$defs", {})
        schema["properties"] |= fields
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths.setdefault(path, {})["post"] = {"requestBody": body, "responses": answers}
    info = {"title": "zoo-gym", "version": "1"}
    components = {"schemas": definitions}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "examples",
    [pytest.param(3, marks=pytest.mark.slow), pytest.param(150, marks=pytest.mark.nightly)],
)
def test_no_request_of_these_forms_breaks_the_server(
    served: Served, tmp_path: Path, examples: int
) -> None:
    """A schema cannot say which models exist, or which fields go together: those are refused."""
    (tmp_path / "openapi.json").write_text(json.dumps(description()))

    async def test(server: ModelServer, _: AsyncOpenAI) -> tuple[int | None, str]:
        words = ["run", "openapi.json", "--url", server.url, "--seed", "1", "--no-color"]
        words += ["--request-timeout", "120"]
        words += ["-H", f"Authorization: Bearer {server.token}"]
        words += ["--max-examples", str(examples), "--exclude-checks", EXCLUDED]
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("schemathesis")),
            *words,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
        )
        printed, _none = await process.communicate()
        return process.returncode, printed.decode()

    code, printed = served(test)
    assert code == 0, printed
    assert f"Tested: {len(READ) + len(POSTED)}" in printed
