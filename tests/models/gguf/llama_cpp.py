"""llama.cpp as an oracle: token ids and log-probabilities of a GGUF file, in float32."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest


class LlamaCpp:
    """A model in llama.cpp, with float32 keys and values and without flash attention."""

    def __init__(self, path: Path, positions: int = 512) -> None:
        x: Any = pytest.importorskip("xllamacpp")
        params = x.CommonParams()
        params.model.path = str(path)
        params.n_ctx = positions
        params.n_parallel = 1
        params.warmup = False
        params.verbosity = 0
        params.cache_type_k = params.cache_type_v = x.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = x.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        self._server = x.Server(params)

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text, with what is added around it."""
        body = {"content": text, "add_special": True, "parse_special": True}
        ids: list[int] = self._post("tokenize", body)["tokens"]
        return ids

    def rendered(self, messages: list[dict[str, str]]) -> str:
        """Returns a chat as the template in the file renders it."""
        text: str = self._post("apply-template", {"messages": messages})["prompt"]
        return text

    def logprobs(self, ids: list[int], most: int, plain: int) -> dict[int, float]:
        """Returns the log-probabilities of the likeliest tokens after some ids.

        `plain` is a token that is text: an end or half a character would have no probabilities.
        It is what the bias makes the model say; they are taken before.
        """
        body = {
            "prompt": ids,
            "n_predict": 1,
            "n_probs": most,
            "temperature": 0,
            "cache_prompt": False,
            "logit_bias": [[plain, 1000]],
        }
        reply = self._post("completion", body)["completion_probabilities"][0]["top_logprobs"]
        return {row["id"]: row["logprob"] for row in reply}

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{self._server.listening_address}/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)
