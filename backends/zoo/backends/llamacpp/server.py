"""llama.cpp's server in this process, asked for one token at a time.

A token a request, because a stream of llama.cpp's withholds the ids of tokens that end within a
character. Keys and values stay in the slot, so each request reads one token. The server listens on
this machine, at a port that the system chooses, with a random key that nobody else has.
"""

import http.client
import json
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from zoo.backends.llamacpp.adapter import check_adapter
from zoo.backends.machine.installing import install_command
from zoo.backends.sampling import Sampling
from zoo.core.errors import GymError, InputError, InterruptedRunError, NotAvailableError
from zoo.models.gguf.parts import Source
from zoo.models.gguf.vocabulary import TOKENS

FEW_LIKELIEST = 64
"""How many tokens are searched first for the log-probability of one that llama.cpp withholds."""

CERTAIN = 1000
"""A bias of logits that makes a token certain."""

ANSWER_FIELDS = ("tokens", "completion_probabilities")


def require_llamacpp() -> Any:  # noqa: ANN401
    """Returns the binding of llama.cpp.

    Raises:
        NotAvailableError: the extra `llamacpp` is not installed.
    """
    try:
        import xllamacpp
    except ModuleNotFoundError:
        raise NotAvailableError(
            "GGUF files are answered by llama.cpp: expected the package xllamacpp (extra "
            "llamacpp), got nothing",
            hint=install_command("llamacpp"),
            code="backends.missing_package",
        ) from None
    return xllamacpp


class LlamaServer:
    """A loaded GGUF file.

    Args:
        source: the open file.
        adapters: LoRA adapters in GGUF by name.
        slots: how many rows it keeps and answers at once.
        tokens: the most tokens of a row.
        threads: how many compute.
        exact: whether keys and values are float32, without flash attention: slower, and what a
            comparison needs, because their rounding hides errors of a thousandth of it.

    Attributes:
        vocabulary: the number of tokens.
    """

    def __init__(
        self,
        source: Source,
        adapters: Mapping[str, Path],
        *,
        slots: int,
        tokens: int,
        threads: int,
        exact: bool = False,
    ) -> None:
        x = require_llamacpp()
        for path in adapters.values():
            check_adapter(path, source.metadata.text("general.architecture"))
        words = source.metadata.texts(TOKENS) or []
        self.vocabulary = len(words)
        self.adapters = tuple(adapters)
        self._plain = next(i for i, word in enumerate(words) if word.isascii() and word.isalpha())
        key = secrets.token_urlsafe(32)
        # a connection that stays open would be closed by llama.cpp after some seconds without work
        self._headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        params = x.CommonParams()
        params.model.path = str(source.parts[0].path)
        params.lora_adapters = [
            x.CommonAdapterLoraInfo(str(path), 0.0) for path in adapters.values()
        ]
        params.n_parallel, params.n_ctx, params.kv_unified = slots, slots * tokens, False
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [key]
        params.n_threads_http = 2 * slots  # a request holds one, also when it is abandoned
        params.ui = params.endpoint_slots = params.endpoint_props = params.warmup = False
        params.cache_ram_mib = 0  # copies of slots, of up to 8 GB
        params.verbosity = 0
        if exact:
            params.cache_type_k = params.cache_type_v = x.ggml_type.GGML_TYPE_F32
            params.flash_attn_type = x.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        try:
            self._server = x.Server(params)
        except RuntimeError:
            files = ", ".join(f"'{path}'" for path in adapters.values())
            more = f", and adapters that fit it in {files}" if files else ""
            raise InputError(
                f"'{source.path}': expected a model that llama.cpp can load{more}, got one that it "
                "refuses",
                code="llamacpp.cannot_load",
            ) from None
        address = urlsplit(self._server.listening_address).netloc
        self._connections = [http.client.HTTPConnection(address) for _ in range(slots)]
        # a server that ends before its loop has begun would wait for it for ever
        self._post(0, {"prompt": [self._plain], "n_predict": 1})

    def next_token(
        self, slot: int, ids: Sequence[int], sampling: Sampling, seed: int, adapter: str | None
    ) -> tuple[int, float]:
        """Draws the token after `ids`, and returns it with its log-probability.

        Args:
            slot: what has most of `ids`; one thread asks it at a time.
            ids: the prompt and what was drawn.
            sampling: how it is drawn.
            seed: of this draw, below 2^32 - 1.
            adapter: the name of the adapter that answers; None for the base.

        Raises:
            InterruptedRunError: llama.cpp failed, or the slot was abandoned.
        """
        body: dict[str, Any] = {
            "prompt": ids,
            "n_predict": 1,
            "id_slot": slot,
            "return_tokens": True,
            "response_fields": ANSWER_FIELDS,
            "n_probs": 1,
            "samplers": ["temperature", "top_k", "top_p"],  # no others, whatever the file states
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "seed": seed,
            "lora": self._scales(adapter),
        }
        answer = self._post(slot, body)
        token = int(answer["tokens"][0])
        if scored := answer.get("completion_probabilities"):
            return token, float(scored[0]["logprob"])
        return token, self._logprob(slot, body, token)

    def likeliest(
        self, ids: Sequence[int], most: int, adapter: str | None = None
    ) -> dict[int, float]:
        """Returns the log-probabilities of the tokens that are most likely after `ids`.

        Args:
            ids: what is read.
            most: how many; all that there are if it is the vocabulary.
            adapter: the adapter that answers; None for the base.

        Raises:
            InterruptedRunError: llama.cpp failed.
        """
        body = {
            "prompt": list(ids),
            "n_predict": 1,
            "n_probs": most,
            "temperature": 0,
            "cache_prompt": False,
            # of a token that ends within a character there would be none; they are without it
            "logit_bias": [[self._plain, CERTAIN]],
            "lora": self._scales(adapter),
        }
        (scored,) = self._post(0, body)["completion_probabilities"]
        return {int(row["id"]): float(row["logprob"]) for row in scored["top_logprobs"]}

    def tokens_of(self, text: str, *, bare: bool = False) -> list[int]:
        """Returns the tokens of a text, with what is added around it unless `bare`.

        The texts of special tokens are read as such.
        """
        body = {"content": text, "add_special": not bare, "parse_special": True}
        ids: list[int] = self._post(0, body, path="/tokenize")["tokens"]
        return ids

    def rendered(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Returns a chat as the template in the file renders it, the next answer begun."""
        body = {"messages": messages}
        text: str = self._post(0, body, path="/apply-template")["prompt"]
        return text

    def abandon(self, slot: int) -> None:
        """Ends what a slot computes, in whichever thread."""
        sock = self._connections[slot].sock
        if sock is not None:
            with suppress(OSError):  # it was closed meanwhile
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends its threads and frees the model; a second call does nothing."""
        self._server = None

    def _scales(self, adapter: str | None) -> list[dict[str, float]]:
        # all of them, with zeros: without, keys and values of another adapter would answer
        return [
            {"id": index, "scale": 1.0 if name == adapter else 0.0}
            for index, name in enumerate(self.adapters)
        ]

    def _logprob(self, slot: int, body: Mapping[str, Any], token: int) -> float:
        """Returns the log-probability of a token that ends within a character.

        llama.cpp gives them when a character is complete: a bias, which they do not contain, makes
        it say a letter.
        """
        for most in (FEW_LIKELIEST, self.vocabulary):
            letter = {"logit_bias": [[self._plain, CERTAIN]], "n_probs": most}
            answer = self._post(slot, {**body, **letter})
            for row in answer["completion_probabilities"][0]["top_logprobs"]:
                if row["id"] == token:
                    return float(row["logprob"])
        raise InterruptedRunError(
            f"llama.cpp gave no probability of token {token}", code="llamacpp.no_probability"
        )

    def _post(self, slot: int, body: Mapping[str, Any], path: str = "/completion") -> Any:  # noqa: ANN401
        connection = self._connections[slot]
        try:
            connection.request("POST", path, json.dumps(body), self._headers)
            response = connection.getresponse()
            answer: Any = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise InterruptedRunError(
                f"llama.cpp did not answer: {error}", code="llamacpp.no_answer"
            ) from error
        if response.status != 200:
            raise _failure(answer)
        return answer


def _failure(answer: Any) -> GymError:  # noqa: ANN401
    return InterruptedRunError(f"llama.cpp: {answer['error']['message']}", code="llamacpp.failed")
